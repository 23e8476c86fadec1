"""A model that decides by a seed: it answers, calls tools, spawns teammates and waits for them, or fails."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.message import Role, ToolCall
from moot.domain.ports.model import CallReady, Finished, ModelEvent, TextDelta, ToolSupport
from moot.domain.prompt import Prompt
from moot.domain.text import COMPACTION_MARK
from moot.domain.usage import Usage
from moot.engine.notes import NOTES_MARK

_SPAWNED = re.compile(r"\barun-[0-9a-f]{16}\b")
# After so many steps of a turn it answers.
_MOST_STEPS = 4
_TEAMMATES = ("operator", "librarian", "planner")


class SeededModel:
    """`prefix` is that of the numbers in its calls: daemons one after another must not make the same ones."""

    def __init__(self, rng: Random, prefix: str) -> None:
        self._rng = rng
        self._prefix = prefix
        self.config = ModelConfig(name="seeded", provider="scripted")
        self.name, self.provider, self.model = "seeded", "scripted", "seeded"
        self.window, self.window_is_assumed = 100_000, False
        self.tools = ToolSupport.NATIVE
        self._count = 0

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        self._count += 1
        number = f"{self._prefix}.{self._count}"
        await asyncio.sleep(self._rng.choice((0.0, 0.01, 0.3, 2.0)))
        usage = Usage(prompt=10, completion=5)
        if any(mark in text for text in prompt.system for mark in (COMPACTION_MARK, NOTES_MARK)):
            yield TextDelta(f"Summary {number}. They talked.")
            yield Finished(usage)
            return
        calls, failure = self._choose(prompt, number)
        if failure:
            raise ModelError(f"it failed ({number})", fix="", retryable=False)
        if not calls:
            yield TextDelta(f"answer {number}")
            await asyncio.sleep(self._rng.choice((0.0, 0.05)))
            yield TextDelta(" and more")
        for call in calls:
            yield CallReady(call)
        yield Finished(usage)

    def _choose(self, prompt: Prompt, number: str) -> tuple[list[ToolCall], bool]:
        offered = {tool.name for tool in prompt.tools}
        done, spawned, known = _look_at_turn(prompt)
        dice = self._rng.random()
        if dice < 0.04:
            return [], True
        wanted: list[tuple[str, dict[str, Any]]] = []
        if done < _MOST_STEPS and offered:
            left = spawned - known
            if left and self._rng.random() < 0.7:
                wanted.append(("agent_wait", {"agent_id": ",".join(sorted(left))} | self._timeout()))
            elif left and self._rng.random() < 0.3:
                wanted.append(("agent_stop", {"agent_id": self._rng.choice(sorted(left))}))
            elif dice < 0.3:
                wanted += [
                    ("agent_spawn", {"agent": self._rng.choice(_TEAMMATES), "instruction": f"task {number}.{each}"})
                    for each in range(self._rng.randint(1, 2))
                ]
            elif dice < 0.42:
                wanted.append(("ask_user", {"questions": [{"question": f"question {number}?"}]}))
            elif dice < 0.55:
                wanted.append(("fs_delete", {"path": f"file-{number}"}))
            elif dice < 0.65:
                wanted.append(("fs_read", {"path": f"file-{number}"}))
        calls = [
            ToolCall(id=f"call-{number}-{place}", name=name, arguments=json.dumps(arguments))
            for place, (name, arguments) in enumerate(wanted)
            if name in offered
        ]
        return calls, False

    def _timeout(self) -> dict[str, Any]:
        return {"timeout": self._rng.choice((1, 30))} if self._rng.random() < 0.3 else {}

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        return prompt

    def cost(self, usage: Usage) -> float:
        return usage.total / 1_000_000

    async def find_window(self) -> None:
        """It is known."""

    async def has_price(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is held open."""


def _look_at_turn(prompt: Prompt) -> tuple[int, set[str], set[str]]:
    """The steps of this turn so far, the runs it has spawned, and those whose results it was shown."""
    done, spawned, known = 0, set[str](), set[str]()
    for message in reversed(prompt.transcript.messages):
        if message.role is Role.USER:
            break
        done += bool(message.tool_calls)
        if message.role is Role.TOOL:
            found = set(_SPAWNED.findall(message.content))
            if '"outcome"' in message.content or '"status":"cancelled"' in message.content:
                known |= found
            else:
                spawned |= found
    return done, spawned, known
