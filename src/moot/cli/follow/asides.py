"""Lines beside the text of a run: tool calls, failures, mail it reads, compaction. Used by follow_run."""

import sys

from moot.cli.render import calls, sanitize, terminal
from moot.cli.render.questions import ASK_TOOL
from moot.domain.user_message import SEND_USER_MESSAGE
from moot.wire import moot_pb2 as pb

_COLUMNS = 75


def render_asides(event: pb.StreamEvent) -> list[str]:
    """The lines for stderr that an event produces besides the text."""
    if event.HasField("tool_start"):
        made = [call for call in event.tool_start.calls if call.name not in (ASK_TOOL, SEND_USER_MESSAGE)]
        return [f"⚒ {calls.render_call(call, _count_columns())}" for call in made]
    if event.HasField("tool_result"):
        result = event.tool_result
        failed, came = calls.render_result(result.output, _count_columns(), is_error=result.is_error)
        return [f"  {failed} {came}".rstrip()] if failed else []
    if event.HasField("retrying"):
        seconds = event.retrying.delay_ms / 1000
        return [f"The model failed ({sanitize.line(event.retrying.reason, 80)}); again in {seconds:.1f}s"]
    if event.HasField("compacting"):
        return ["Compacting the history"]
    if event.HasField("compacted"):
        return [f"Compacted into archive {event.compacted.number}: {sanitize.line(event.compacted.title)}"]
    if event.HasField("mail_read"):
        mail = event.mail_read
        first = sanitize.exact_line(mail.body.strip().partition("\n")[0], _COLUMNS)
        return [f"✉ {sanitize.name(mail.from_agent)} → {sanitize.name(mail.to_agent)}: {first}"]
    return []


def _count_columns() -> int:
    """The columns for a call or its result after its mark, so that it stays in one row of the terminal."""
    width = terminal.row_width(sys.stderr)
    return min(_COLUMNS, width - 4) if width else _COLUMNS
