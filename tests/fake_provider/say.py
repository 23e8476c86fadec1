"""Encodes answers as events of either provider's protocol."""

import json
import re
from typing import Any

_PIECE = re.compile(r"\s*\S+")


def tokens(answer: dict[str, Any]) -> list[str]:
    if "tokens" in answer:
        return list(answer["tokens"])
    return _PIECE.findall(answer.get("text", ""))


def _calls(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    made = []
    for number, call in enumerate(answer.get("calls", [])):
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        made.append((call.get("id", f"call_fake_{number:04d}"), call["name"], text))
    return made


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


# ---- OpenAI -------------------------------------------------------------------------------------


def openai_events(answer: dict[str, Any]) -> list[bytes]:
    events = [_chunk({"role": "assistant", "content": ""})]
    for done, total in answer.get("progress", []):
        events.append(_data({"choices": [], "prompt_progress": {"total": total, "processed": done}}))
    if answer.get("thinking"):
        events += [_chunk({"reasoning_content": piece}) for piece in _halves(answer["thinking"])]
    events += [_chunk({"content": token}) for token in tokens(answer)]
    for index, (call_id, name, arguments) in enumerate(_calls(answer)):
        first = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        events.append(_chunk({"tool_calls": [first]}))
        events += [
            _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in _halves(arguments)
        ]
    if "error" in answer:
        return [*events, _data({"error": answer["error"]})]
    finish = answer.get("finish", "tool_calls" if answer.get("calls") else "stop")
    events.append(_chunk({}, finish))
    usage = answer.get("usage", {})
    if usage is not None:
        events.append(_data({"id": "chatcmpl-fake", "choices": [], "usage": _openai_usage(usage)}))
    return events if answer.get("no_done") else [*events, b"data: [DONE]\n\n"]


def _openai_usage(usage: dict[str, int]) -> dict[str, Any]:
    prompt, completion = usage.get("prompt", 11), usage.get("completion", 5)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.get("cached", 0)},
        "completion_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
    }


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _data({"id": "chatcmpl-fake", "object": "chat.completion.chunk", "model": "fake", "choices": [choice]})


def _data(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


# ---- Anthropic ----------------------------------------------------------------------------------


def anthropic_events(answer: dict[str, Any]) -> list[bytes]:
    usage = answer.get("usage") or {}
    counted = {
        "input_tokens": usage.get("prompt", 11),
        "cache_read_input_tokens": usage.get("cached", 0),
        "cache_creation_input_tokens": usage.get("written", 0),
        "output_tokens": 1,
    }
    message = {"id": "msg_fake", "type": "message", "role": "assistant", "content": [], "usage": counted}
    events = [_event("message_start", message=message), _event("ping")]
    for index, block in enumerate(_blocks(answer)):
        events += _block_events(index, *block)
    if "error" in answer:
        return [*events, _event("error", error=answer["error"])]
    stop = answer.get("finish", "tool_use" if answer.get("calls") else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append(_event("message_delta", delta=delta, usage={"output_tokens": usage.get("completion", 5)}))
    return events if answer.get("no_done") else [*events, _event("message_stop")]


def _blocks(answer: dict[str, Any]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each block as it starts, and its deltas."""
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.get("redacted"):
        blocks.append(({"type": "redacted_thinking", "data": answer["redacted"]}, []))
    if answer.get("thinking"):
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _halves(answer["thinking"])]
        deltas.append({"type": "signature_delta", "signature": answer.get("signature", "c2lnbmVk")})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if said := tokens(answer):
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": token} for token in said]))
    for call_id, name, arguments in _calls(answer):
        own = call_id.replace("call_", "toolu_") if call_id.startswith("call_fake_") else call_id
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_halves(arguments)]]
        blocks.append(({"type": "tool_use", "id": own, "name": name, "input": {}}, deltas))
    return blocks


def _block_events(index: int, block: dict[str, Any], deltas: list[dict[str, Any]]) -> list[bytes]:
    return [
        _event("content_block_start", index=index, content_block=block),
        *(_event("content_block_delta", index=index, delta=delta) for delta in deltas),
        _event("content_block_stop", index=index),
    ]


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})
