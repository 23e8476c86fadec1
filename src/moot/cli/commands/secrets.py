"""`moot secrets`: stores values that agents can use by reference and never see."""

import os
import sys
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.connect import find_paths, require_utf8, send_request
from moot.cli.name_completion import complete_secrets
from moot.cli.program import hint
from moot.cli.render import numbers, sanitize, terminal
from moot.cli.setup.config_edit import has_secret
from moot.cli.stdin import read_stdin
from moot.daemon.process_protection import hide_memory
from moot.domain.errors import BadRequest, NotFound
from moot.domain.secret import OWNER
from moot.wire import moot_pb2 as pb

# The lists of a scope.
_PATTERNS = ("agents", "senders", "tools", "hosts")


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def secrets(context: click.Context) -> None:
    """Store secrets that agents can use but never see: set, list, scope, rm, audit. Without a command: list."""
    if context.invoked_subcommand is None:
        context.invoke(list_secrets)


@secrets.command("set")
@click.argument("name", shell_complete=complete_secrets)
# A value on the command line would stay in the shell's history and be seen by everyone who lists processes.
@click.argument("value", nargs=-1, metavar="")
@click.option("--from-env", "variable", metavar="VAR", help="Take the value from this environment variable.")
@click.option("--new-key", is_flag=True, help="If the master key is lost: go on with a new one.")
@output.json_option
def set_secret(name: str, value: tuple[str, ...], variable: str | None, new_key: bool) -> None:
    """Store a secret as NAME. The value is read from stdin, or prompted for on a terminal.

    If the master key is missing, nothing is stored, because it may only have been moved. With --new-key a new one is
    made; secrets sealed with the old one stay, marked as unreadable, until you set or remove them.
    """
    hide_memory()
    if value:
        raise BadRequest(
            "a secret cannot be given on the command line, where it would stay in the shell's history",
            fix="Omit the value and type it when prompted, pipe it in, or use --from-env VAR.",
        )
    given = _read_environment(variable) if variable else _read_value(name)
    request = pb.SetSecretMsg(name=name, value=given, new_key=new_key)
    done = send_request(pb.ClientMessage(set_secret=request)).secret_set
    data = {"name": done.name, "replaced": done.replaced, "scope": _scope_data(done.scope)}
    output.emit(data, render=lambda _: _render_stored(done))


def _render_stored(done: pb.SecretSet) -> str:
    name = sanitize.name(done.name)
    stored = f"{'Replaced' if done.replaced else 'Stored'} {name}."
    if done.scope.configuration_only:
        return f"{stored} The configuration refers to it as secret:{name}; agents cannot use it."
    if has_secret(find_paths().config, done.name):
        return hint(
            f"{stored} The configuration refers to it as secret:{name}. Agents can use it too, if you approve the call;"
            f" `moot secrets scope {name} --configuration-only` prevents that."
        )
    return f"{stored} Agents refer to it as {{{{secret:{name}}}}}."


def _render_use(info: pb.SecretInfo) -> tuple[str, str]:
    """How often and when agents used a secret. What the configuration refers to is used without being counted."""
    if info.scope.configuration_only:
        return "-", "not counted"
    return str(info.uses), numbers.format_time(info.used_at) or "never"


@secrets.command("list")
@output.json_option
def list_secrets() -> None:
    """List the names, never the values. A secret whose master key is missing is marked as unreadable."""
    answer = send_request(pb.ClientMessage(list_secrets=pb.ListSecretsMsg())).secret_list

    def render(_: Any) -> str:
        rows = [
            [
                info.name,
                info.owner,
                numbers.format_time(info.created_at),
                numbers.format_time(info.updated_at),
                *_render_use(info),
                "unreadable: set it again" if info.unreadable else _render_scope(info.scope),
            ]
            for info in answer.secrets
        ]
        headers = ["NAME", "OWNER", "CREATED", "CHANGED", "USES", "USED", "SCOPE"]
        return terminal.render_table(headers, rows) or "No secrets."

    data = {
        "key": answer.key,
        "secrets": [
            {
                "name": info.name,
                "owner": info.owner,
                "scope": _scope_data(info.scope),
                "created_at": info.created_at,
                "updated_at": info.updated_at,
                "uses": info.uses,
                "used_at": info.used_at or None,
                "readable": not info.unreadable,
            }
            for info in answer.secrets
        ],
    }
    output.emit(data, render=render)


@secrets.command()
@click.argument("name", shell_complete=complete_secrets)
@click.option("--agent", "agents", multiple=True, metavar="PATTERN", help="An agent that may use it.")
@click.option("--sender", "senders", multiple=True, metavar="PATTERN", help="Another sender that may use it.")
@click.option("--tool", "tools", multiple=True, metavar="PATTERN", help="A tool that may use it.")
@click.option("--host", "hosts", multiple=True, metavar="PATTERN", help="A host it may be sent to.")
@click.option("--configuration-only", is_flag=True, help="No agent may use it, only the configuration.")
@click.option("--clear", is_flag=True, help="Remove the scope.")
@click.option("--owner", default="", metavar="SENDER", help="The sender it belongs to, if it is not yours.")
@output.json_option
def scope(name: str, clear: bool, owner: str, configuration_only: bool, **patterns: tuple[str, ...]) -> None:
    """Show or replace the scope of secret NAME: which agents, senders, tools and hosts may use it.

    A call outside the scope is refused. Every use needs your approval, unless the scope names
    agents and tools. Options can be repeated; PATTERN may contain * and ?.
    """
    info = _require_secret(name, owner)
    if configuration_only and any(patterns.values()):
        raise click.UsageError("--configuration-only goes with no other option.")
    wanted = pb.SecretScope(**patterns, configuration_only=configuration_only)
    if clear and wanted != pb.SecretScope():
        raise click.UsageError("--clear goes with no other option.")
    if clear or wanted != pb.SecretScope():
        request = pb.ScopeSecretMsg(name=name, owner=info.owner, scope=wanted)
        send_request(pb.ClientMessage(scope_secret=request))
        info.scope.CopyFrom(wanted)
    data = {"name": info.name, "owner": info.owner, "scope": _scope_data(info.scope)}
    output.emit(data, render=lambda _: f"{sanitize.name(info.name)}: {_render_scope(info.scope)}")


def _render_scope(scope: pb.SecretScope) -> str:
    if scope.configuration_only:
        return "the configuration only"
    named = [f"{kind}: {', '.join(getattr(scope, kind))}" for kind in _PATTERNS if getattr(scope, kind)]
    asks = "" if scope.agents and scope.tools and not scope.hosts else "; asks at every use"
    return sanitize.exact_line(("; ".join(named) or "any agent and tool") + asks)


def _scope_data(scope: pb.SecretScope) -> dict[str, Any]:
    patterns = {kind: list(getattr(scope, kind)) for kind in _PATTERNS}
    return {**patterns, "configuration_only": scope.configuration_only}


@secrets.command("rm")
@click.argument("name", shell_complete=complete_secrets)
@click.option("--yes", is_flag=True, help="Remove without asking.")
@click.option("--owner", default="", metavar="SENDER", help="The sender it belongs to, if it is not yours.")
@output.json_option
def remove(name: str, yes: bool, owner: str) -> None:
    """Delete secret NAME permanently. Asks for confirmation."""
    if not yes:
        _require_secret(name, owner)
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest("nothing was removed: there is no terminal to confirm on", fix="Add --yes.")
        output.print_note(f"This deletes the secret {sanitize.name(name)}. This cannot be undone.")
        prompts.require_confirmation("Delete it?")
    send_request(pb.ClientMessage(remove_secret=pb.RemoveSecretMsg(name=name, owner=owner)))
    output.emit({"name": name, "removed": True}, render=lambda _: f"Removed {sanitize.name(name)}.")


@secrets.command()
@click.argument("name", default="")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many lines.")
@output.json_option
def audit(name: str, limit: int) -> None:
    """Show the uses of secrets, newest first; with NAME, only that one."""
    request = pb.AuditSecretsMsg(name=name, limit=limit)
    uses = send_request(pb.ClientMessage(audit_secrets=request)).secret_audit.uses
    if name and not uses:
        _require_secret(name)

    def render(_: Any) -> str:
        rows = [
            [
                numbers.format_time(use.at),
                use.name,
                use.action,
                use.agent or "you",
                use.sender,
                use.tool or "-",
                use.run or "-",
            ]
            for use in uses
        ]
        return terminal.render_table(["AT", "NAME", "ACTION", "AGENT", "SENDER", "TOOL", "RUN"], rows) or "Nothing yet."

    output.emit([_use_data(use) for use in uses], render=render)


def _require_secret(name: str, owner: str = "") -> pb.SecretInfo:
    known = send_request(pb.ClientMessage(list_secrets=pb.ListSecretsMsg())).secret_list.secrets
    for info in known:
        if info.name == name and info.owner == (owner or OWNER):
            return info
    raise NotFound(f"there is no secret {name!r}", fix="`moot secrets list` lists them.")


def _use_data(use: pb.SecretUseInfo) -> dict[str, Any]:
    return {
        "at": use.at,
        "name": use.name,
        "owner": use.owner,
        "action": use.action,
        "agent": use.agent,
        "sender": use.sender,
        "tool": use.tool,
        "run": use.run,
    }


def _read_environment(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise BadRequest(f"the environment variable {variable} is not set", fix=f"Run: export {variable}=…")
    return require_utf8(value)


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {sanitize.name(name)} (not shown)", hide_input=True, err=True))
    # Remove one trailing line break, as added by `echo` and editors.
    return read_stdin().removesuffix("\n").removesuffix("\r")
