"""The `moot` command: a table of subcommands that are imported on use, and the handling of all errors.

Nothing heavy may be imported here: `moot --help` is answered from this file alone.
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from moot import __version__
from moot.cli import output
from moot.cli.exits import Exit
from moot.cli.program import use_commands
from moot.daemon.process_protection import disable_memory_dumps
from moot.domain.errors import BadRequest, MootError
from moot.domain.near_names import find_near
from moot.import_path import forget_working_directory

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    """The module of a subcommand and its line in the help."""

    section: str
    target: str
    help: str


TALK, WORK, REMEMBER, RUN, SET_UP = "Talk", "Runs", "Stored data", "The daemon", "Set up"

COMMANDS: dict[str, CommandEntry] = {
    "chat": CommandEntry(TALK, "moot.cli.chat.command:chat", "Open a conversation in the terminal."),
    "ask": CommandEntry(TALK, "moot.cli.commands.ask:ask", "Send one message and print the answer."),
    "reply": CommandEntry(TALK, "moot.cli.commands.talk:reply", "Answer the question a run is waiting on."),
    "inbox": CommandEntry(TALK, "moot.cli.commands.inbox:inbox", "List and answer open questions and approvals."),
    "rules": CommandEntry(TALK, "moot.cli.commands.rules:rules", "List and remove approval rules."),
    "undo": CommandEntry(TALK, "moot.cli.commands.undo:undo", "Undo the newest change of files by an agent."),
    "trust": CommandEntry(TALK, "moot.cli.commands.trust:trust", "Trust untrusted content in a conversation so far."),
    "cwd": CommandEntry(TALK, "moot.cli.commands.cwd:cwd", "Show or set the default directory of a conversation."),
    "mode": CommandEntry(TALK, "moot.cli.commands.mode:mode", "Show or set what a conversation may do without asking."),
    "project": CommandEntry(
        TALK, "moot.cli.commands.project:project", "Show and approve the AGENTS.md that agents get."
    ),
    "kill": CommandEntry(
        TALK, "moot.cli.commands.talk:kill", "Stop the active run and background commands of a conversation."
    ),
    "compact": CommandEntry(TALK, "moot.cli.commands.talk:compact", "Compact the history into an archive."),
    "new": CommandEntry(TALK, "moot.cli.commands.resume:new", "Archive a conversation and start a new one."),
    "resume": CommandEntry(TALK, "moot.cli.commands.resume:resume", "List earlier conversations, or continue one."),
    "run": CommandEntry(
        WORK, "moot.cli.commands.run:run", "Start a run with its own conversation, also in the background."
    ),
    "ps": CommandEntry(WORK, "moot.cli.commands.ps:ps", "List active runs and what each waits for."),
    "show": CommandEntry(WORK, "moot.cli.commands.runs:show", "Show one run in full."),
    "attach": CommandEntry(WORK, "moot.cli.commands.runs:attach", "Follow an active run."),
    "logs": CommandEntry(WORK, "moot.cli.commands.runs:logs", "Show the messages of a run, or the daemon's log."),
    "wait": CommandEntry(WORK, "moot.cli.commands.wait:wait", "Wait for runs and print their results."),
    "stop": CommandEntry(WORK, "moot.cli.commands.runs:stop", "Stop a run and the runs it spawned."),
    "bg": CommandEntry(WORK, "moot.cli.commands.bg:bg", "Background tasks: submit, list, show, result, cancel."),
    "cron": CommandEntry(
        WORK, "moot.cli.commands.cron:cron", "Scheduled jobs: add, list, show, pause, resume, remove, run, history."
    ),
    "workflow": CommandEntry(
        WORK,
        "moot.cli.commands.workflow:workflow",
        "Workflows: run, show, list, history, cancel, save, schedule, check, remove.",
    ),
    "goals": CommandEntry(
        WORK, "moot.cli.commands.peers:goals", "List the runs and conversations that agents can write to."
    ),
    "peers": CommandEntry(
        WORK,
        "moot.cli.commands.peers:peers",
        "Messages between agents: list, send, watch, dead, resend, outbox, daemons, mute.",
    ),
    "digest": CommandEntry(REMEMBER, "moot.cli.commands.digest:digest", "Show what happened while you were away."),
    "history": CommandEntry(REMEMBER, "moot.cli.commands.memory:history", "Show a conversation."),
    "conversations": CommandEntry(REMEMBER, "moot.cli.commands.memory:conversations", "List the conversations."),
    "archives": CommandEntry(
        REMEMBER, "moot.cli.commands.memory:archives", "List the archives of a conversation, or show one."
    ),
    "recall": CommandEntry(REMEMBER, "moot.cli.commands.memory:recall", "Search the archives of a conversation."),
    "tasks": CommandEntry(REMEMBER, "moot.cli.commands.tasks:tasks", "List, add and close tasks of agents."),
    "memory": CommandEntry(
        REMEMBER, "moot.cli.commands.agent_memory:memory", "List, search, forget and export what agents remember."
    ),
    "knowledge": CommandEntry(
        REMEMBER,
        "moot.cli.commands.knowledge:knowledge",
        "List, search, save and forget stored knowledge; answer inquiries.",
    ),
    "learning": CommandEntry(
        REMEMBER, "moot.cli.commands.learning:learning", "Show and delete learnings from failures of tools."
    ),
    "graph": CommandEntry(
        REMEMBER, "moot.cli.commands.graph:graph", "The knowledge graph: show, facts, types, conflicts, import, export."
    ),
    "rag": CommandEntry(
        REMEMBER, "moot.cli.commands.rag:rag", "Documents: index files and pages, search, answer, list, forget."
    ),
    "usage": CommandEntry(REMEMBER, "moot.cli.commands.memory:usage", "Show tokens and cost per conversation."),
    "trace": CommandEntry(REMEMBER, "moot.cli.commands.trace:trace", "List turns, or show all events of one."),
    "replay": CommandEntry(
        REMEMBER, "moot.cli.commands.replay:replay", "Replay the model requests of a run and compare."
    ),
    "export": CommandEntry(REMEMBER, "moot.cli.commands.transfer:export", "Write a conversation as JSONL."),
    "import": CommandEntry(REMEMBER, "moot.cli.commands.transfer:import_", "Import a conversation from JSONL."),
    "delete": CommandEntry(REMEMBER, "moot.cli.commands.transfer:delete", "Delete a conversation."),
    "backup": CommandEntry(REMEMBER, "moot.cli.commands.backup:backup", "Back up everything while the daemon runs."),
    "restore": CommandEntry(REMEMBER, "moot.cli.commands.backup:restore", "Replace everything with a backup."),
    "serve": CommandEntry(RUN, "moot.cli.commands.daemon:serve", "Run the daemon in the foreground."),
    "up": CommandEntry(RUN, "moot.cli.commands.daemon:up", "Start the daemon in the background."),
    "down": CommandEntry(RUN, "moot.cli.commands.daemon:down", "Stop the daemon."),
    "status": CommandEntry(RUN, "moot.cli.commands.status:status", "Show what the daemon is doing."),
    "events": CommandEntry(RUN, "moot.cli.commands.events:events", "Show events as they happen."),
    "reload": CommandEntry(RUN, "moot.cli.commands.reload:reload", "Reload the configuration and the agents."),
    "service": CommandEntry(RUN, "moot.cli.commands.service:service", "Run the daemon as a service."),
    "nats": CommandEntry(
        RUN, "moot.cli.commands.nats:nats", "A NATS server that carries messages between daemons: dev, config."
    ),
    "demo": CommandEntry(SET_UP, "moot.cli.demo.command:demo", "Run a short tour; needs no key."),
    "init": CommandEntry(SET_UP, "moot.cli.setup.init:init", "Set up a model provider."),
    "doctor": CommandEntry(SET_UP, "moot.cli.doctor.command:doctor", "Check the installation and print fixes."),
    "models": CommandEntry(SET_UP, "moot.cli.commands.models:models", "List, pull, test and choose models."),
    "secrets": CommandEntry(
        SET_UP, "moot.cli.commands.secrets:secrets", "Store secrets that agents can use but never see."
    ),
    "mcp": CommandEntry(SET_UP, "moot.cli.commands.mcp:mcp", "Manage MCP servers: add, list, rm, test, approve."),
    "skills": CommandEntry(
        SET_UP, "moot.cli.commands.skills:skills", "Skills: list, show, new, add, validate, remove."
    ),
    "agents": CommandEntry(SET_UP, "moot.cli.commands.agents:agents", "List, show, create and check agents."),
    "tokens": CommandEntry(
        SET_UP, "moot.cli.commands.tokens:tokens", "Manage access tokens for clients: new, list, revoke."
    ),
    "help": CommandEntry(SET_UP, "moot.cli.commands.help:help_", "Show a page of the documentation."),
    "completion": CommandEntry(
        SET_UP, "moot.cli.commands.completion:completion", "Print the completion script for a shell."
    ),
    "uninstall": CommandEntry(SET_UP, "moot.cli.commands.uninstall:uninstall", "Remove what Moot has stored."),
}

ALIASES = {
    "conversation": "conversations",
    "convo": "conversations",
    "archive": "archives",
    "agent": "agents",
    "goal": "goals",
    "peer": "peers",
    "token": "tokens",
    "model": "models",
    "memories": "memory",
    "task": "tasks",
    "rule": "rules",
    "secret": "secrets",
    "skill": "skills",
    "workflows": "workflow",
}


_SHORT_HELP = """\
Usage: moot [OPTIONS] [COMMAND]

Without a command, in a terminal, moot opens the chat.

  moot chat AGENT          Open a conversation in the terminal.
  moot ask AGENT "TEXT"    Send one message and print the answer.
  moot init                Set up a model provider.
  moot doctor              Check the installation and print fixes.
  moot --help              List all commands.
"""
_UNKNOWN = re.compile("No such command '([^']+)'")
_NO_CHOICE = re.compile("'([^']*)' is not one of")
# What protobuf says about a number that does not fit into its field.
_OUT_OF_RANGE = re.compile(r"Value out of range: (-?\d+)")
# What click appends by itself.
_SUGGESTED = re.compile(r" Did you mean '[^']*'\?$")


class LazyGroup(click.Group):
    """A click group that imports a subcommand only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        return load_command(entry.target) if entry else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands by the table, so that none of them is imported."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell needs it

        found = [
            CompletionItem(name, help=entry.help) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if entry.section == section])


def load_command(target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="moot", message="%(prog)s %(version)s")
@click.option(
    "--address",
    envvar="MOOT_ADDRESS",
    metavar="HOST:PORT",
    help="Use the daemon at this TCP address, with the token in MOOT_TOKEN.",
)
@output.json_option
@click.pass_context
def moot(context: click.Context, address: str | None) -> None:
    """Talk to named agents that remember.

    Without a command, open the chat. Commands that need the daemon start it if it is not running.
    """
    context.obj = address
    if context.invoked_subcommand is None:
        _open_chat(context)


def _open_chat(context: click.Context) -> None:
    """Open the chat, on the first run after `init`; without a terminal print the short help."""
    if output.wants_json():
        raise click.UsageError("Missing command.", context)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        output.write(_SHORT_HELP)
        return
    from moot.cli.connect import find_paths  # noqa: PLC0415 - not needed for --help

    if not context.obj and not find_paths().config.exists():
        output.print_note("Moot has no model yet, so it is set up first.")
        context.invoke(load_command(COMMANDS["init"].target))
    context.invoke(load_command(COMMANDS["chat"].target))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    disable_memory_dumps()
    forget_working_directory()
    for stream in (sys.stdout, sys.stderr):
        # Replace characters that the terminal cannot encode instead of failing.
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; never raises."""
    own = list(arguments)
    use_commands((*COMMANDS, *ALIASES))
    # A usage error is raised before --json is parsed, but must also be printed as JSON.
    output.use_json("--json" in own[: own.index("--") if "--" in own else len(own)])
    try:
        # Commands return None or an exit code; click returns the code of its own exits.
        return int(moot.main(args=own, prog_name="moot", standalone_mode=False) or 0)
    except click.ClickException as error:
        return _print_usage_error(error)
    except MootError as error:
        return output.report_failure(error)
    except (KeyboardInterrupt, click.Abort):
        if output.wants_json():
            output.report_failure(_Interrupted("interrupted"))
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader closed the pipe; keep the interpreter from reporting that at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.OK)
    except Exception as error:
        # Top level: an unexpected exception is reported in one line.
        if os.environ.get("MOOT_TRACEBACK"):
            raise
        return output.report_failure(_explain_exception(error, own))


def _explain_exception(error: Exception, arguments: Sequence[str]) -> MootError:
    from moot.cli.connect import find_paths  # noqa: PLC0415 - not needed for --help
    from moot.daemon.paths import explain_full_disk, is_full  # noqa: PLC0415 - not needed for --help

    if isinstance(error, UnicodeEncodeError) and any(error.object in argument for argument in arguments):
        # An argument with bytes that are not UTF-8 fits into no request.
        return BadRequest("the text is not valid UTF-8", fix="Check the encoding of your terminal.")
    if isinstance(error, ValueError) and (found := _OUT_OF_RANGE.fullmatch(str(error))):
        return BadRequest(f"{found[1]} is too large", fix="Use a smaller number.")
    if isinstance(error, OSError) and is_full(error):
        return explain_full_disk(error, find_paths())
    fix = "This is a bug in Moot. MOOT_TRACEBACK=1 shows where it is."
    return MootError(f"{type(error).__name__}: {error}", fix=fix)


class _Interrupted(MootError):
    type = "interrupted"


class _Usage(MootError):
    type = "usage"


def _print_usage_error(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not output.wants_json():
        output.print_note(error.format_message())
        return int(Exit.USAGE)
    context = getattr(error, "ctx", None)
    command = context.command_path if isinstance(context, click.Context) else "moot"
    near = _suggest_command(error) or _suggest_choice(error)
    # One suggestion is enough, and an empty choice stands for none.
    message = error.format_message()
    message = (_SUGGESTED.sub("", message) if near else message).replace("is not one of '', ", "is not one of ")
    output.report_failure(_Usage(message, fix=f"{near}`{command} --help` shows how it is used."))
    return int(Exit.USAGE)


def _suggest_command(error: click.ClickException) -> str:
    """The closest existing command to an unknown one."""
    unknown, context = _UNKNOWN.match(error.format_message()), getattr(error, "ctx", None)
    if unknown is None or not isinstance(context, click.Context) or not isinstance(context.command, click.Group):
        return ""
    near = find_near(unknown[1], context.command.list_commands(context), most=2)
    names = " or ".join(f"{context.command_path} {name}" for name in near)
    return f"Did you mean: {names}? " if near else ""


def _suggest_choice(error: click.ClickException) -> str:
    """The closest of the values that can be chosen."""
    given, parameter = _NO_CHOICE.search(error.format_message()), getattr(error, "param", None)
    if given is None or not isinstance(parameter, click.Parameter) or not isinstance(parameter.type, click.Choice):
        return ""
    near = find_near(given[1], [str(choice) for choice in parameter.type.choices if choice], most=1)
    return f"Did you mean {near[0]}? " if near else ""
