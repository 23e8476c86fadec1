"""The `moot` command: a table of subcommands, loaded when used, and the one place where errors end.

Nothing heavy may be imported here: `moot --help` is answered from this file alone.
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import click

from moot import __version__
from moot.cli import output
from moot.cli.exits import Exit
from moot.domain.errors import MootError


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a subcommand lives, and its line in the help."""

    section: str
    target: str
    help: str


TALK, WORK, REMEMBER, RUN, SET_UP = "Talk", "Runs", "Look and keep", "The daemon", "Set up"

COMMANDS: dict[str, Entry] = {
    "chat": Entry(TALK, "moot.cli.chat.command:chat", "Open a conversation in the terminal."),
    "ask": Entry(TALK, "moot.cli.commands.ask:ask", "Send one message and print the answer."),
    "reply": Entry(TALK, "moot.cli.commands.talk:reply", "Answer the question a run is waiting on."),
    "inbox": Entry(TALK, "moot.cli.commands.inbox:inbox", "What waits for you: questions and approvals."),
    "rules": Entry(TALK, "moot.cli.commands.rules:rules", "List and take back what you allowed for good."),
    "trust": Entry(TALK, "moot.cli.commands.trust:trust", "Trust what strangers said in a conversation so far."),
    "kill": Entry(TALK, "moot.cli.commands.talk:kill", "Stop the run in flight."),
    "compact": Entry(TALK, "moot.cli.commands.talk:compact", "Turn the history into an archive now."),
    "run": Entry(WORK, "moot.cli.commands.run:run", "Give an agent a task of its own, also in the background."),
    "ps": Entry(WORK, "moot.cli.commands.ps:ps", "List the runs that go on, and what each waits for."),
    "show": Entry(WORK, "moot.cli.commands.runs:show", "Show one run whole."),
    "attach": Entry(WORK, "moot.cli.commands.runs:attach", "Join a run that goes on."),
    "logs": Entry(WORK, "moot.cli.commands.runs:logs", "Show what was said and done in a run."),
    "wait": Entry(WORK, "moot.cli.commands.runs:wait", "Wait for runs and print what came of them."),
    "stop": Entry(WORK, "moot.cli.commands.runs:stop", "Stop a run and everything it set to work."),
    "history": Entry(REMEMBER, "moot.cli.commands.memory:history", "Show a conversation."),
    "conversations": Entry(REMEMBER, "moot.cli.commands.memory:conversations", "List the conversations."),
    "archives": Entry(
        REMEMBER, "moot.cli.commands.memory:archives", "List the archives of a conversation, or show one."
    ),
    "recall": Entry(REMEMBER, "moot.cli.commands.memory:recall", "Search the archives of a conversation."),
    "usage": Entry(REMEMBER, "moot.cli.commands.memory:usage", "Show tokens and cost per conversation."),
    "trace": Entry(REMEMBER, "moot.cli.commands.trace:trace", "List turns, or show all that happened in one."),
    "export": Entry(REMEMBER, "moot.cli.commands.transfer:export", "Write a conversation as JSONL."),
    "import": Entry(REMEMBER, "moot.cli.commands.transfer:import_", "Make a conversation from JSONL."),
    "delete": Entry(
        REMEMBER, "moot.cli.commands.transfer:delete", "Delete a conversation, after showing what would go."
    ),
    "backup": Entry(REMEMBER, "moot.cli.commands.transfer:backup", "Copy the store while the daemon runs."),
    "restore": Entry(REMEMBER, "moot.cli.commands.transfer:restore", "Put a backup in the store's place."),
    "serve": Entry(RUN, "moot.cli.commands.daemon:serve", "Run the daemon in the foreground."),
    "up": Entry(RUN, "moot.cli.commands.daemon:up", "Start the daemon in the background."),
    "down": Entry(RUN, "moot.cli.commands.daemon:down", "Stop the daemon."),
    "status": Entry(RUN, "moot.cli.commands.daemon:status", "Show what the daemon is doing."),
    "events": Entry(RUN, "moot.cli.commands.daemon:events", "Follow everything that happens, live."),
    "reload": Entry(RUN, "moot.cli.commands.daemon:reload", "Read the configuration and the agents again."),
    "demo": Entry(SET_UP, "moot.cli.demo.command:demo", "See it work, without a key."),
    "init": Entry(SET_UP, "moot.cli.setup.init:init", "Set up a model provider."),
    "doctor": Entry(SET_UP, "moot.cli.doctor.command:doctor", "Check everything and say how to mend it."),
    "models": Entry(SET_UP, "moot.cli.commands.models:models", "List, pull and test models."),
    "secrets": Entry(SET_UP, "moot.cli.commands.secrets:secrets", "Keep values that agents may use and never see."),
    "mcp": Entry(SET_UP, "moot.cli.commands.mcp:mcp", "Use tools of MCP servers: add, list, rm, test, approve."),
    "skills": Entry(SET_UP, "moot.cli.commands.skills:skills", "Skills: list, show, new, validate, remove, restore."),
    "agents": Entry(SET_UP, "moot.cli.commands.agents:agents", "List, show, make and check agents."),
    "tokens": Entry(SET_UP, "moot.cli.commands.tokens:tokens", "Let other programs in: new, list, revoke."),
}

ALIASES = {
    "conversation": "conversations",
    "convo": "conversations",
    "archive": "archives",
    "agent": "agents",
    "token": "tokens",
    "model": "models",
    "rule": "rules",
    "secret": "secrets",
    "skill": "skills",
}


_UNKNOWN = re.compile("No such command '([^']+)'")


class LazyGroup(click.Group):
    """Knows its subcommands by the table and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        return load(entry.target) if entry else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if entry.section == section])


def load(target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="moot", message="%(prog)s %(version)s")
@click.option(
    "--address",
    envvar="MOOT_ADDRESS",
    metavar="HOST:PORT",
    help="Talk to a daemon over TCP, with the token in MOOT_TOKEN, instead of to your own.",
)
@output.json_option
@click.pass_context
def moot(context: click.Context, address: str | None) -> None:
    """Talk to named agents that remember.

    Commands that need the daemon start it when it is not running.
    """
    context.obj = address


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not cost the answer.
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; no exception leaves here."""
    own = list(arguments)
    # A usage error is raised before --json is parsed, and must be a document all the same.
    output.use_json("--json" in own[: own.index("--") if "--" in own else len(own)])
    try:
        # Commands return nothing, or the code they want; click hands on the code of its own exits.
        return int(moot.main(args=own, prog_name="moot", standalone_mode=False) or 0)
    except click.ClickException as error:
        return _usage(error)
    except MootError as error:
        return output.fail(error)
    except (KeyboardInterrupt, click.Abort):
        if output.wants_json():
            output.fail(_Interrupted("interrupted"))
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read us has read enough; keep the interpreter from complaining about it on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.OK)
    except Exception as error:
        # The outermost edge: a bug becomes one clear line.
        if os.environ.get("MOOT_TRACEBACK"):
            raise
        fix = "This is a bug in Moot. MOOT_TRACEBACK=1 shows where it is."
        return output.fail(MootError(f"{type(error).__name__}: {error}", fix=fix))


class _Interrupted(MootError):
    type = "interrupted"


class _Usage(MootError):
    type = "usage"


def _usage(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not output.wants_json():
        output.note(error.format_message())
        return int(Exit.USAGE)
    context = getattr(error, "ctx", None)
    command = context.command_path if isinstance(context, click.Context) else "moot"
    mended = _Usage(error.format_message(), fix=f"{_meant(error)}`{command} --help` shows how it is used.")
    output.fail(mended)
    return int(Exit.USAGE)


def _meant(error: click.ClickException) -> str:
    """What a command that is not there was perhaps meant to be."""
    unknown = _UNKNOWN.match(error.format_message())
    near = get_close_matches(unknown[1], COMMANDS, n=2, cutoff=0.6) if unknown else []
    return f"Did you mean: {' or '.join(f'moot {name}' for name in near)}? " if near else ""
