"""Renders history, tool calls, approvals and notices as styled lines for the chat. All text is sanitized. Pure."""

from collections.abc import Iterable

from moot.cli.markdown.styles import CODE, HANG, INDENT, Line, count_columns
from moot.cli.markdown.text_format import TextFormat
from moot.cli.program import hint
from moot.cli.render import (
    approvals,
    asker_lines,
    calls,
    colours,
    numbers,
    run_lines,
    sanitize,
    teammate_lines,
    user_messages,
)
from moot.domain.mail import MAIL_AUTHOR, list_mail_in
from moot.domain.task_notification import TASK_AUTHOR, list_notifications_in
from moot.wire import moot_pb2 as pb

GUEST_NOTE = " (guest · text only)"
MATE_NOTE = " (teammate)"
_TOOL_COLUMNS = 90
_WITHDRAWN_COLUMNS = 70
_UNCHANGED = TextFormat()
# A mark before each row distinguishes wrapped rows from line ends.
_GUTTER = f"    {approvals.GUTTER}"


def name_style(name: str, primary: str) -> str:
    return "bold ansi" + colours.name_colour(name, primary).replace("_", "")


def render_question(entry: pb.HistoryMessage, primary: str) -> list[Line]:
    """A user message, the report of a teammate, messages of other agents, or ends of workers."""
    if entry.agent == MAIL_AUTHOR:
        return render_read_mail(entry, primary)
    if entry.agent == TASK_AUTHOR:
        return render_notifications(entry)
    return render_speech(entry.agent or colours.USER, entry.content, primary, note=MATE_NOTE)


def render_speech(
    name: str, text: str, primary: str, *, note: str = "", text_format: TextFormat = _UNCHANGED
) -> list[Line]:
    """A message: the name once, then the text."""
    return _render_text(render_speaker(name, primary, note), text, text_format)


def _render_text(head: Line, text: str, text_format: TextFormat) -> list[Line]:
    message = text_format.open_message(count_columns(head))
    # A whole line of unchanged text is broken once, for the window; an incomplete one would be here already.
    end = "" if text_format.markdown else "\n"
    first, *more = [*message.feed(sanitize.clean(text).rstrip() + end), *message.finish()] or [[]]
    return [[*head, *first], *map(indent_line, more)]


def indent_line(line: Line) -> Line:
    """A line of a message after its first."""
    return [*INDENT, *line] if line else []


def render_speaker(name: str, primary: str, note: str = "") -> Line:
    """The author of a message; other agents than the primary are guests unless noted otherwise."""
    line: Line = [(name_style(name, primary), sanitize.name(name))]
    if name not in (colours.USER, primary):
        line.append(("class:dim", note or GUEST_NOTE))
    return [*line, ("class:dim", " › ")]


def dim(text: str) -> Line:
    return [("class:dim", sanitize.line(text))]


def render_withdrawn(content: str) -> Line:
    return dim(f"✗ withdrawn: {sanitize.line(content, _WITHDRAWN_COLUMNS)}")


def render_notice(text: str) -> Line:
    """A notice of Moot itself."""
    return [("class:notice", f"· {sanitize.line(hint(text))}")]


def render_error(text: str, fix: str = "") -> list[Line]:
    lines: list[Line] = [[("class:error", f"✗ {part}")] for part in sanitize.clean(hint(text)).split("\n")]
    return lines + ([[("class:dim", f"  {sanitize.line(hint(fix))}")]] if fix else [])


def render_tool_call(call: pb.ToolCallInfo, result: pb.ToolResultEvent, columns: int = 2 * _TOOL_COLUMNS) -> Line:
    """A tool call and its result on one line of the given width."""
    took = numbers.format_milliseconds(result.duration_ms)
    half = max(10, min(_TOOL_COLUMNS, columns - len(f"  ⚒  →  · {took}")) // 2)
    made = calls.render_call(call, half)
    failed, came = calls.render_result(result.output, half, is_error=result.is_error)
    if result.is_error:
        return [("class:dim", f"  ⚒ {made} "), ("class:error", f"{failed} {came}"), ("class:dim", f" · {took}")]
    if failed:
        rest = " · ".join(part for part in (came, took) if part)
        return [("class:dim", f"  ⚒ {made} "), ("class:error", failed), ("class:dim", f" · {rest}")]
    return [("class:dim", f"  ⚒ {made} → {came} · {took}")]


def render_result(entry: pb.HistoryMessage) -> Line:
    """The result of a call in a history."""
    failed, came = calls.render_result(entry.content, _TOOL_COLUMNS, is_error=entry.is_error)
    took = f" · {numbers.format_milliseconds(entry.duration_ms)}" if entry.duration_ms else ""
    if failed:
        return [("class:error", f"  {failed} "), ("class:dim", f"{came}{took}")]
    return [("class:dim", f"  → {came}{took}")]


def render_approval(event: pb.ApprovalEvent) -> list[Line]:
    """A call that waits for approval, with its preview."""
    shown: list[Line] = [
        [("class:notice", f"  ⚠ {sanitize.exact_line(event.tool)} waits for you: {sanitize.exact_line(event.reason)}")],
        *([("class:dim", f"    {line}")] for line in approvals.explain_project(event, in_chat=True)),
        *([("class:notice", f"    {line}")] for line in asker_lines.render_asker(event)),
        *([(HANG, _GUTTER), (CODE, line)] for line in approvals.render_call(event)),
    ]
    return shown + [[(HANG, _GUTTER), (_diff_style(row), row)] for row in approvals.render_preview(event)]


def _diff_style(row: str) -> str:
    """The style of a preview row: additions and deletions in a diff."""
    if row.startswith(("+++", "---", "@@")):
        return "class:dim"
    return {"+": "class:added", "-": "class:removed"}.get(row[:1], CODE)


def render_decision(event: pb.ApprovalEvent, state: str, here: str = "", pattern: str = "") -> Line:
    """The outcome of an approval; `here` is what was decided in this chat, for `pattern` if that was one."""
    good = f"✓ {approvals.describe_allowed(event.kind, here)}"
    label = {"granted": good, "used": good, "denied": "✗ denied"}.get(state, f"✗ {sanitize.line(state)}")
    saved = next((offered.rule for offered in event.patterns if offered.text == pattern), "") if pattern else ""
    if saved and label == good:
        return [("class:dim", f"  {label}: {sanitize.exact_line(saved).removeprefix('allow ')}")]
    return [("class:dim", f"  {label}: {sanitize.exact_line(event.line, _TOOL_COLUMNS)}")]


def render_divider(text: str) -> Line:
    return [("class:dim", f"── {sanitize.line(text)} ──")]


def render_mail(sender: str, receiver: str, body: str, note: str = "") -> Line:
    """A message between agents: from whom to whom, and its first line."""
    first = sanitize.exact_line(body.strip().partition("\n")[0], _TOOL_COLUMNS)
    return [("class:notice", f"✉ {sanitize.name(sender)} → {sanitize.name(receiver)}: {first}{note}")]


def render_read_mail(entry: pb.HistoryMessage, primary: str) -> list[Line]:
    """The messages of other agents that an agent was shown."""
    return [render_mail(sender, primary, body) for sender, body in list_mail_in(entry.content)]


def render_notifications(entry: pb.HistoryMessage) -> list[Line]:
    """The ends of workers that a coordinator was shown: which, how, and the first line of the report."""
    ends = map(teammate_lines.describe_end, list_notifications_in(entry.content) or [])
    return [[("class:notice", f"⚑ {sanitize.exact_line(end, _TOOL_COLUMNS)}")] for end in ends]


def render_user_message(
    name: str, message: pb.UserMessageInfo, primary: str, text_format: TextFormat = _UNCHANGED
) -> list[Line]:
    """A message of an assistant, with its files."""
    head: Line = [(name_style(name, primary), sanitize.name(name))]
    if note := user_messages.render_note(message):
        head.append(("class:dim", note))
    files: list[Line] = [[("class:dim", f"  {line}")] for line in user_messages.render_attachments(message)]
    return [*_render_text([*head, ("class:dim", " › ")], message.content, text_format), *files]


def render_private(text: str) -> list[Line]:
    """Text that an assistant did not send."""
    return [dim(f"· {row}") for row in text.strip().split("\n")] if text.strip() else []


def render_history(
    messages: Iterable[pb.HistoryMessage], primary: str, text_format: TextFormat = _UNCHANGED
) -> list[Line]:
    """Past messages with their authors; turns that did not complete show their outcome."""
    shown: list[Line] = []
    messages = list(messages)
    sent_calls = user_messages.list_sent_calls(messages)
    for entry in messages:
        if entry.role != "tool":
            shown += _render_entry(entry, primary, text_format)
        elif entry.tool_call_id not in sent_calls:
            shown.append(render_result(entry))
        for call in entry.tool_calls:
            if call.call_id not in sent_calls:
                shown.append([("class:dim", f"  ⚒ {calls.render_call(call, _TOOL_COLUMNS)}")])
        if entry.outcome not in ("", "completed"):
            shown.append(render_ending(entry.outcome, entry.error))
    return shown


def _render_entry(entry: pb.HistoryMessage, primary: str, text_format: TextFormat) -> list[Line]:
    """The text of a message, and what its calls have sent to the person."""
    shown: list[Line] = []
    if entry.agent == MAIL_AUTHOR:
        return render_read_mail(entry, primary)
    if entry.role == "user":
        return [[], *render_question(entry, primary)]
    if entry.private:
        shown = render_private(entry.content) if text_format.shows_private() else []
    elif entry.content:
        shown = render_speech(entry.agent or primary, entry.content, primary, text_format=text_format)
    for sent in entry.sent:
        shown += render_user_message(entry.agent or primary, sent, primary, text_format)
    return shown


def render_ending(outcome: str, error: str) -> Line:
    text = run_lines.render_outcome(outcome, error)
    quiet = outcome in ("cancelled", "interrupted")
    return [("class:notice" if quiet else "class:error", f"  ({sanitize.line(text)})")]
