"""A small MCP server on stdio that does what a file tells it: `python mcp_server.py STATE.json`.

Written by hand and without the SDK: it starts fast, and can misbehave in ways the SDK would not let it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STATE = Path(sys.argv[1])


def state() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STATE.read_text(encoding="utf-8"))
    return found


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result(request: dict[str, Any], value: dict[str, Any]) -> None:
    send({"id": request["id"], "result": value})


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        if state().get("lingers"):
            time.sleep(600)
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def call(request: dict[str, Any]) -> None:
    name, arguments = request["params"]["name"], request["params"].get("arguments") or {}
    if name == "echo":
        result(request, text(str(arguments.get("text", ""))))
    elif name == "environment":
        result(request, text(json.dumps(dict(os.environ))))
    elif name == "shell":
        ran = subprocess.run(["/bin/sh", "-c", arguments["command"]], capture_output=True, text=True, check=False)
        result(request, text(ran.stdout + ran.stderr))
    elif name == "pid":
        child = subprocess.Popen(["sleep", "600"])
        result(request, text(json.dumps([os.getpid(), child.pid])))
    elif name == "hang":
        time.sleep(600)
    elif name == "die":
        os._exit(3)
    elif name == "stumble":
        # Falls the first time it is called, and stands the second.
        fallen = STATE.with_name("fallen")
        if not fallen.exists():
            fallen.touch()
            os._exit(3)
        result(request, text("standing"))
    elif name == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    elif name == "fail":
        result(request, text("it went wrong", isError=True))
    elif name == "refuse":
        send({"id": request["id"], "error": {"code": -32602, "message": "no such thing"}})
    elif name == "mixed":
        picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        inside = {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}
        link = {"type": "resource_link", "uri": "http://x.example/", "name": "x"}
        result(request, {"content": [{"type": "text", "text": "a\u0000b"}, picture, inside, link]})
    elif name == "long":
        result(request, text(state()["long"]))
    elif name == "structured":
        result(request, {"content": [], "structuredContent": {"a": "a" * 40 + "!"}})
    elif name == "values":
        # A small text, and beside it more values than anybody needs.
        result(request, text("small", structuredContent={"a": [[]] * arguments["count"]}))
    elif name == "questions":
        for number in range(arguments["count"]):
            send({"id": f"q{number}", "method": "elicitation/create", "params": state()["form"]})
        answers = [receive().get("result") for _ in range(arguments["count"])]
        result(request, text(json.dumps(answers)))
    elif name == "ask":
        send({"id": "q1", "method": "elicitation/create", "params": state()["form"]})
        while True:
            answer = receive()
            if answer.get("id") == "q1":
                result(request, text(json.dumps(answer.get("result") or answer.get("error"))))
                return
    else:
        result(request, text(f"{name} was called"))


def main() -> None:
    sys.stderr.write(state().get("stderr", ""))
    sys.stderr.flush()
    if state().get("broken"):
        sys.exit(2)
    if state().get("silent"):
        time.sleep(600)
    sys.stdout.write("this is not JSON\n")
    while True:
        request = receive()
        method = request.get("method")
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            version = request["params"]["protocolVersion"]
            info = {"name": "fake", "version": "1"}
            answer = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            result(request, answer | {"instructions": state().get("instructions", "")})
        elif method == "tools/list":
            result(request, {"tools": state()["tools"]})
        elif method == "tools/call":
            # Before the result, so that whoever has that knows it.
            if state().get("changed"):
                send({"method": "notifications/tools/list_changed"})
            call(request)
        elif "id" in request:
            send({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})


if __name__ == "__main__":
    main()
