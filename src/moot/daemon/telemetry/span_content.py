"""The content of spans as JSON, redacted and of bounded length. Used by run_spans.py if the owner enabled content."""

from collections.abc import Callable, Iterable

import msgspec

from moot.domain.message import Message, Role
from moot.models.observed import ModelCall

# The most characters of one attribute.
MAX_CHARACTERS = 32_000
_CUT = "[earlier messages are left out]"


class SpanContent:
    """`redact` removes secrets and personal data."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def render_text(self, text: str) -> str:
        # Redacted first: the rest of a secret that was cut would not be recognized.
        return self._redact(text)[:MAX_CHARACTERS]

    def render_system(self, call: ModelCall) -> str:
        return _encode([{"type": "text", "content": self.render_text(part)} for part in call.prompt.system])

    def render_input(self, call: ModelCall) -> str:
        """Return the newest messages of the request that fit."""
        prompt = call.prompt
        left, found = MAX_CHARACTERS, list[dict[str, object]]()
        for message in reversed((*prompt.transcript.messages, *prompt.context, *prompt.tail)):
            rendered = self._render_message(message)
            left -= len(_encode(rendered))
            if left < 0:
                found.append({"role": "system", "parts": [{"type": "text", "content": _CUT}]})
                break
            found.append(rendered)
        return _encode(found[::-1])

    def render_output(self, call: ModelCall) -> str:
        text = self.render_text("".join(call.text))
        parts: list[dict[str, object]] = [{"type": "text", "content": text}] if text else []
        parts += [self._render_call(each.id, each.name, each.arguments) for each in call.calls]
        return _encode([{"role": "assistant", "parts": parts}])

    def _render_message(self, message: Message) -> dict[str, object]:
        text = self.render_text(message.content)
        if message.role is Role.TOOL:
            part: dict[str, object] = {"type": "tool_call_response", "id": message.tool_call_id, "response": text}
            return {"role": "tool", "parts": [part]}
        parts: list[dict[str, object]] = [{"type": "text", "content": text}] if text else []
        parts += [self._render_call(call.id, call.name, call.arguments) for call in message.tool_calls]
        return {"role": str(message.role), "parts": parts}

    def _render_call(self, call_id: str, name: str, arguments: str) -> dict[str, object]:
        return {"type": "tool_call", "id": call_id, "name": name, "arguments": self.render_text(arguments)}


def _encode(value: Iterable[object]) -> str:
    return msgspec.json.encode(value).decode()
