"""Whatever a model calls, and however, ends in a result it can read."""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.ask import Question
from moot.domain.brief_tools import shorten_tool
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Fenced
from moot.domain.message import ToolCall
from moot.domain.ports.hook import GateCall, Proceed
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import ToolSpec
from moot.domain.scope import ALL_TOOLS, NO_TOOLS, Scope, only
from moot.engine.deadline import Deadline
from moot.engine.gate import AT_ONCE, Gate


class Echo:
    spec = ToolSpec(
        name="echo",
        description="Says it again.",
        parameters={
            "type": "object",
            "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["text"],
        },
    )

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        self.heard.append(arguments)
        match arguments["text"]:
            case "refuse":
                raise BadRequest("I will not", fix="Ask nicely.")
            case "refuse unheard":
                raise BadRequest("I will not").mark_untainted()
            case "lose":
                raise Fenced("another daemon has taken over")
            case "break":
                raise ValueError("inside")
            case "hang":
                await asyncio.Event().wait()
            case "flood":
                return "x" * 50_000
            case "dirt":
                return "a\x00b\ud800"
        return str(arguments["text"]) * int(arguments.get("times", 1))


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(questions)


CONTEXT = RunContext(
    run_id="r", key=ConversationKey("crab", "user"), speaker="crab", cwd="/", emit=lambda _event: None, ask=_nobody
)


async def _ten_thousand(call: GateCall, result: ToolResult) -> ToolResult:
    assert call.id == "c"
    return ToolResult(content=result.content[:10_000], is_error=result.is_error)


async def _as_it_is(call: GateCall, result: ToolResult) -> ToolResult:
    return result


async def _lost(run_id: str, call_id: str) -> str:
    raise AssertionError((run_id, call_id))


async def call(
    arguments: str, *, scope: Scope = ALL_TOOLS, name: str = "echo", flaw: str = ""
) -> tuple[ToolResult, Echo]:
    echo = Echo()
    toolbox = Gate(tools=lambda: {"echo": echo}, hooks=lambda _: [], budget=_ten_thousand, restore=_lost).box(scope)
    made = ToolCall(id="c", name=name, arguments=arguments)
    return await toolbox.execute(made, flaw, CONTEXT, Deadline(SystemClock(), 0.05), asyncio.Semaphore(8)), echo


async def test_a_good_call_runs() -> None:
    output, _ = await call('{"text": "ho", "times": 2}')
    assert output == ToolResult(content="hoho")


async def test_an_argument_that_is_null_is_one_that_was_left_out() -> None:
    output, echo = await call('{"text": "ho", "times": null, "else": null}')
    assert output == ToolResult(content="ho")
    # Of what a schema does not name, nobody knows what null would mean.
    assert echo.heard == [{"text": "ho", "else": None}]


class Strange(Echo):
    """A tool whose schema is a stranger's."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        properties = {"text": {"type": kind}}
        self.spec = replace(Echo.spec, parameters={"type": "object", "properties": properties, "required": ["text"]})


@pytest.mark.parametrize(
    ("kind", "arguments", "complaint"),
    [
        (["string", "null"], '{"text": "ho"}', ""),
        (["string", "null"], '{"text": null}', ""),
        (["string", "null"], "{}", "missing text parameter"),
        (["string", "null"], '{"text": 5}', "text must be of type string or null"),
        (["string", "of a kind"], '{"text": 5}', ""),
        ({"type": "string"}, '{"text": "ho"}', ""),
        ([["string"]], '{"text": "ho"}', ""),
        ([], '{"text": "ho"}', ""),
    ],
)
async def test_a_schema_may_name_several_types_or_none_that_is_known(kind: Any, arguments: str, complaint: str) -> None:
    strange = Strange(kind)
    toolbox = Gate(tools=lambda: {"echo": strange}, hooks=lambda _: [], budget=_ten_thousand, restore=_lost).box(
        ALL_TOOLS
    )
    output = await toolbox.execute(
        ToolCall(id="c", name="echo", arguments=arguments),
        "",
        CONTEXT,
        Deadline(SystemClock(), 30),
        asyncio.Semaphore(8),
    )
    assert output.is_error is bool(complaint)
    assert complaint in output.content


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("{}", "missing text parameter"),
        ('{"text": ""}', "missing text parameter"),
        ('{"text": 5}', "text must be of type string"),
        ('{"text": "a", "times": true}', "times must be of type integer"),
        ("[1]", "must be a JSON object"),
        ("{", "not valid JSON"),
    ],
)
async def test_bad_arguments_are_explained_and_nothing_runs(arguments: str, complaint: str) -> None:
    output, echo = await call(arguments)
    assert output.is_error
    assert complaint in output.content
    assert echo.heard == []


def writing(description: str, *, added: bool = False) -> Echo:
    echo = Echo()
    text = {"type": "string", "description": description}
    parameters = {"type": "object", "properties": {"path": {}, "content": text, "text": {"type": "string"}}}
    echo.spec = replace(Echo.spec, name="fs_write", parameters=parameters, added=added)
    return echo


@pytest.mark.parametrize(
    ("tool", "content", "is_refused"),
    [
        (writing("The whole content of it."), "The whole content of it.", True),
        (writing("The whole content of it."), "<the whole content of it>", True),
        (writing("The whole content of it."), "The whole content of it, and more.", False),
        (writing("The whole content of it."), "Wait …", False),
        (writing("content"), "content", False),
        (writing(""), "", False),
    ],
)
async def test_an_argument_that_is_only_what_its_parameter_is_described_as_is_refused(
    tool: Echo, content: str, is_refused: bool
) -> None:
    toolbox = Gate(tools=lambda: {"fs_write": tool}, hooks=lambda _: [], budget=_ten_thousand, restore=_lost).box(
        ALL_TOOLS
    )
    made = ToolCall(id="c", name="fs_write", arguments=json.dumps({"content": content, "text": "done"}))
    tool.heard.clear()
    output = await toolbox.execute(made, "", CONTEXT, Deadline(SystemClock(), 30), asyncio.Semaphore(8))
    assert (output.is_error, output.is_unexecuted, tool.heard == []) == (is_refused,) * 3
    assert ("Make the call again with the real content" in output.content) is is_refused


@pytest.mark.parametrize(
    ("is_small", "added", "content", "is_refused"),
    [
        (True, False, "…", True),
        (True, False, "Wait …", False),
        (True, True, "…", False),
        # A model that was shown the tool itself means what it writes.
        (False, False, "…", False),
    ],
)
async def test_the_sample_of_a_text_is_refused_from_models_that_were_shown_it(
    is_small: bool, added: bool, content: str, is_refused: bool
) -> None:
    tool = writing("The whole content of it.", added=added)
    shown = shorten_tool(tool.spec) if is_small else tool.spec
    toolbox = Gate(tools=lambda: {"fs_write": tool}, hooks=lambda _: [], budget=_ten_thousand, restore=_lost).box(
        ALL_TOOLS
    )
    made = ToolCall(id="c", name="fs_write", arguments=json.dumps({"content": content, "text": "done"}))
    tool.heard.clear()
    context = replace(CONTEXT, offered=(shown,))
    output = await toolbox.execute(made, "", context, Deadline(SystemClock(), 30), asyncio.Semaphore(8))
    assert (output.is_error, tool.heard == []) == (is_refused,) * 2


@pytest.mark.parametrize("scope", [NO_TOOLS, only("other"), only("ECHO")])
async def test_a_tool_out_of_scope_does_not_exist(scope: Scope) -> None:
    output, echo = await call('{"text": "a"}', scope=scope)
    assert output.is_error
    assert "no tool 'echo'" in output.content
    assert echo.heard == []


async def test_an_unknown_tool_is_told_with_what_there_is() -> None:
    output, _ = await call("{}", name="exec")
    assert output.is_error
    assert "echo" in output.content


async def test_a_flaw_found_by_the_model_adapter_is_the_result() -> None:
    output, echo = await call("{}", flaw="The arguments were cut off.")
    assert output == ToolResult(content="The arguments were cut off.", is_error=True, is_unexecuted=True)
    assert echo.heard == []


async def test_what_a_tool_refuses_is_a_result_with_its_fix() -> None:
    output, _ = await call('{"text": "refuse"}')
    assert output == ToolResult(content="I will not. Ask nicely.", is_error=True)


async def test_a_run_that_another_daemon_has_taken_over_ends_instead_of_telling_its_model() -> None:
    with pytest.raises(Fenced):
        await call('{"text": "lose"}')


async def test_a_tool_that_breaks_does_not_break_the_run() -> None:
    output, _ = await call('{"text": "break"}')
    assert output.is_error
    assert "inside;" in output.content


async def test_a_hook_that_breaks_ends_the_call_and_not_the_run() -> None:
    class Broken:
        name, phase = "Broken", "pre-execute"

        def counts(self) -> dict[str, int]:
            return {}

        async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
            raise TypeError("inside")

    echo = Echo()
    toolbox = Gate(tools=lambda: {"echo": echo}, hooks=lambda _: [Broken()], budget=_as_it_is, restore=_lost).box(
        ALL_TOOLS
    )
    output = await toolbox.execute(
        ToolCall(id="c", name="echo", arguments='{"text": "ho"}'),
        "",
        CONTEXT,
        Deadline(SystemClock(), 30),
        asyncio.Semaphore(8),
    )
    assert output.is_error
    assert "inside" not in output.content
    assert echo.heard == []


async def test_a_tool_that_hangs_is_stopped() -> None:
    output, _ = await call('{"text": "hang"}')
    assert output.is_error
    assert "too long" in output.content


class Outside(Echo):
    spec = replace(Echo.spec, taint="web")


@pytest.mark.parametrize("text", ["said", "refuse", "break", "hang"])
async def test_whatever_comes_from_outside_is_tainted_however_the_call_ends(text: str) -> None:
    toolbox = Gate(tools=lambda: {"echo": Outside()}, hooks=lambda _: [], budget=_as_it_is, restore=_lost).box(
        ALL_TOOLS
    )
    made = ToolCall(id="c", name="echo", arguments=f'{{"text": "{text}"}}')
    output = await toolbox.execute(made, "", CONTEXT, Deadline(SystemClock(), 0.05), asyncio.Semaphore(8))
    assert output.is_error == (text != "said")
    assert output.taint == {"web"}


async def test_an_error_known_to_be_our_own_is_nobody_elses() -> None:
    toolbox = Gate(tools=lambda: {"echo": Outside()}, hooks=lambda _: [], budget=_as_it_is, restore=_lost).box(
        ALL_TOOLS
    )
    made = ToolCall(id="c", name="echo", arguments='{"text": "refuse unheard"}')
    output = await toolbox.execute(made, "", CONTEXT, Deadline(SystemClock(), 30), asyncio.Semaphore(8))
    assert output == ToolResult(content="I will not", is_error=True)


async def test_results_are_bounded_and_clean() -> None:
    flood, _ = await call('{"text": "flood"}')
    dirt, _ = await call('{"text": "dirt"}')
    assert len(flood.content) == 10_000
    assert dirt.content == "a\ufffdb\ufffd"


async def test_a_run_has_few_tools_at_work_at_a_time_and_another_run_does_not_wait_for_them() -> None:
    at_work: list[str] = []
    go = asyncio.Event()
    full = asyncio.Event()

    class Held(Echo):
        async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
            at_work.append(context.run_id)
            if at_work.count("many") == AT_ONCE:
                full.set()
            if context.run_id == "many":
                await go.wait()
            return "done"

    toolbox = Gate(tools=lambda: {"echo": Held()}, hooks=lambda _: [], budget=_as_it_is, restore=_lost).box(ALL_TOOLS)

    places = {run: asyncio.Semaphore(AT_ONCE) for run in ("many", "one")}

    def made(run: str) -> Coroutine[Any, Any, ToolResult]:
        call = ToolCall(id="c", name="echo", arguments='{"text": "a"}')
        return toolbox.execute(call, "", replace(CONTEXT, run_id=run), Deadline(SystemClock(), 30.0), places[run])

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        many = [group.create_task(made("many")) for _ in range(3 * AT_ONCE)]
        await full.wait()
        assert (await made("one")).content == "done"
        assert at_work.count("many") == AT_ONCE
        go.set()
    assert [task.result().content for task in many] == ["done"] * 3 * AT_ONCE


def shaped(**schema: Any) -> Echo:
    """An echo whose schema says more of itself, and which may be a stranger's."""
    echo, takes_more = Echo(), schema.pop("takes_more", False)
    echo.spec = replace(Echo.spec, parameters=Echo.spec.parameters | schema, takes_more=takes_more)
    return echo


async def tried(echo: Echo, arguments: str) -> ToolResult:
    toolbox = Gate(tools=lambda: {"echo": echo}, hooks=lambda _: [], budget=_as_it_is, restore=_lost).box(ALL_TOOLS)
    made = ToolCall(id="c", name="echo", arguments=arguments)
    return await toolbox.execute(made, "", CONTEXT, Deadline(SystemClock(), 30), asyncio.Semaphore(8))


@pytest.mark.parametrize("name", ["tiems", "time", "Times", "ti_mes", "timess"])
async def test_a_misspelt_argument_is_told_before_anything_is_done(name: str) -> None:
    echo = Echo()
    output = await tried(echo, f'{{"text": "ho", "{name}": 2}}')
    assert output.content == f"echo has no parameter {name!r}; did you mean 'times'? Nothing was done"
    assert output.is_error
    assert echo.heard == []


async def test_an_argument_like_none_the_tool_has_is_left_out_and_told() -> None:
    output = await tried(Echo(), '{"text": "ho", "explanation": "because", "nothing": null}')
    assert output == ToolResult(content="ho\n(echo does not know 'explanation', which was ignored.)")
    assert (await tried(Echo(), '{"text": "refuse", "explanation": "because"}')).content == "I will not. Ask nicely."


@pytest.mark.parametrize(
    "schema", [{"takes_more": True}, {"additionalProperties": True}, {"additionalProperties": {"type": "integer"}}]
)
async def test_a_tool_that_may_take_more_than_it_names_is_given_it(schema: dict[str, Any]) -> None:
    echo = shaped(**schema)
    assert await tried(echo, '{"text": "ho", "tiems": 2}') == ToolResult(content="ho")
    assert echo.heard == [{"text": "ho", "tiems": 2}]


@pytest.mark.parametrize("takes_more", [True, False])
async def test_a_schema_that_forbids_more_is_held_to(takes_more: bool) -> None:
    closed = shaped(additionalProperties=False, takes_more=takes_more)
    output = await tried(closed, '{"text": "ho", "explanation": "because"}')
    assert (output.is_error, output.content) == (True, "echo has no parameter 'explanation'; it has text, times")
    assert closed.heard == []


async def test_a_tool_without_parameters_says_so() -> None:
    output = await tried(shaped(properties={}, required=[], additionalProperties=False), '{"text": "ho"}')
    assert (output.is_error, output.content) == (True, "echo has no parameter 'text'; it has none")
