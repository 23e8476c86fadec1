"""Replays a recorded run: sends its requests to a model again and reports where the answers differ. Runs no tools."""

import json
from enum import StrEnum
from random import Random
from typing import Any

from msgspec import Struct

from moot.domain.errors import NotFound
from moot.domain.events import EventBody
from moot.domain.message import Message, ToolCall, assistant
from moot.domain.ports.model import Model
from moot.domain.ports.traces import StepStore
from moot.domain.prompt import Prompt, Transcript
from moot.domain.step_record import StoredStep
from moot.domain.usage import Usage
from moot.engine.step import ModelReply, Step
from moot.engine.step_records import rebuild


class ReplayVerdict(StrEnum):
    SAME = "same"
    TEXT = "text"
    CALLS = "calls"
    UNKNOWN = "unknown"


class ReplayedStep(Struct, frozen=True, kw_only=True):
    """The new and the recorded answer of one step, with calls as text."""

    step: int
    verdict: ReplayVerdict
    expected: str
    got: str
    usage: Usage
    cost: float


async def find_step(store: StepStore, run_id: str, step: int) -> StoredStep:
    """Return the record of a step; of the last one if `step` is 0."""
    numbers = await store.list_numbers(run_id)
    stored = await store.find(run_id, step or numbers[-1]) if numbers else None
    if stored is None:
        none = (
            "A request is recorded once its answer has come. A message that was shown to an active run has none"
            f" of its own: `moot show {run_id}` names that run."
        )
        known = f"It has {numbers[0]} to {numbers[-1]}." if numbers else none
        raise NotFound(
            f"run {run_id} has no record of step {step}" if step else f"run {run_id} has no record", fix=known
        )
    return stored


async def replay(store: StepStore, run_id: str, model: Model, rng: Random) -> list[ReplayedStep]:
    """Replay the recorded steps until the calls differ, since no recorded result fits those."""
    replayed: list[ReplayedStep] = []
    for number in await store.list_numbers(run_id):
        stored = await find_step(store, run_id, number)
        _, prompt = rebuild(stored)
        reply = await Step(speaker="", emit=_ignore, rng=rng).read(model, prompt)
        if not prompt.tools and stored.reply is not None and not stored.reply.tool_calls:
            # Calls of a guest were refused and are not in the recorded answer.
            reply.calls.clear()
        replayed.append(_compare(stored, reply, model))
        if replayed[-1].verdict is ReplayVerdict.CALLS:
            break
    return replayed


def _compare(stored: StoredStep, reply: ModelReply, model: Model) -> ReplayedStep:
    got = assistant(reply.text, tool_calls=tuple(reply.calls))
    usage = reply.usage or Usage()
    # Stored messages have personal data where the model was sent placeholders.
    expected = _mask_message(stored.reply, model) if stored.reply is not None else None
    return ReplayedStep(
        step=stored.step,
        verdict=_judge(expected, _mask_message(got, model)),
        expected=_describe(expected) if expected is not None else "",
        got=_describe(got),
        usage=usage,
        cost=model.cost(usage),
    )


def _mask_message(message: Message, model: Model) -> Message:
    return model.mask_prompt(Prompt(system=(), transcript=Transcript([message]))).transcript.messages[0]


def _judge(expected: Message | None, got: Message) -> ReplayVerdict:
    if expected is None:
        return ReplayVerdict.UNKNOWN
    if list(map(_call, expected.tool_calls)) != list(map(_call, got.tool_calls)):
        return ReplayVerdict.CALLS
    return ReplayVerdict.SAME if expected.content.strip() == got.content.strip() else ReplayVerdict.TEXT


def _call(call: ToolCall) -> tuple[str, Any]:
    """Return a call without its id, which differs in every answer."""
    try:
        return call.name, json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.name, call.arguments


def _describe(message: Message) -> str:
    calls = [f"{call.name} {call.arguments}" for call in message.tool_calls]
    return "\n".join([*([message.content] if message.content.strip() else []), *calls])


def _ignore(_: EventBody) -> None:
    return
