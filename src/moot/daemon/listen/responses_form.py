"""Request and response formats of OpenAI's Responses API. Pure. Used by responses_api."""

from typing import Any

import msgspec

from moot.daemon.listen.openai_form import AnswerState
from moot.domain.errors import BadRequest, NotFound
from moot.domain.usage import Usage

_PREFIX = "resp_"
_STATUS = {
    "queued": "queued",
    "waiting_for_answer": "completed",
    "waiting_for_approval": "in_progress",
    "denied": "incomplete",
    "tool_error": "incomplete",
}


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class InputItem(msgspec.Struct):
    role: str = ""
    content: str | list[_Part] = ""
    type: str = "message"


class ResponseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The supported fields. Any other is refused: the agent has its own model, tools and instructions."""

    model: str
    input: str | list[InputItem]
    stream: bool | None = None
    user: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None


_request = msgspec.json.Decoder(ResponseRequest)


def parse_request(body: bytes) -> ResponseRequest:
    try:
        request = _request.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(
            f"not a request that is supported here: {error}",
            fix="Supported are model, input, stream, user, previous_response_id, store and metadata.",
        ) from None
    if request.store is False:
        raise BadRequest("conversations are always stored", fix="Leave `store` out.")
    return request


def input_text(given: str | list[InputItem]) -> str:
    """Return the text of the last user message, the only one that the conversation does not contain yet."""
    if isinstance(given, str):
        return given
    for item in reversed(given):
        if item.type == "message" and item.role == "user":
            return item.content if isinstance(item.content, str) else "\n".join(map(_part_text, item.content))
    raise BadRequest("there is no user message", fix="End `input` with a message of role user.")


def _part_text(part: _Part) -> str:
    if part.type != "input_text":
        raise BadRequest(f"a part of type '{part.type}' is not supported", fix="Send input_text parts only.")
    return part.text


def response_id(run_id: str) -> str:
    return _PREFIX + run_id


def describe_response(run_id: str) -> str:
    return f"read GET /v1/responses/{response_id(run_id)}"


def run_of(id_: str) -> str:
    """Return the run of a response id."""
    if not id_.startswith(_PREFIX):
        raise NotFound("there is no such response", fix="Use the `id` of an earlier response.")
    return id_.removeprefix(_PREFIX)


class ResponseForm:
    """Builds the documents of one response from their constant fields."""

    def __init__(self, *, run_id: str, created: int, model: str, previous: str | None) -> None:
        self._head = {
            "id": response_id(run_id), "object": "response", "created_at": created, "model": model,
            "previous_response_id": previous, "error": None, "instructions": None, "metadata": {},
            "parallel_tool_calls": True, "temperature": None, "tool_choice": "auto", "tools": [], "top_p": None,
        }  # fmt: skip
        self._item_id = f"msg_{run_id}"

    def whole(self, text: str, *, finish: str, usage: Usage, state: AnswerState | None) -> dict[str, Any]:
        status = _STATUS[state.status] if state is not None else "completed" if finish == "stop" else "incomplete"
        reason = state.status if state is not None else "max_output_tokens"
        document = self._head | {
            "status": status,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "output": [self.item(text, status="completed")],
            "usage": _usage_form(usage),
        }
        return document | ({"moot": state} if state is not None else {})

    def end_stream(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the document that ends a stream: clients know no other ends than completed, incomplete and failed.

        A response that waits is incomplete there; read with its id, it says that it is queued or in progress.
        """
        if document["status"] in ("completed", "incomplete"):
            return document
        return document | {"status": "incomplete", "incomplete_details": {"reason": document["moot"].status}}

    def render_start(self) -> dict[str, Any]:
        return self._head | {"status": "in_progress", "incomplete_details": None, "output": [], "usage": None}

    def render_failure(self, error: dict[str, Any]) -> dict[str, Any]:
        data = {"code": "server_error", "message": error["message"]}
        return self.render_start() | {"status": "failed", "error": data}

    def item(self, text: str | None, *, status: str) -> dict[str, Any]:
        content = [self.part(text)] if text is not None else []
        return {"type": "message", "id": self._item_id, "role": "assistant", "status": status, "content": content}

    def part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": []}

    def place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}


def _usage_form(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_hit},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }
