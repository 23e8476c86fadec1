"""@tool: schema, safety and description from a signature and a docstring; calls with typed values."""

import asyncio
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Busy, ConfigError
from moot.tools import RunContext, Safety, Sink, ToolResult, tool
from moot.tools.plugins.function import MOST_THREADS, STALL_SECONDS, BadTool, FunctionTool, get_tool


class Unit(Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@dataclass
class Place:
    """Where it is."""

    city: str
    title: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    children: list["Tree"]


async def nobody(_: Any) -> str:
    raise AssertionError("nobody is asked here")


def context() -> RunContext:
    return RunContext(
        run_id="r", key=ConversationKey("ada", "user"), speaker="ada", cwd="/", emit=lambda _: None, ask=nobody
    )


def made(function: Any) -> FunctionTool:
    found = get_tool(function)
    assert found is not None
    return found


async def call(function: Any, **arguments: Any) -> str | ToolResult:
    return await made(function)(arguments, context())


@tool(safety=Safety.MODERATE, sinks=[Sink.EGRESS], taint="web", group="weather")
async def forecast(
    place: Place,
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3,
    unit: Unit = Unit.METRIC,
    detail: Literal["short", "long"] = "short",
    note: Optional[str] = None,  # noqa: UP045 - the older spelling is to be understood too
    *,
    wind: float | None = None,
    extra: dict[str, int] | None = None,
    context: RunContext,
) -> dict[str, Any]:
    """Tell the weather
    of the coming days.

    This is for people who read the code.

    Args:
        place: Where to look.
        days (int): How far ahead,
            in days.
        unit: Which units.

    Returns:
        what it says
    """
    return {"city": place.city, "days": days, "unit": unit, "by": context.speaker, "wind": wind}


@tool
def plain(text: str, times: int = 1, loud: bool = False, words: list[str] | None = None) -> str:
    """Repeat.

    :param text: What to say.
    :param int times: How often,
        at most.
    """
    return " ".join([text.upper() if loud else text] * times + (words or []))


def test_a_tool_is_described_by_its_signature_and_docstring() -> None:
    spec = made(forecast).spec

    assert spec.name == "forecast"
    assert spec.description == "Tell the weather of the coming days."
    assert (spec.safety, spec.sinks, spec.taint, spec.group) == (
        Safety.MODERATE, frozenset({Sink.EGRESS}), "web", "weather",
    )  # fmt: skip
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "description": "Where to look.",
                "properties": {
                    "city": {"type": "string"},
                    "title": {"type": "string", "default": ""},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
            "days": {
                "type": "integer", "minimum": 1, "maximum": 7, "default": 3, "description": "How far ahead, in days.",
            },
            "unit": {
                "type": "string", "enum": ["imperial", "metric"], "default": "metric", "description": "Which units.",
            },
            "detail": {"type": "string", "enum": ["long", "short"], "default": "short"},
            "note": {"type": "string"},
            "wind": {"type": "number"},
            "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "required": ["place"],
    }  # fmt: skip


def test_a_tool_that_does_not_say_is_dangerous_and_could_reach_anywhere() -> None:
    spec = made(plain).spec

    assert spec.safety is Safety.DANGEROUS
    assert spec.sinks == frozenset({Sink.EGRESS})
    assert spec.parameters["properties"]["times"]["description"] == "How often, at most."
    assert spec.parameters["required"] == ["text"]


@pytest.mark.parametrize(
    ("said", "sinks"),
    [
        ({"safety": "moderate"}, {Sink.EGRESS}),
        ({"safety": "moderate", "sinks": []}, set()),
        ({"sinks": []}, set()),
        ({"safety": "safe"}, set()),
        ({"safety": "safe", "sinks": ["shell"]}, {Sink.SHELL}),
    ],
)
def test_what_is_safe_or_says_so_reaches_nowhere(said: dict[str, Any], sinks: set[Sink]) -> None:
    def echo(text: str) -> str:
        """Say it again."""
        return text

    assert made(tool(**said)(echo)).spec.sinks == sinks


def test_a_marked_function_can_still_be_called_as_itself() -> None:
    assert plain("ho", 2, loud=True) == "HO HO"


async def run_both() -> None:
    said = await call(forecast, place={"city": "Oslo"}, unit="imperial", wind=3)
    assert msgspec.json.decode(str(said)) == {
        "city": "Oslo", "days": 3, "unit": "imperial", "by": "ada", "wind": 3.0,
    }  # fmt: skip
    assert await call(plain, text="ho", words=["x"]) == "ho x"


def test_arguments_arrive_typed_and_results_leave_as_json_or_text() -> None:
    asyncio.run(run_both())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"place": {"city": 1}}, "Expected `str`, got `int` - at `$.place.city`"),
        ({"place": {"city": "x"}, "days": 9}, "`int` <= 7"),
        ({"place": {"city": "x"}, "unit": "furlong"}, "Invalid enum value 'furlong'"),
        ({"place": {"city": "x"}, "dyas": 2}, "unknown field `dyas`"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_the_function_runs(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match="the arguments of forecast") as refusal:
        asyncio.run(call(forecast, **arguments))

    assert said in refusal.value.message


def test_a_plain_function_runs_in_a_thread_and_the_loop_goes_on() -> None:
    async def main() -> None:
        loop, begun, proceed = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        @tool
        def slow() -> str:
            """Be slow."""
            loop.call_soon_threadsafe(begun.set)
            assert proceed.wait(10)
            return threading.current_thread().name

        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            calling = tasks.create_task(call(slow))
            await begun.wait()
            # The loop is free while the function waits; only this lets it end.
            proceed.set()
            assert await calling == "tool slow"

    asyncio.run(main())


def test_a_function_that_hangs_holds_up_neither_its_caller_nor_the_next_nor_the_end() -> None:
    never = threading.Event()

    @tool
    def hang(really: bool) -> str:
        """Hang."""
        if really:
            never.wait()
        return "quick"

    async def main() -> None:
        async with asyncio.timeout(30):
            for _ in range(MOST_THREADS - 1):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(call(hang, really=True), 0.01)
            assert await call(hang, really=False) == "quick"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call(hang, really=True), 0.01)
            with pytest.raises(Busy, match="are still running"):
                await call(hang, really=False)

    asyncio.run(main())
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "tool hang")
    never.set()


def test_what_a_function_raises_reaches_its_caller() -> None:
    @tool
    def fail(how: str) -> str:
        """Fail."""
        raise {"refused": BadRequest("no such city"), "stop": StopIteration(), "exit": SystemExit(3)}[how]

    with pytest.raises(BadRequest, match="no such city"):
        asyncio.run(call(fail, how="refused"))
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(call(fail, how="stop"))
    with pytest.raises(RuntimeError, match="SystemExit"):
        asyncio.run(call(fail, how="exit"))


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt()])
def test_a_coroutine_that_wants_to_leave_takes_nobody_along(leaving: BaseException) -> None:
    @tool
    async def leave() -> str:
        """Leave."""
        await asyncio.sleep(0)
        raise leaving

    async def both() -> None:
        with pytest.raises(RuntimeError, match="the function raised"):
            await call(leave)

    asyncio.run(both())


def test_a_coroutine_that_holds_up_the_loop_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def block(seconds: float) -> str:
        """Block."""
        await asyncio.sleep(0)
        time.sleep(seconds)  # noqa: ASYNC251  what is tried here
        return "done"

    assert asyncio.run(call(block, seconds=0.0)) == "done"
    assert caplog.records == []
    assert asyncio.run(call(block, seconds=STALL_SECONDS + 0.1)) == "done"
    assert "tool block blocked the daemon" in caplog.text


def test_a_coroutine_still_hears_that_it_is_cancelled_and_may_tidy_up() -> None:
    heard: list[str] = []

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            heard.append("cancelled")
            await asyncio.sleep(0)
            heard.append("tidied")
        return ""

    async def both() -> None:
        task = asyncio.get_running_loop().create_task(call(wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(both())
    assert heard == ["cancelled", "tidied"]


def test_a_result_that_is_not_json_is_an_error_that_names_the_function() -> None:
    @tool
    def odd() -> object:
        """Return something odd."""
        return object()

    with pytest.raises(ConfigError, match="odd returned a object") as error:
        asyncio.run(call(odd))
    assert "test_tools_function.py" in error.value.fix


def test_a_result_of_its_own_kind_is_handed_on_as_it_is() -> None:
    result = ToolResult(content="x", is_error=True, taint=frozenset({"web"}))

    @tool
    def careful() -> ToolResult:
        """Say how it went."""
        return result

    assert asyncio.run(call(careful)) is result


# ---- what cannot become a tool, each with the line it stands on ----


def undocumented(text: str) -> str:
    return text


def untyped(  # type: ignore[no-untyped-def]  # what is refused
    city: str,
    days=3,
) -> str:
    """Say."""
    return city


def starred(*cities: str) -> str:
    """Say."""
    return str(cities)


def positional(city: str, /) -> str:
    """Say."""
    return city


def unreadable(city: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    """Say."""
    return str(city)


def strange(thread: threading.Thread) -> str:
    """Say."""
    return thread.name


def misdescribed(city: str) -> str:
    """Say.

    Args:
        town: Where.
    """
    return city


def endless(tree: Tree) -> str:
    """Say."""
    return str(tree)


def twice(one: RunContext, two: RunContext) -> str:
    """Say."""
    return one.run_id + two.run_id


def generates() -> Any:
    """Say."""
    yield 1


def Shouting() -> str:  # noqa: N802
    """Say."""
    return ""


@pytest.mark.parametrize(
    ("function", "below", "reason"),
    [
        (undocumented, 0, "it has no docstring"),
        (untyped, 2, "'days' has no type"),
        (starred, 0, "*cities: str must be an ordinary parameter"),
        (positional, 0, "must be an ordinary parameter"),
        (unreadable, 0, "name 'Nowhere' is not defined"),
        (strange, 0, "the type of 'thread' cannot be described to a model"),
        (misdescribed, 0, "the docstring describes 'town'"),
        (endless, 0, "contains itself"),
        (twice, 0, "RunContext twice"),
        (generates, 0, "it yields"),
        (Shouting, 0, "the name 'Shouting' is not allowed"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_named_with_file_and_line(function: Any, below: int, reason: str) -> None:
    with pytest.raises(BadTool) as bad:
        tool(function)

    flaw = bad.value.flaw
    assert flaw.path == __file__
    assert flaw.line == function.__code__.co_firstlineno + below
    assert reason in flaw.reason
    assert flaw.reason.startswith(f"{function.__name__}: ")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"safety": "harmless"}, "safety cannot be 'harmless'; it is one of safe, moderate, dangerous"),
        ({"sinks": ["drain"]}, "sinks cannot be 'drain'"),
        ({"taint": "the web"}, "taint cannot be 'the web'"),
    ],
)
def test_words_the_gate_does_not_know_are_refused(options: dict[str, Any], reason: str) -> None:
    def fine() -> str:
        """Say."""
        return ""

    with pytest.raises(BadTool) as bad:
        tool(**options)(fine)

    assert reason in bad.value.flaw.reason


def test_only_functions_can_be_marked() -> None:
    with pytest.raises(TypeError, match="@tool goes on a function"):
        tool(len)
