"""Builds scripts for the scripted model: rules for the orchestrator and for teammates, step by step."""

import json
from typing import Any

LEAD = "You lead a team"
MATE = "You work as a teammate"


def script(*rules: dict[str, Any]) -> str:
    """The rules as a file."""
    return "\n".join(
        "[[rule]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in rule.items()) for rule in rules
    )


def lead(match: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the orchestrator does on a message, step by step."""
    return {"system": LEAD, "match": match, "steps": list(steps), **more}


def mate(match: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What a teammate does with an instruction, step by step."""
    return {"system": MATE, "match": match, **({"steps": list(steps)} if steps else {}), **more}


def call(name: str, arguments: str | None = None, **named: Any) -> dict[str, Any]:
    """A step that makes one call."""
    return {"calls": [made(name, arguments, **named)]}


def made(name: str, arguments: str | None = None, **named: Any) -> dict[str, Any]:
    return {"name": name, "arguments": named if arguments is None else arguments}


def say(text: str) -> dict[str, Any]:
    return {"reply": text}


def spawn(instruction: str, agent: str = "operator", **named: Any) -> dict[str, Any]:
    return call("agent_spawn", agent=agent, instruction=instruction, **named)


def wait(runs: str = "{agent_id}", **named: Any) -> dict[str, Any]:
    return call("agent_wait", agent_id=runs, **named)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
