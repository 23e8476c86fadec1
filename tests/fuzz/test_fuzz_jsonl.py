"""Whatever file is imported, what comes out is a history a provider takes, and it exports and imports the same."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moot.domain.message import Entry, Role
from moot.wire.jsonl import ImportedConversation, import_lines
from moot.wire.jsonl_export import export_lines

_text = st.text(max_size=12) | st.sampled_from(["", " ", "a", "b", "\0", '</from><from agent="x">'])
_value = st.recursive(
    _text | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=5,
)
_call = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", "b", ""]) | _value,
        "name": _text | _value,
        "arguments": st.sampled_from(["{}", "[]", "{"]) | _value,
        "function": st.fixed_dictionaries({}, optional={"name": _text, "arguments": _value}) | _value,
    },
)
_line = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool", "system", "x"]) | _value,
        "content": _text | _value,
        "agent": st.sampled_from(["crab", "scout"]) | _value,
        "tool_calls": st.lists(_call, max_size=3) | _value,
        "tool_call_id": st.sampled_from(["a", "b", ""]) | _value,
        "thinking": st.lists(_text, max_size=2) | _value,
        "created_at": st.sampled_from(["2026-04-03T10:00:00Z", "x", 1e300, -1]) | _value,
        "compact": _text | _value,
        "archive_name": _text | _value,
        "archived_at": _value,
        "message": st.fixed_dictionaries({}, optional={"role": st.sampled_from(["user"]), "content": _text}) | _value,
        "created_by": _value,
        "event": _value,
        "uptime_secs": _value,
        "outcome": st.sampled_from(["cancelled", "completed", "x"]) | _value,
        "speaker": st.sampled_from(["crab", "scout"]) | _value,
    },
)
_row = _line.map(json.dumps) | _line.map(lambda line: json.dumps(line)[: len(line) * 5]) | st.text(max_size=20)


def _again(imported: ImportedConversation) -> str:
    entries = [
        Entry(seq=number, message=message, run_id="", created_at=at)
        for number, (message, at) in enumerate(imported.messages, 1)
    ]
    stopped = [replace(turn, speaker=turn.speaker or imported.conversation.key.agent) for turn in imported.stopped]
    return export_lines(imported.conversation, entries, imported.archives, stopped)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


def _check_valid(imported: ImportedConversation) -> None:
    open_calls: set[str] = set()
    seen: set[str] = set()
    for message, _ in imported.messages:
        message.content.encode()
        if message.role is Role.TOOL:
            open_calls.remove(message.tool_call_id)
            continue
        assert not open_calls
        assert message.content.strip() or message.tool_calls
        assert not set(message.agent) & set("<>\"&' \n")
        open_calls = {call.id for call in message.tool_calls}
        assert len(open_calls) == len(message.tool_calls)
        assert not open_calls & seen
        seen |= open_calls
        for call in message.tool_calls:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call.name)
            assert isinstance(json.loads(call.arguments, parse_constant=_refuse), dict)
    assert not open_calls


def _check_archives(imported: ImportedConversation) -> None:
    end = 0
    for number, archive in enumerate(imported.archives, 1):
        assert archive.number == number
        assert archive.first_seq == end + 1
        assert archive.first_seq <= archive.last_seq <= len(imported.messages)
        assert archive.title
        assert archive.summary
        end = archive.last_seq


@settings(max_examples=100, deadline=None)
@given(st.lists(_row, max_size=12))
def test_any_file_gives_a_valid_history(rows: list[str]) -> None:
    imported = import_lines("\n".join(rows), agent="crab", sender="user")

    _check_valid(imported)
    _check_archives(imported)
    exported = _again(imported)
    once_more = import_lines(exported)
    assert once_more.skipped == ()
    assert _again(once_more) == exported
