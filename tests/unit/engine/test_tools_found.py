"""tool_search: what it finds, and which tools count as loaded."""

import msgspec
from msgspec.structs import replace

from moot.domain.conversation import Archive, Conversation, ConversationKey, LoadedConversation
from moot.domain.message import Entry, Message, Role, ToolCall, tool_result, user
from moot.domain.prompt import ToolSpec
from moot.engine.history import History
from moot.engine.tool_search import MOST_FOUND, choose_loaded, find_loaded, search_tools


def spec(name: str, description: str = "", length: int = 0) -> ToolSpec:
    return ToolSpec(name=name, description=description or "d" * length, parameters={"type": "object"})


TOOLS = [
    spec("mcp__github__create_issue", "Create an issue in a repository."),
    spec("mcp__github__list_issues", "List the issues of a repository."),
    spec("mcp__mail__send", "Send a letter to somebody about an issue."),
    spec("crypto_hash", "Compute a digest of a text."),
]


def found(query: str) -> list[str]:
    return [each.name for each in search_tools(TOOLS, query)]


def test_words_in_names_count_more_and_plurals_match() -> None:
    assert found("github issues")[:2] == ["mcp__github__create_issue", "mcp__github__list_issues"]
    assert found("send letters") == ["mcp__mail__send"]
    assert found("please load crypto_hash")[0] == "crypto_hash"
    assert found("weather") == found("") == []
    assert len(search_tools([spec(f"read_{number}") for number in range(20)], "read")) == MOST_FOUND


def entries(*messages: Message) -> list[Entry]:
    return [Entry(seq=seq, message=message, run_id="r", created_at=0.0) for seq, message in enumerate(messages, 1)]


def searched(call_id: str, *names: str, agent: str = "", tool: str = "tool_search") -> list[Message]:
    call = ToolCall(id=call_id, name=tool, arguments="{}")
    content = msgspec.json.encode({"loaded": [{"name": name} for name in names]}).decode()
    return [Message(role=Role.ASSISTANT, content="", agent=agent, tool_calls=(call,)), tool_result(call_id, content)]


def test_only_results_of_the_agents_own_searches_load_tools() -> None:
    history = entries(
        *searched("a", "one", "two"), *searched("b", "bad", tool="web_fetch"), *searched("c", "two", "three")
    )
    assert find_loaded(history) == ["one", "two", "three"]
    assert find_loaded(entries(*searched("a", "one", agent="guest"))) == []
    call, _ = searched("a", "one")
    assert find_loaded(entries(call, tool_result("a", "not JSON"))) == []
    assert find_loaded(entries(call, tool_result("a", '{"loaded": [{"name": "one"}]}', is_error=True))) == []


def test_a_history_knows_its_searches_without_reading_all_of_it() -> None:
    earlier = entries(*[user("hello")] * 50, *searched("a", "one", "two"), *searched("b", "bad", tool="web_fetch"))
    state = Conversation(key=ConversationKey("ada", "user"), last_seq=len(earlier), created_at=0.0, updated_at=0.0)
    history = History(LoadedConversation(conversation=state, archive=None, entries=tuple(earlier)))
    later = [replace(entry, seq=entry.seq + 54) for entry in entries(*searched("c", "three"))]
    history.extend(later)
    assert [entry.seq for entry in history.searches] == [51, 52, 55, 56]
    assert find_loaded(history.searches) == find_loaded(history.entries) == ["one", "two", "three"]
    history.drop_archived(Archive(number=1, title="t", summary="s", first_seq=1, last_seq=54, archived_at=0.0))
    assert find_loaded(history.searches) == ["three"]


def test_what_was_found_last_has_room_first_and_nothing_else_can_be_loaded() -> None:
    left_out = [spec(name, length=2_000) for name in ("one", "two", "three")]
    chosen = choose_loaded(left_out, ["forged", "one", "two", "three"], window=6_600)
    assert [each.name for each in chosen] == ["two", "three"]
    assert choose_loaded(left_out, ["one"], window=0) == (left_out[0],)
