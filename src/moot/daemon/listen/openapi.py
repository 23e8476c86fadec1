"""The OpenAPI 3.1 document of the HTTP API. A test compares it with the routes."""

from typing import Any

from moot import __version__
from moot.daemon.listen.openai_form import HISTORY_HEADER, HISTORY_NOTE

_Schema = dict[str, Any]


def document() -> _Schema:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Moot",
            "version": __version__,
            "summary": "Talk to agents over HTTP, on this machine.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:7788"}],
        "security": [{"token": []}],
        "paths": {
            "/healthz": _health(),
            "/openapi.json": _self(),
            "/ws": _websocket(),
            "/api": _api(),
            "/v1/models": _models(),
            "/v1/models/{name}": _model(),
            "/v1/chat/completions": _completions(),
            "/v1/responses": _responses(),
            "/v1/responses/{id}": _response(),
            "/metrics": _metrics(),
        },
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Made with `moot tokens new NAME`."}
            },
            "schemas": _schemas(),
        },
    }


def _health() -> _Schema:
    ok = _object({"ok": {"const": True}}, required=["ok"])
    return {"get": {"summary": "Whether the daemon answers.", "security": [], "responses": {"200": _json("Yes.", ok)}}}


def _metrics() -> _Schema:
    found = {"description": "The text format of Prometheus.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {
        "get": {
            "summary": "Metrics, if [metrics] is enabled.",
            "description": "Needs the token in `data/metrics.token`, which is good for nothing else, unless `access` of"
            " [metrics] is `loopback`.",
            "security": [{"token": []}, {}],
            "responses": {"200": found, **_errors("401", "404")},
        }
    }


def _self() -> _Schema:
    found = _json("OpenAPI 3.1.", {"type": "object"})
    return {"get": {"summary": "This document.", "security": [], "responses": {"200": found}}}


def _websocket() -> _Schema:
    return {
        "get": {
            "summary": "The whole protocol as JSON.",
            "description": "A WebSocket. Each text frame is one message of docs/protocol.md in proto3 JSON. The token "
            "comes in the Authorization header, or in a `hello` message before any other.",
            "security": [{"token": []}, {}],
            "responses": {"101": {"description": "The WebSocket is open."}, **_errors("401", "403", "429")},
        }
    }


def _api() -> _Schema:
    return {
        "post": {
            "summary": "One request of the protocol, one answer.",
            "description": "A ClientMessage of docs/protocol.md in proto3 JSON, answered with its ServerMessage. "
            "`stream`, `attach`, `subscribe_events` and `hello` need the WebSocket.",
            "requestBody": _body({"type": "object", "examples": [{"list_conversations": {}}]}),
            "responses": {
                "200": _json("The ServerMessage.", {"type": "object"}),
                **_errors("400", "401", "403", "404", "409", "413", "415", "429", "500", "502", "503", "507"),
            },
        }
    }


def _models() -> _Schema:
    listed = _object(
        {"object": {"const": "list"}, "data": {"type": "array", "items": _ref("Model")}}, required=["object", "data"]
    )
    return {
        "get": {
            "summary": "The agents, as models.",
            "responses": {"200": _json("Every agent.", listed), **_openai_errors("401", "403", "429")},
        }
    }


def _model() -> _Schema:
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "get": {
            "summary": "One agent, as a model.",
            "parameters": [name],
            "responses": {"200": _json("The agent.", _ref("Model")), **_openai_errors("401", "403", "404", "429")},
        }
    }


def _completions() -> _Schema:
    note = {HISTORY_HEADER: {"schema": {"const": HISTORY_NOTE}, "description": "Where the history is."}}
    answered = {
        "description": "The agent's answer; with `stream`, a chunk an event and `[DONE]` at the end.",
        "headers": note,
        "content": {
            "application/json": {"schema": _ref("ChatCompletion")},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    }
    again = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string"},
        "description": "Makes a retry safe: the same key in the same conversation is one turn.",
    }
    return {
        "post": {
            "summary": "Say something to an agent.",
            "description": "The conversation is (`model`, `user`) and its history is kept here: of `messages` only the "
            "last with role user is appended. When the agent has asked the user a question, it is the answer.",
            "parameters": [again],
            "requestBody": _body(_ref("ChatRequest")),
            "responses": {
                "200": answered,
                **_openai_errors("400", "401", "403", "404", "409", "413", "415", "429", "500", "502", "503", "507"),
            },
        }
    }


def _responses() -> _Schema:
    text = {"type": "string"}
    chat_request = _object(
        {
            "model": {"type": "string", "description": "The agent, or `agent@guest` to have a guest answer."},
            "input": {"anyOf": [text, {"type": "array", "items": {"type": "object"}}]},
            "stream": {"type": ["boolean", "null"]},
            "user": {"type": ["string", "null"], "description": "The sender; the token's name by default."},
            "previous_response_id": {"type": ["string", "null"], "description": "Continue its conversation."},
            "store": {"enum": [True, None]},
            "metadata": {"type": ["object", "null"]},
        },
        required=["model", "input"],
    )
    return {
        "post": {
            "summary": "Say something to an agent, in the format of OpenAI's Responses API.",
            "description": "Of `input` only the last message with role user is appended. Other parameters are refused.",
            "requestBody": _body(chat_request),
            "responses": {
                "200": _json("The response; with `stream`, events.", {"type": "object"}),
                **_openai_errors("400", "401", "403", "404", "409", "413", "415", "429", "500", "502", "503", "507"),
            },
        }
    }


def _response() -> _Schema:
    name = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "get": {
            "summary": "A response, once its run has ended or waits for a person.",
            "parameters": [name],
            "responses": {
                "200": _json("The response.", {"type": "object"}),
                **_openai_errors("401", "403", "404", "409", "429", "500", "502", "503"),
            },
        }
    }


def _schemas() -> dict[str, _Schema]:
    return {
        "Error": _error_schema(),
        "OpenAIError": _openai_error_schema(),
        "Model": _object(
            {
                "id": {"type": "string", "description": "The agent's name."},
                "object": {"const": "model"},
                "created": {"type": "integer"},
                "owned_by": {"const": "moot"},
            },
            required=["id", "object", "created", "owned_by"],
        ),
        "ChatRequest": _chat_request_schema(),
        "ChatCompletion": _completion_schema(),
    }


def _chat_request_schema() -> _Schema:
    parts = {
        "type": "array",
        "items": _object({"type": {"const": "text"}, "text": {"type": "string"}}, required=["type", "text"]),
    }
    message = _object(
        {"role": {"type": "string"}, "content": {"anyOf": [{"type": "string"}, parts, {"type": "null"}]}},
        required=["role"],
    )
    return _object(
        {
            "model": {"type": "string", "description": "The agent, or `agent@guest` to have a guest answer."},
            "messages": {"type": "array", "items": message},
            "stream": {"type": ["boolean", "null"]},
            "stream_options": _object({"include_usage": {"type": ["boolean", "null"]}}, required=[]),
            "user": {"type": ["string", "null"], "description": "The sender; the token's name by default."},
            "n": {"enum": [1, None]},
            "moot": _object(
                {"run_id": {"type": "string", "description": "Return the answer of this run; send no message."}},
                required=[],
            ),
        },
        required=["model", "messages"],
    )


def _completion_schema() -> _Schema:
    message = _object(
        {"role": {"const": "assistant"}, "content": {"type": "string"}, "reasoning_content": {"type": "string"}},
        required=["role", "content"],
    )
    choice = _object(
        {"index": {"const": 0}, "message": message, "finish_reason": {"enum": ["stop", "length"]}},
        required=["index", "message", "finish_reason"],
    )
    count = {"type": "integer", "minimum": 0}
    return _object(
        {
            "id": {"type": "string"},
            "object": {"const": "chat.completion"},
            "created": {"type": "integer"},
            "model": {"type": "string"},
            "choices": {"type": "array", "items": choice, "minItems": 1, "maxItems": 1},
            "usage": _object(
                {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count},
                required=["prompt_tokens", "completion_tokens", "total_tokens"],
            ),
            "moot": _waiting_schema(),
        },
        required=["id", "object", "created", "model", "choices", "usage"],
    )


def _waiting_schema() -> _Schema:
    """Set where the run, or the one ahead of it in the queue, waits for a person."""
    text = {"type": "string"}
    return _object(
        {
            "status": {"enum": ["waiting_for_answer", "waiting_for_approval", "queued"]},
            "run_id": text,
            "ask_id": text,
            "attempt": {"type": "integer", "minimum": 0},
            "kind": {"enum": ["question", "approval", "grant"]},
            "tool": text,
            "line": text,
            "how": text,
        },
        required=["status", "run_id", "ask_id", "attempt", "kind", "tool", "line", "how"],
    )


def _error_schema() -> _Schema:
    text = {"type": "string"}
    inner = _object(
        {"code": {"type": "integer"}, "type": text, "message": text, "fix": text},
        required=["code", "type", "message", "fix"],
    )
    return _object({"error": inner}, required=["error"])


def _openai_error_schema() -> _Schema:
    text = {"type": "string"}
    inner = _object(
        {"message": text, "type": text, "param": {"type": "null"}, "code": text},
        required=["message", "type", "param", "code"],
    )
    return _object({"error": inner}, required=["error"])


def _object(properties: _Schema, *, required: list[str]) -> _Schema:
    return {"type": "object", "properties": properties, "required": required}


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(schema: _Schema) -> _Schema:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _json(description: str, schema: _Schema) -> _Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*codes: str) -> _Schema:
    return {code: _json("See the error's `fix`.", _ref("Error")) for code in codes}


def _openai_errors(*codes: str) -> _Schema:
    return {code: _json("An error in OpenAI's shape.", _ref("OpenAIError")) for code in codes}
