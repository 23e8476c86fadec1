"""Request and response formats of OpenAI's chat completions. Pure."""

from collections.abc import Callable
from typing import Any

import msgspec

from moot.domain.ask import Ask, Asker
from moot.domain.errors import BadRequest, Conflict, Forbidden, ModelError, MootError, Unavailable
from moot.domain.ids import shorten_ask_id
from moot.domain.run import WITHDRAWN, Outcome, RunEnd
from moot.domain.usage import Usage

HISTORY_HEADER = "x-moot-history"
HISTORY_NOTE = "server; only the last user message was appended"

_FINISH = {
    Outcome.COMPLETED: "stop",
    Outcome.ESCALATED: "stop",
    Outcome.EMPTY: "stop",
    Outcome.EMPTY_AFTER_TOOL_USE: "stop",
    Outcome.LIMIT: "length",
    Outcome.TIMEOUT: "length",
    Outcome.LOOP_DETECTED: "length",
}
# Outcomes of runs that did nothing, whatever their text says.
_UNDONE = frozenset({Outcome.DENIED, Outcome.TOOL_ERROR})


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class MootOptions(msgspec.Struct):
    """Moot's own part of a request: with `run_id`, the answer of that run is returned and no message is sent."""

    run_id: str = ""


class ChatMessage(msgspec.Struct, gc=False):
    role: str
    # Only the content of one message is used; the rest of a resent history is not parsed.
    content: msgspec.Raw = msgspec.Raw(b"null")


class ChatRequest(msgspec.Struct):
    """The supported fields. Sampling parameters are ignored, as the agent determines them."""

    model: str
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None
    n: int | None = None
    moot: MootOptions | None = None


class _Part(msgspec.Struct, gc=False):
    type: str
    text: str = ""


_request = msgspec.json.Decoder(ChatRequest)
_content = msgspec.json.Decoder(str | list[_Part] | None)


def parse_request(body: bytes) -> ChatRequest:
    try:
        request = _request.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"not a chat completion request: {error}", fix="See GET /openapi.json.") from None
    if request.n not in (None, 1):
        raise BadRequest("an agent answers once", fix="Leave `n` out.")
    return request


def last_user_content(messages: list[ChatMessage]) -> str:
    """Return the text of the last user message, the only one that the conversation does not contain yet."""
    for message in reversed(messages):
        if message.role == "user":
            return _parse_text(message.content)
    raise BadRequest("there is no user message", fix="End `messages` with a message of role user.")


def _parse_text(raw: msgspec.Raw) -> str:
    try:
        content = _content.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the last user message cannot be read: {error}", fix="Send text.") from None
    if isinstance(content, str):
        return content
    for part in content or ():
        if part.type != "text":
            raise BadRequest(f"a part of type '{part.type}' is not supported", fix="Send text parts only.")
    return "\n".join(part.text for part in content or ())


def finish_reason(end: RunEnd) -> str:
    """Return OpenAI's finish reason for the end of a run. Raise if the run failed, for which there is none."""
    reason = _FINISH.get(end.outcome)
    if end.outcome in _UNDONE and end.answer:
        # An error would lose the text; `undone_state` says that nothing was done.
        reason = "stop"
    if reason is None:
        raise failure(end)
    return reason


def failure(end: RunEnd) -> MootError:
    what = end.error or f"the run ended: {end.outcome}"
    match end.outcome:
        case Outcome.CANCELLED:
            is_kept = end.error != WITHDRAWN.error
            return Conflict(what, fix=f"Your message is {'kept' if is_kept else 'not'} in the history.")
        case Outcome.DENIED:
            return Forbidden(what)
        case Outcome.INTERRUPTED:
            return Unavailable(what, fix="The daemon stopped during the run; ask again.")
        case Outcome.MODEL_ERROR:
            return ModelError(what, fix="Try the model alone with `moot models test`.")
        case _:
            return MootError(what, fix="See the daemon's log.")


def question_text(ask: Ask, by: Asker | None = None) -> str:
    """Return a question as assistant text; the next user message is the answer."""
    lines = [f"{by.agent} asks:"] if by is not None else []
    for question in ask.questions:
        lines.append(question.question)
        lines.extend(
            f"- {option.label}: {option.description}" if option.description else f"- {option.label}"
            for option in question.options
        )
    return "\n".join(lines)


class WaitingState(msgspec.Struct, frozen=True, kw_only=True):
    """Why an answer is not the last word: what the run, or the one ahead in the queue, waits for a person with."""

    # waiting_for_answer, waiting_for_approval or queued.
    status: str
    run_id: str
    ask_id: str
    attempt: int
    kind: str
    tool: str = ""
    line: str = ""
    how: str = ""


class UndoneState(msgspec.Struct, frozen=True, kw_only=True):
    """Why an answer does not mean that something was done: the calls of the run were denied, or failed."""

    # denied or tool_error.
    status: str
    run_id: str
    error: str


# What an answer says besides its text, unless it is a plain one.
AnswerState = WaitingState | UndoneState


def undone_state(end: RunEnd, run_id: str) -> UndoneState | None:
    return UndoneState(status=str(end.outcome), run_id=run_id, error=end.error) if end.outcome in _UNDONE else None


# Says how a client reads the answer of a run, by the run's id.
DescribeReading = Callable[[str], str]


def describe_completion(run_id: str) -> str:
    return f'send "moot": {{"run_id": "{run_id}"}} with any user message'


def waiting_for(ask: Ask, run_id: str, describe: DescribeReading) -> WaitingState:
    if ask.is_question:
        how = "The next user message of this conversation is the answer."
        status = "waiting_for_answer"
        return WaitingState(status=status, run_id=run_id, ask_id=ask.id, attempt=ask.attempt, kind=ask.kind, how=how)
    short = shorten_ask_id(ask.id)
    how = (
        f"The owner decides with `moot inbox approve {short}` or `moot inbox deny {short}`, a token that may approve"
        f" with POST /api and `decide_ask`; then {describe(run_id)} for the answer."
    )
    return WaitingState(
        status="waiting_for_approval",
        run_id=run_id,
        ask_id=ask.id,
        attempt=ask.attempt,
        kind=ask.kind,
        tool=ask.tool,
        line=ask.line,
        how=how,
    )


def waiting_in_queue(run_id: str, ask_id: str, kind: str, describe: DescribeReading) -> WaitingState:
    how = (
        "The message is stored and queued; the run ahead waits for what "
        f"`moot inbox show {shorten_ask_id(ask_id)}` shows. Once that is decided, {describe(run_id)} for the answer."
    )
    return WaitingState(status="queued", run_id=run_id, ask_id=ask_id, attempt=0, kind=kind, how=how)


def waiting_text(state: WaitingState) -> str:
    """The state as assistant text, for clients that show nothing else."""
    what = f"Waiting for approval: {state.line}" if state.line else "Waiting."
    return f"{what}\n{state.how}"


class Completion:
    """Builds the documents of one completion from their constant fields."""

    def __init__(self, *, id: str, created: int, model: str) -> None:
        self._head = {"id": id, "created": created, "model": model}

    def whole(
        self, text: str, *, reasoning: str, finish: str, usage: Usage, state: AnswerState | None = None
    ) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if reasoning:
            message["reasoning_content"] = reasoning
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        document = {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage_form(usage)}
        return document | _moot_form(state)

    def chunk(
        self, delta: dict[str, Any], *, finish: str | None = None, state: AnswerState | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]} | _moot_form(state)

    def usage_chunk(self, usage: Usage) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage_form(usage)}


def _moot_form(state: AnswerState | None) -> dict[str, Any]:
    return {"moot": state} if state is not None else {}


def usage_form(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_hit},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def model_form(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "moot"}
