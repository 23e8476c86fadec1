"""Long results: shortened for the model, kept whole, read in parts; nothing makes the others wait."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.domain.config import OutputConfig
from moot.domain.errors import BadRequest, NotFound
from moot.domain.output import LINE_LENGTH, Output, is_binary, lines, page, shorten
from moot.domain.ports.tool import ToolResult
from moot.domain.prompt import ToolSpec
from moot.store.outputs import SqliteOutputs
from moot.store.sqlite import SqliteStore
from moot.tools import outputs
from tests.unit.shelves import ADA, ADA_WITH_EVE, SetClock, answered, context, gate_call, stored, talk, told

WEB = frozenset({"web"})
CONFIG = OutputConfig(budget_characters=1_000, keep_seconds=100.0)


class Reader:
    """A tool by its name alone."""

    def __init__(self, name: str = "exec") -> None:
        self.spec = ToolSpec(name=name, description="reads", parameters={"type": "object"})

    async def __call__(self, arguments: dict[str, Any], context: object) -> str:
        raise AssertionError("it is not called here")


def getter(
    store: SqliteStore, clock: SetClock | None = None, redact: Callable[[str], str] = str
) -> outputs.ToolOutputGet:
    shelf = SqliteOutputs(store)
    [tool] = outputs.tools(outputs=shelf, config=lambda: CONFIG, clock=clock or SetClock(), redact=redact)
    assert isinstance(tool, outputs.ToolOutputGet)
    return tool


def shelving(store: SqliteStore) -> outputs.StoreLongResult:
    return outputs.StoreLongResult(SqliteOutputs(store), lambda: CONFIG, SetClock(), Random(1))


async def kept(store: SqliteStore, content: str) -> str:
    await talk(store)
    made = Output(ref="out-1", tool="exec", content=content, taint=WEB, created_at=SetClock().now())
    await SqliteOutputs(store).keep(ADA, made, most=9)
    return "out-1"


@stored
async def test_what_became_a_secret_since_is_taken_out_before_a_page_is_cut(store: SqliteStore) -> None:
    secret = "Wx81_short_secret_55_and_more"
    ref = await kept(store, "x" * (LINE_LENGTH - 10) + secret)
    reading = getter(store, redact=lambda text: text.replace(secret, "[SECRET:KEY]"))
    pages = [await reading({"ref": ref, "mode": "range", "offset": at, "limit": 1}, context()) for at in (0, 1)]
    pages.append(await reading({"ref": ref, "mode": "grep", "pattern": "x$|SECRET"}, context()))
    assert not any("Wx81" in page.content or "and_more" in page.content for page in pages)


@stored
async def test_a_result_over_its_budget_is_shown_shortened_and_read_whole_in_pages(store: SqliteStore) -> None:
    await talk(store)
    content = "\n".join(f"line {number}" for number in range(2_000))
    result = ToolResult(content=content, taint=WEB, is_error=True)
    shown = await shelving(store)(gate_call(Reader()), result)
    assert (shown.is_error, shown.taint) == (True, WEB)
    assert len(shown.content) < CONFIG.budget_characters + 200
    assert shown.content.startswith("line 0\n")
    assert shown.content.endswith("line 1999")
    ref = shown.content.split('ref "')[1].split('"')[0]
    read: list[str] = []
    offset = 0
    while True:
        got = await told(getter(store), {"ref": ref, "mode": "range", "offset": offset, "limit": 10_000})
        read.append(got["content"])
        assert got["totalLines"] == 2_000
        if "next_offset" not in got:
            break
        offset = got["next_offset"]
    assert "\n".join(read) == content
    assert len(read) > 10


@stored
async def test_a_result_within_its_budget_and_what_comes_from_the_shelf_are_left_alone(store: SqliteStore) -> None:
    await talk(store)
    small, long = ToolResult(content="x" * 1_000), ToolResult(content="x" * 1_001)
    assert await shelving(store)(gate_call(Reader()), small) is small
    assert await shelving(store)(gate_call(Reader("tool_output_get")), long) is long
    assert await store.read(lambda db: db.execute("SELECT count(*) FROM outputs").get) == 0


@stored
async def test_binary_data_is_neither_shown_nor_kept(store: SqliteStore) -> None:
    await talk(store)
    data = bytes(range(256)) * 20
    shown = await shelving(store)(gate_call(Reader()), ToolResult(content=data.decode("utf-8", "replace")))
    assert "binary" in shown.content
    assert len(shown.content) < 200
    assert await store.read(lambda db: db.execute("SELECT count(*) FROM outputs").get) == 0


@stored
async def test_the_ways_to_read_an_output(store: SqliteStore) -> None:
    ref = await kept(store, "alpha 1\nbeta 2\ngamma 3\nbeta 4")
    tool = getter(store)
    assert await told(tool, {"ref": ref}) == {"content": "alpha 1\nbeta 2\ngamma 3\nbeta 4"}
    assert await told(tool, {"ref": ref, "mode": "range", "offset": 1, "limit": 2}) == {
        "content": "beta 2\ngamma 3",
        "totalLines": 4,
        "offset": 1,
        "limit": 2,
        "next_offset": 3,
    }
    assert await told(tool, {"ref": ref, "mode": "grep", "pattern": r"^beta \d"}) == {
        "matches": [{"line": 1, "text": "beta 2"}, {"line": 3, "text": "beta 4"}],
        "more": False,
    }
    assert (await told(tool, {"ref": ref, "mode": "range", "offset": 99}))["content"] == ""
    assert (await answered(tool, {"ref": ref})).taint == WEB
    assert (await answered(tool, {"ref": ref, "mode": "grep", "pattern": "x"})).taint == WEB


@stored
async def test_an_output_is_not_read_from_elsewhere_or_after_its_time(store: SqliteStore) -> None:
    ref = await kept(store, "secretive")
    await talk(store, ADA_WITH_EVE)
    clock = SetClock()
    with pytest.raises(NotFound):
        await told(getter(store, clock), {"ref": ref}, context(ADA_WITH_EVE))
    with pytest.raises(NotFound):
        await told(getter(store, clock), {"ref": "out-2"})
    clock.at += CONFIG.keep_seconds + 1
    with pytest.raises(NotFound) as caught:
        await told(getter(store, clock), {"ref": ref})
    assert caught.value.fix
    # Whatever made it may have had effects.
    assert "again" not in caught.value.sentence


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"mode": "tail"}, "tail"),
        ({"mode": "grep"}, "missing pattern parameter"),
        ({"mode": "grep", "pattern": "("}, "regular expression"),
        ({"mode": "grep", "pattern": "x" * 1_001}, "1001"),
        ({"mode": "grep", "pattern": "(" * 990}, "regular expression"),
    ],
)
def test_what_cannot_be_read_that_way_is_refused(tmp_path: Any, arguments: dict[str, Any], says: str) -> None:
    @stored
    async def scenario(store: SqliteStore) -> None:
        ref = await kept(store, "content")
        with pytest.raises(BadRequest, match=says):
            await told(getter(store), {"ref": ref, **arguments})

    scenario(tmp_path)


async def rounds_during(work: Any) -> tuple[Any, int]:
    """Do the work, and say how often the loop came round to something else meanwhile."""
    rounds = 0
    done = asyncio.Event()

    async def watch() -> None:
        nonlocal rounds
        while not done.is_set():
            await asyncio.sleep(0)
            rounds += 1

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        try:
            result: Any = await work
        except BadRequest as error:
            result = error
        done.set()
    return result, rounds


@stored
async def test_a_pattern_that_never_ends_is_stopped_and_nobody_waits_for_it(store: SqliteStore) -> None:
    ref = await kept(store, "a" * 5_000 + "!")
    error, rounds = await rounds_during(told(getter(store), {"ref": ref, "mode": "grep", "pattern": "(a+)+$"}))
    assert isinstance(error, BadRequest)
    assert "too long" in error.message
    # The search goes on for seconds, and never on the loop.
    assert rounds > 20


@stored
async def test_searches_take_no_thread_from_others_and_one_conversation_makes_one_at_a_time(store: SqliteStore) -> None:
    ref = await kept(store, "a" * 5_000 + "!")
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    get = getter(store)
    order: list[str] = []

    async def search(pattern: str, where: str = "ada") -> None:
        with suppress(BadRequest):
            await told(get, {"ref": ref, "mode": "grep", "pattern": pattern})
        order.append(where)

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(search("(a+)+$"))
        await asyncio.to_thread(order.append, "a thread")
        assert order == ["a thread"]
        other = await get._search(ADA_WITH_EVE, "one\ntwo", "two")
        assert other["matches"] == [{"line": 1, "text": "two"}]
        assert order.count("ada") < 2


@stored
async def test_ten_million_characters_on_one_line_are_kept_searched_and_paged(store: SqliteStore) -> None:
    await talk(store)
    content = "x" * 5_000_000 + "needle" + "y" * 5_000_000
    shown = await shelving(store)(gate_call(Reader()), ToolResult(content=content))
    ref = shown.content.split('ref "')[1].split('"')[0]
    found, rounds = await rounds_during(told(getter(store), {"ref": ref, "mode": "grep", "pattern": "need.e"}))
    [match] = found["matches"]
    assert "needle" in match["text"]
    assert len(match["text"]) == 300
    got = await told(getter(store), {"ref": ref, "mode": "range", "offset": match["line"], "limit": 1})
    assert "needle" in got["content"]
    assert got["totalLines"] == 5_001
    assert rounds > 20


def test_a_short_content_is_not_shortened() -> None:
    assert shorten("abc", 3) == ("abc", 0)


@given(st.text(alphabet="ab\n", max_size=4_000), st.integers(min_value=1, max_value=2_000))
def test_what_is_left_of_a_content_is_its_beginning_and_its_end(content: str, budget: int) -> None:
    text, cut = shorten(content, budget)
    if cut == 0:
        assert text == content
        return
    head, _, rest = text.partition("\n[… ")
    tail = rest.partition(" …]\n")[2]
    assert content.startswith(head)
    assert content.endswith(tail)
    assert len(head) + len(tail) + cut == len(content)
    assert len(head) + len(tail) <= budget


@given(st.lists(st.integers(min_value=0, max_value=3 * LINE_LENGTH), max_size=6), st.booleans())
def test_lines_are_bounded_and_lose_nothing(lengths: list[int], ends: bool) -> None:
    content = "\n".join("z" * length for length in lengths) + ("\n" if ends and lengths else "")
    read = list(lines(content))
    assert all(len(line) <= LINE_LENGTH for line in read)
    assert "".join(read) == content.replace("\n", "")


def test_a_page_holds_at_least_one_line_and_no_more_than_it_has_room_for() -> None:
    content = "aaaa\nbbbb\ncccc"
    assert page(content, offset=0, limit=10, characters=1).content == "aaaa"
    assert page(content, offset=1, limit=1, characters=100).next_offset == 2
    assert page(content, offset=2, limit=9, characters=100).next_offset == 0
    assert page("", offset=0, limit=1, characters=1).total_lines == 0


def test_text_in_any_script_is_not_taken_for_binary_data() -> None:
    assert not is_binary("")
    assert not is_binary("żółw 上海 🐢\n" * 500)
    assert not is_binary("one \ufffd in a long text of words")
    assert is_binary(bytes(range(128, 256)).decode("utf-8", "replace"))
