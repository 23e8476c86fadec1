"""Stores results that are too long for a model, and `tool_output_get`, which reads them in parts."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from moot.domain.config import OutputConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.ids import make_id
from moot.domain.output import LINE_LENGTH, Output, Page, is_binary, page, shorten
from moot.domain.ports.agent_data import Outputs
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.tools import output_search
from moot.tools.threads import run_in_thread

MODES = ("full", "range", "grep")
# The search process limits itself to two seconds of CPU time; this is for systems without that limit.
_SEARCH_SECONDS = 10.0
_PATTERN_LENGTH = 1_000
_RANGE_LINES = 100
_MATCHES = 100
_EXCERPT = 300
_SEARCHES = 4
_REF = "out"
# Other ids that a model may mistake for a ref.
_RUNS = ("arun-", "run-")


def tools(
    *, outputs: Outputs, config: Callable[[], OutputConfig], clock: Clock, redact: Callable[[str], str]
) -> list[Tool]:
    """Build the tool. `redact` removes all currently known secrets from a text."""
    return [ToolOutputGet(outputs, config, clock, redact)]


class StoreLongResult:
    """Stores a result that exceeds its budget and returns its beginning and end. Called by the gate."""

    def __init__(self, outputs: Outputs, config: Callable[[], OutputConfig], clock: Clock, rng: Random) -> None:
        self._outputs = outputs
        self._config = config
        self._clock = clock
        self._rng = rng

    async def __call__(self, call: GateCall, result: ToolResult) -> ToolResult:
        content = result.content
        if is_binary(content):
            text = f"(binary data, about {len(content)} bytes; none of it is shown or kept)"
            return replace(result, content=text)
        budget = self._config().budget_characters
        # Reading a stored output is bounded already; storing that again would loop.
        if len(content) <= budget or call.tool.spec.name == ToolOutputGet.spec.name:
            return result
        now = self._clock.now()
        output = Output(
            ref=make_id(_REF, now=now, rng=self._rng),
            tool=call.tool.spec.name,
            content=content[: self._config().max_characters],
            taint=result.taint,
            created_at=now,
        )
        await self._outputs.keep(call.context.key, output, most=self._config().max_kept)
        shown, _ = shorten(content, budget, ref=output.ref)
        # A mark that the daemon wrote may have lost its end.
        return replace(result, content=shown, author="")


class ToolOutputGet:
    spec = ToolSpec(
        name="tool_output_get",
        safety=Safety.SAFE,
        group="outputs",
        description="Read more of a tool result that was cut because it was too long; its ref is shown where it was "
        "cut. Only such results can be read. Long ones come in pages: continue at next_offset.",
        parameters={
            "type": "object",
            "properties": {
                "ref": {"type": "string", "description": "The ref shown where the result was cut."},
                "mode": {
                    "type": "string",
                    "enum": list(MODES),
                    "description": "full from the beginning (if not given), range of lines, or grep for a pattern.",
                },
                "offset": {"type": "integer", "description": "range: the first line, counted from 0."},
                "limit": {"type": "integer", "description": f"range: how many lines; {_RANGE_LINES} if not given."},
                "pattern": {"type": "string", "description": "grep: a regular expression, matched line by line."},
            },
            "required": ["ref"],
        },
    )

    def __init__(
        self, outputs: Outputs, config: Callable[[], OutputConfig], clock: Clock, redact: Callable[[str], str]
    ) -> None:
        self._outputs = outputs
        self._config = config
        self._clock = clock
        self._redact = redact
        self._search = SearchSlots(clock)

    def line(self, arguments: dict[str, Any]) -> str:
        how = f"grep {arguments['pattern']}" if arguments.get("pattern") else str(arguments.get("mode") or "full")
        return f"read {arguments.get('ref', '')} ({how})"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        mode = str(arguments.get("mode") or "full")
        if mode not in MODES:
            raise BadRequest(f"{mode!r} is not a valid mode", fix=f"Valid modes: {', '.join(MODES)}.")
        pattern = str(arguments.get("pattern") or "")
        if mode == "grep" and not pattern:
            raise BadRequest("missing pattern parameter", fix="Pass a pattern.")
        ref = str(arguments["ref"])
        output = await self._outputs.get(context.key, ref, since=self._clock.now() - self._config().keep_seconds)
        if output is None:
            raise NotFound(f"there is no result {ref!r} here, or no longer", fix=_explain_missing(ref))
        # Redact secrets that became known since, before splitting into pages.
        content = await run_in_thread(self._redact, output.content)
        if mode == "grep":
            found = await self._search(context.key, content, pattern)
        else:
            found = await self._page(content, mode, arguments)
        return ToolResult(content=msgspec.json.encode(found).decode(), taint=output.taint)

    async def _page(self, content: str, mode: str, arguments: dict[str, Any]) -> dict[str, Any]:
        characters = self._config().budget_characters
        if mode == "full":
            offset, limit = 0, characters
        else:
            offset = max(0, int(arguments.get("offset") or 0))
            limit = max(1, min(characters, int(arguments.get("limit") or _RANGE_LINES)))
        # Counting lines takes long, so it runs in a thread.
        read: Page = await run_in_thread(page, content, offset=offset, limit=limit, characters=characters)
        data: dict[str, Any] = {"content": read.content}
        if mode == "range" or read.next_offset:
            data |= {"totalLines": read.total_lines, "offset": read.offset, "limit": read.lines}
        if read.next_offset:
            data["next_offset"] = read.next_offset
        return data


def _explain_missing(ref: str) -> str:
    """The fix for an unknown ref. Never suggests repeating the call, which may have had effects."""
    if ref.startswith(_RUNS):
        return "This is the id of a run, not a ref: agent_wait returns its result."
    if not ref.startswith(f"{_REF}-"):
        return f'Only a result that was cut can be read, by the ref "{_REF}-…" shown where it was cut.'
    return "Cut results are kept for a day; continue with the part that was shown."


class SearchSlots:
    """Limits searches: one at a time per conversation, and a few in total."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all = asyncio.Semaphore(_SEARCHES)
        self._turns: WeakValueDictionary[ConversationKey, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, key: ConversationKey, content: str, pattern: str) -> dict[str, Any]:
        if len(pattern) > _PATTERN_LENGTH:
            raise BadRequest(f"the pattern has {len(pattern)} characters", fix=f"Use at most {_PATTERN_LENGTH}.")
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn, self._all:
            answer = await _run_search(content, pattern, self._clock)
        if "error" in answer:
            raise BadRequest(f"the pattern is not a regular expression: {answer['error']}", fix="Correct the pattern.")
        return answer


def _too_slow() -> BadRequest:
    return BadRequest("the search took too long and was stopped", fix="Use a simpler pattern.")


async def _run_search(content: str, pattern: str, clock: Clock) -> dict[str, Any]:
    """Search in a child process, because Python's regular expressions cannot be interrupted."""
    bounds = msgspec.json.encode(
        {"pattern": pattern, "limit": _MATCHES, "excerpt": _EXCERPT, "line_length": LINE_LENGTH}
    )
    text = await run_in_thread(content.encode, "utf-8", "replace")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        output_search.__file__,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
    )
    try:
        async with clock.timeout(_SEARCH_SECONDS):
            output, _ = await child.communicate(bounds + b"\n" + text)
        answer: dict[str, Any] = msgspec.json.decode(output)
    except TimeoutError:
        raise _too_slow() from None
    except msgspec.DecodeError:
        if child.returncode == -signal.SIGXCPU:
            raise _too_slow() from None
        raise BadRequest("the search failed", fix="Use a simpler pattern, or read a range.") from None
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    return answer
