"""`moot inbox`: lists open questions and approvals and answers them."""

import shlex
import sys
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.connect import require_utf8, send_request
from moot.cli.exits import Exit
from moot.cli.follow import ask_numbers, open_asks
from moot.cli.name_completion import complete_asks
from moot.cli.render import approvals, asker_lines, flow, numbers, questions, sanitize, terminal
from moot.cli.stdin import read_stdin
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb

# How ids begin: this much of one says nothing about which ask is meant, also if only one is open.
_EVERY_ID = ("ask-run-", "ask-arun-")


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def inbox(context: click.Context) -> None:
    """List and answer open questions and approvals.

    ID is the short id that is shown, the whole one of --json or a unique prefix of it, or the
    number shown by the last list in this terminal.
    """
    if context.invoked_subcommand is None:
        _list()


@inbox.command("list")
@output.json_option
def list_inbox() -> None:
    """List open asks, oldest first."""
    _list()


def _list() -> None:
    found = _fetch_open_asks()

    def render(_: Any) -> str:
        if found and sys.stdout.isatty():
            ask_numbers.remember_list(found)
            return "\n".join(_render_numbered(found))
        rows = [
            [
                shorten_ask_id(info.ask_id),
                info.kind,
                _render_asker(info),
                info.agent,
                info.sender,
                numbers.format_time(info.expires_at),
                _render_subject(info),
            ]
            for info in found
        ]
        table = terminal.render_table(["ID", "KIND", "BY", "AGENT", "SENDER", "UNTIL", "WHAT"], rows)
        return "\n".join([table, *_render_reasons(found)]) if table else "Nothing is waiting for you."

    output.emit([open_asks.dump_ask(info) for info in found], render=render)


def _render_numbered(found: list[pb.AskInfo]) -> list[str]:
    """The list for a terminal: shortened entries, each with a number."""
    width = terminal.row_width(sys.stdout)
    folders = _fetch_folders()
    lines = [
        line
        for number, info in enumerate(found, 1)
        for line in (*open_asks.render_entry(info, number, width, folders.get(info.run_id, "")), "")
    ]
    return lines + [
        terminal.paint(flow.wrap_text(line, width, indent="  "), dim=True)
        for line in open_asks.render_instructions(found)
    ]


def _fetch_folders() -> dict[str, str]:
    """The working directories of active runs by run id."""
    found = send_request(pb.ClientMessage(list_runs=pb.ListRunsMsg())).run_list.runs
    return {info.run_id: info.cwd for info in found}


@inbox.command()
@click.argument("ask_id", metavar="ID", shell_complete=complete_asks)
@output.json_option
def show(ask_id: str) -> None:
    """Show ask ID in full: the call, its arguments, the preview, and the rules that can be written."""
    info = _fetch_full(_find_ask(ask_id))
    output.emit(open_asks.dump_ask(info), render=lambda _: "\n".join(_render_ask(info, terminal.row_width(sys.stdout))))


@inbox.command()
@click.argument("ask_id", metavar="ID", shell_complete=complete_asks)
@click.option("--once", is_flag=True, help="Allow this one call. The default.")
@click.option("--run", is_flag=True, help="Allow this call for the rest of this run.")
@click.option("--conversation", is_flag=True, help="Allow this call in this conversation, not in background runs.")
@click.option("--always", is_flag=True, help="Always allow this call; the rule is shown before it is written.")
@click.option("--any", "whole", is_flag=True, help="With --run or --always: allow any call of the tool.")
@click.option(
    "--pattern",
    default="",
    metavar="PATTERN",
    help="With --run, --conversation or --always: allow all calls like it. The number of a pattern that"
    " `moot inbox show` lists, or one of your own.",
)
@click.option("--yes", is_flag=True, help="Write the rule of --always, --any or --pattern without asking.")
@click.option("--attempt", type=click.IntRange(min=1), default=None, help="Only if the ask is still at this attempt.")
@output.json_option
def approve(ask_id: str, *, whole: bool, pattern: str, yes: bool, attempt: int | None, **chosen: bool) -> int:
    """Allow the call of ask ID.

    Without --attempt the call is shown in full and has to be confirmed. A script names the
    attempt it has read (`moot inbox --json`). If the call has changed since, nothing is decided.

    A rule for a command covers that command in its folder; any other rule covers exactly the same arguments. A PATTERN
    for a command is its words, with {path:/DIR}, {number} or {one:A|B} for those that may vary: a path below a
    directory, a number, one of a list. For edits it is {path:/DIR}, for web pages {host:https://NAME}.
    """
    wanted = [name for name, given in chosen.items() if given] or ["once"]
    if len(wanted) > 1:
        raise click.UsageError("Choose one of --once, --run, --conversation and --always.")
    if (whole or pattern) and wanted == ["once"]:
        raise click.UsageError("--any and --pattern go with --run, --conversation or --always.")
    if whole and pattern:
        raise click.UsageError("Choose one of --any and --pattern.")
    info = _fetch_full(_find_approval(ask_id))
    _show(info)
    chosen_pattern = _find_pattern(info, pattern) if pattern else None
    if attempt is None:
        attempt = _confirm_call(info, _list_options(wanted, whole=whole, pattern=pattern, yes=yes))
    rule = chosen_pattern.rule if chosen_pattern else info.whole_rule if whole else info.rule
    # If no rule can be written, skip the confirmation: the daemon reports why.
    if rule and (whole or chosen_pattern or wanted == ["always"]) and not yes:
        _confirm_rule(rule, wanted[0])
    message = pb.DecideAskMsg(ask_id=info.ask_id, attempt=attempt, decision=wanted[0], whole_tool=whole)
    if chosen_pattern is not None:
        message.pattern = chosen_pattern.text
    return _decide(info, message)


@inbox.command()
@click.argument("ask_id", metavar="ID", shell_complete=complete_asks)
@click.option("--reason", default="", metavar="TEXT", help="Why; the agent reads it.")
@click.option("--attempt", type=click.IntRange(min=1), default=None, help="Only if the ask is still at this attempt.")
@output.json_option
def deny(ask_id: str, reason: str, attempt: int | None) -> int:
    """Deny the call of ask ID. The agent receives the reason, if you give one, and may continue without the call."""
    info = _find_approval(ask_id)
    # Denying a call that was not shown does no harm.
    message = pb.DecideAskMsg(ask_id=info.ask_id, attempt=attempt or info.attempt, decision="deny")
    message.reason = require_utf8(reason)
    return _decide(info, message)


@inbox.command()
@click.argument("ask_id", metavar="ID", shell_complete=complete_asks)
@click.argument("text")
@click.option("--attempt", type=click.IntRange(min=1), default=None, help="Only if the ask is still at this attempt.")
@output.json_option
def reply(ask_id: str, text: str, attempt: int | None) -> None:
    """Answer question ID with TEXT: text, the number of an option, or - for stdin."""
    info = _find_ask(ask_id)
    if info.kind != "question":
        raise BadRequest(
            "it is an approval; text cannot approve a call",
            fix=f"Decide with: moot inbox approve {shorten_ask_id(info.ask_id)}, or deny.",
        )
    oldest = next(each for each in _fetch_open_asks() if _is_same_conversation(each, info))
    if oldest.ask_id != info.ask_id:
        raise Conflict("the conversation has an older question", fix=f"Answer {shorten_ask_id(oldest.ask_id)} first.")
    if info.attempt != (attempt or (info.attempt if _is_number(ask_id) else 1)):
        _show(info)
        raise Conflict(
            f"nothing was answered: the question has changed and is at attempt {info.attempt}",
            fix=f"Answer it with: moot inbox reply {shorten_ask_id(info.ask_id)} --attempt {info.attempt} TEXT",
        )
    content = read_stdin() if text == "-" else require_utf8(text)
    if len(info.questions) == 1:
        content = questions.parse_answer(info.questions[0], content)
    answer = questions.address_reply(info, info.agent, info.sender, content)
    send_request(pb.ClientMessage(reply_to_ask=answer))
    output.emit({"ask_id": info.ask_id, "answered": True}, render=lambda _: "Answered; the run continues.")


# ---- which ask an id means, and how it is shown ----


def _fetch_open_asks() -> list[pb.AskInfo]:
    found = send_request(pb.ClientMessage(list_asks=pb.ListAsksMsg())).ask_list.asks
    return sorted(found, key=lambda info: info.opened_at)


def _fetch_full(info: pb.AskInfo) -> pb.AskInfo:
    """Fetch the complete ask; lists shorten long ones."""
    named = pb.ListAsksMsg(ask_id=info.ask_id)
    found = send_request(pb.ClientMessage(list_asks=named)).ask_list.asks
    return next((each for each in found if each.ask_id == info.ask_id), info)


def _is_same_conversation(one: pb.AskInfo, other: pb.AskInfo) -> bool:
    return one.kind == other.kind and (one.agent, one.sender) == (other.agent, other.sender)


def _find_ask(ask_id: str) -> pb.AskInfo:
    open_now = _fetch_open_asks()
    exact = [info for info in open_now if ask_id in (info.ask_id, shorten_ask_id(info.ask_id))]
    found = exact or [info for info in open_now if ask_id and _starts_with(info, ask_id)]
    if _is_number(ask_id) and not exact:
        found.append(ask_numbers.find_by_number(int(ask_id), open_now))
    if not found:
        raise NotFound(f"no open ask has the id {ask_id!r}", fix="`moot inbox` lists the open asks.")
    if len({info.ask_id for info in found}) > 1:
        ids = ", ".join(shorten_ask_id(info.ask_id) for info in found)
        raise BadRequest(f"{ask_id!r} is ambiguous: {ids}", fix="Give more characters of the id.")
    if not exact and any(each.startswith(ask_id) for each in _EVERY_ID):
        raise BadRequest(f"every id begins with {ask_id!r}", fix="Give more characters of the id.")
    return found[0]


def _starts_with(info: pb.AskInfo, start: str) -> bool:
    return any(each.startswith(start) for each in (info.ask_id, shorten_ask_id(info.ask_id)))


def _is_number(ask_id: str) -> bool:
    """Whether it can be a number of the last list, which also names the attempt that was listed."""
    return len(ask_id) < 5 and ask_id.isascii() and ask_id.isdecimal()


def _find_approval(ask_id: str) -> pb.AskInfo:
    info = _find_ask(ask_id)
    if info.kind == "question":
        raise BadRequest("it is a question", fix=f'Answer with: moot inbox reply {shorten_ask_id(info.ask_id)} "TEXT"')
    return info


def _show(info: pb.AskInfo) -> None:
    """Print the whole ask on stderr."""
    if not output.wants_json():
        output.print_note("\n".join(_render_ask(info, terminal.row_width(sys.stderr))))


def _list_options(wanted: list[str], *, whole: bool, pattern: str, yes: bool) -> list[str]:
    """The options as they were typed, for the command that decides."""
    options = [f"--{name}" for name in wanted if name != "once"]
    options += [*(["--any"] if whole else []), *(["--pattern", shlex.quote(pattern)] if pattern else [])]
    return [*options, *(["--yes"] if yes else [])]


def _confirm_call(info: pb.AskInfo, options: list[str]) -> int:
    """Ask whether to allow the call that was just shown; return its attempt."""
    name = shorten_ask_id(info.ask_id)
    if output.wants_json() or not sys.stdin.isatty():
        raise BadRequest(
            f"nothing was decided: name the attempt of {name} that you have read",
            fix=" ".join(["moot inbox approve", name, "--attempt", str(info.attempt), *options]),
        )
    # What was typed before the call was shown does not allow it.
    prompts.discard_typed()
    click.confirm("Allow it?", abort=True, err=True)
    return int(info.attempt)


def _find_pattern(info: pb.AskInfo, written: str) -> pb.PatternInfo:
    """Return the pattern with this number, or the one that was written, with the rule it stands for."""
    if _is_number(written):
        if 0 < int(written) <= len(info.patterns):
            return info.patterns[int(written) - 1]
        count = len(info.patterns)
        fix = "Write one of your own, or decide without --pattern."
        if count:
            fix = f"Use {'1' if count == 1 else f'1 to {count}'}, or write one of your own."
        raise BadRequest(f"no pattern with the number {int(written)} is offered for this call", fix=fix)
    named = pb.ListAsksMsg(ask_id=info.ask_id, pattern=require_utf8(written))
    found = send_request(pb.ClientMessage(list_asks=named)).ask_list.asks
    if not found:
        raise NotFound("the call is no longer waiting", fix="`moot inbox` lists the open asks.")
    return found[0].patterns[0]


def _confirm_rule(rule: str, scope: str) -> None:
    """Show the rule and ask for confirmation before it is written."""
    only = {"run": " (for this run alone)", "conversation": " (in this conversation, not in background runs)"}
    shown = sanitize.exact_line(rule) + only.get(scope, "")
    output.print_note(output.wrap_prose(f"This writes the rule: {shown}", indent="  "))
    if output.wants_json() or not sys.stdin.isatty():
        raise BadRequest(
            f"nothing was decided: there is no terminal to confirm the rule: {shown}", fix="Add --yes to write it."
        )
    prompts.discard_typed()
    click.confirm("Write it?", abort=True, err=True)


def _decide(info: pb.AskInfo, message: pb.DecideAskMsg) -> int:
    decision = message.decision
    try:
        decided = send_request(pb.ClientMessage(decide_ask=message)).ask_decided
    except Conflict:
        # If the ask is still open, it has changed: the error comes with what is open now.
        for now_open in (each for each in _fetch_open_asks() if each.ask_id == info.ask_id):
            if now_open.attempt != info.attempt:
                _show(_fetch_full(now_open))
        raise
    data = {"ask_id": info.ask_id, "decision": decision, "state": decided.state, "rule": decided.rule}
    refused = decision != "deny" and decided.state == "denied"
    text = "It was already denied." if refused else _render_decided(info, decision)
    rule = f"\nThe rule: {sanitize.exact_line(decided.rule)}" if decided.rule else ""
    output.emit(data, render=lambda _: output.wrap_prose(text + rule, sys.stdout, indent="  "))
    return int(Exit.DENIED if refused else Exit.OK)


def _render_decided(info: pb.AskInfo, decision: str) -> str:
    if decision == "deny":
        return "Denied; the agent gets that as the result of the call."
    return f"{approvals.describe_allowed(info.kind, decision).capitalize()}; the run continues."


def _render_reasons(found: list[pb.AskInfo]) -> list[str]:
    """Who asks, for what, and why; if untrusted content is the reason, where it came from."""
    data = {
        info.ask_id: [*asker_lines.render_asker(info), *([sanitize.exact_line(info.reason)] if info.reason else [])]
        for info in found
    }
    return [f"{shorten_ask_id(ask_id)}: {line}" for ask_id, lines in data.items() for line in lines]


def _render_asker(info: pb.AskInfo) -> str:
    return asker_lines.asker_name(info) or info.speaker or info.agent


def _render_subject(info: pb.AskInfo) -> str:
    if info.kind != "question":
        return sanitize.exact_line(info.line)
    return " / ".join(question.question for question in info.questions)


def _render_ask(info: pb.AskInfo, width: int) -> list[str]:
    until = numbers.format_time(info.expires_at)
    which = shorten_ask_id(info.ask_id) + (f", attempt {info.attempt}" if info.attempt > 1 else "")
    where = f"{asker_lines.render_conversation(info)}, until {until}: {which}"
    if info.kind == "question":
        prompts = (line for question in info.questions for line in questions.render_prompt(question))
        return [flow.wrap_text(line, width, indent="  ") for line in (where, *asker_lines.render_asker(info), *prompts)]
    shown = [
        flow.wrap_text(where, width, indent="  "),
        *approvals.render_approval(info, width=width),
        "  arguments:",
    ]
    shown += [
        flow.wrap_text(f"    {line}", width, indent="      ") for line in approvals.render_arguments(info.arguments)
    ]
    rules = (("--always", info.rule), ("--always --any", info.whole_rule))
    lines = [f"  {flags} would write: {sanitize.exact_line(rule)}" for flags, rule in rules if rule]
    lines += [
        f"  --always --pattern {number} would write: {sanitize.exact_line(pattern.rule)}"
        for number, pattern in enumerate(info.patterns, 1)
    ]
    lines += [f"  {line}" for line in approvals.explain_once_only(info)]
    return shown + [flow.wrap_text(line, width, indent="    ") for line in lines]
