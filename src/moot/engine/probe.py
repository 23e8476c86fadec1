"""Makes one real completion to check that a model answers."""

from contextlib import aclosing

from msgspec import Struct

from moot.domain.errors import ModelError
from moot.domain.message import user
from moot.domain.ports.clock import Clock
from moot.domain.ports.model import Finished, Model, TextDelta
from moot.domain.prompt import Prompt, Transcript
from moot.domain.usage import Usage

_SYSTEM = "You are being tested. Answer with one short sentence."
_QUESTION = "Say hello."


class ProbeResult(Struct, frozen=True, kw_only=True):
    content: str
    first_token_seconds: float
    seconds: float
    usage: Usage
    # The context window of the model; 0 if it is only assumed.
    window: int


async def probe(model: Model, *, clock: Clock) -> ProbeResult:
    started = clock.monotonic()
    first = 0.0
    pieces: list[str] = []
    usage = Usage()
    prompt = Prompt(system=(_SYSTEM,), transcript=Transcript([user(_QUESTION)]), max_tokens=256)
    async with aclosing(model.stream(prompt)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                first = first or clock.monotonic() - started
                pieces.append(event.text)
            elif isinstance(event, Finished) and event.usage is not None:
                usage = event.usage
    content = "".join(pieces).strip()
    if not content:
        raise ModelError(f"the model {model.name} returned no text", fix="Try another model.")
    seconds = clock.monotonic() - started
    # After the completion, since some servers only report a loaded model.
    await model.find_window()
    window = 0 if model.window_is_assumed else model.window
    return ProbeResult(content=content, first_token_seconds=first, seconds=seconds, usage=usage, window=window)
