"""`moot secrets`: stores values that agents can use by reference and never see."""

import os
import sys
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.connect import require_utf8, send_request
from moot.cli.render import numbers, sanitize, terminal
from moot.cli.stdin import read_stdin
from moot.domain.errors import BadRequest, NotFound
from moot.wire import moot_pb2 as pb


@click.group()
def secrets() -> None:
    """Store secrets that agents can use but never see: set, list, rm, audit."""


@secrets.command("set")
@click.argument("name")
# A value on the command line would stay in the shell's history and be seen by everyone who lists processes.
@click.argument("value", nargs=-1, metavar="")
@click.option("--from-env", "variable", metavar="VAR", help="Take the value from this environment variable.")
@output.json_option
def set_secret(name: str, value: tuple[str, ...], variable: str | None) -> None:
    """Store a secret as NAME. The value is read from stdin, or prompted for on a terminal."""
    if value:
        raise BadRequest(
            "a secret cannot be given on the command line, where it would stay in the shell's history",
            fix="Omit the value and type it when prompted, pipe it in, or use --from-env VAR.",
        )
    asked = pb.SetSecretMsg(name=name, value=_read_environment(variable) if variable else _read_value(name))
    done = send_request(pb.ClientMessage(set_secret=asked)).secret_set
    verb = "Replaced" if done.replaced else "Stored"
    output.emit(
        {"name": done.name, "replaced": done.replaced},
        render=lambda _: (
            f"{verb} {sanitize.line(done.name)}. Agents refer to it as {{{{secret:{sanitize.line(done.name)}}}}}."
        ),
    )


@secrets.command("list")
@output.json_option
def list_secrets() -> None:
    """List the names, never the values."""
    answer = send_request(pb.ClientMessage(list_secrets=pb.ListSecretsMsg())).secret_list

    def render(_: Any) -> str:
        rows = [
            [
                info.name,
                numbers.format_time(info.created_at),
                numbers.format_time(info.updated_at),
                str(info.uses),
                numbers.format_time(info.used_at) or "never",
            ]
            for info in answer.secrets
        ]
        return terminal.render_table(["NAME", "MADE", "CHANGED", "USES", "USED"], rows) or "No secrets."

    data = {
        "key": answer.key,
        "secrets": [
            {
                "name": info.name,
                "created_at": info.created_at,
                "updated_at": info.updated_at,
                "uses": info.uses,
                "used_at": info.used_at or None,
            }
            for info in answer.secrets
        ],
    }
    output.emit(data, render=render)


@secrets.command("rm")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Remove without asking.")
@output.json_option
def remove(name: str, yes: bool) -> None:
    """Delete secret NAME permanently. Asks for confirmation."""
    if not yes:
        _require_secret(name)
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest("nothing was removed: there is no terminal to confirm on", fix="Add --yes.")
        output.print_note(f"This deletes the secret {sanitize.line(name)}. This cannot be undone.")
        prompts.require_confirmation("Delete it?")
    send_request(pb.ClientMessage(remove_secret=pb.RemoveSecretMsg(name=name)))
    output.emit({"name": name, "removed": True}, render=lambda _: f"Removed {sanitize.line(name)}.")


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


def _require_secret(name: str) -> None:
    known = send_request(pb.ClientMessage(list_secrets=pb.ListSecretsMsg())).secret_list.secrets
    if name not in {info.name for info in known}:
        raise NotFound(f"there is no secret {name!r}", fix="`moot secrets list` lists them.")


def _use_data(use: pb.SecretUseInfo) -> dict[str, Any]:
    return {
        "at": use.at,
        "name": use.name,
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
        return str(click.prompt(f"Value of {sanitize.line(name)} (not shown)", hide_input=True, err=True))
    # Remove one trailing line break, as added by `echo` and editors.
    return read_stdin().removesuffix("\n").removesuffix("\r")
