"""A deterministic model for tests and demos that answers by the rules of a TOML file.

A script is a list of [[rule]] tables; the first rule that matches answers:

    [[rule]]
    match = "weather in (?P<place>\\w+)"  # regex, searched in the last user message; absent matches all
    agent = "You are Ada"                 # regex, searched in the system text; `system` is a second one
    calls = [{ name = "lookup", arguments = { place = "Oslo" } }]
    after_tool = "The tool says: {result}"  # the reply once the last message is a tool result

    [[rule]]
    reply = "You said: {user}"    # {user} and the regex's named groups are filled in

A rule may span several steps: `steps` is a list of { calls, reply } tables, one for each time the model is
asked in one turn. In their texts {result} is the last tool result, {agent_id} the run it names, and {agent_ids} all
runs named in this turn.

Further keys: `thinking` (streamed before the reply), `delay_seconds` (before the first word),
`token_seconds` (between words), `usage` ({ prompt = 10, completion = 3 }), `empty` (answers without text),
`hang` (never answers), `error` (fails with this message; `retryable = true` makes it a temporary failure),
`times` (the rule serves this many requests and is then skipped).
"""

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec

from moot.domain.config import ModelConfig
from moot.domain.errors import ConfigError, ModelError
from moot.domain.message import Message, Role, Thinking
from moot.domain.ports.clock import Clock
from moot.domain.ports.model import CallReady, Finished, ModelEvent, TextDelta, ThinkingDelta, ThinkingDone, ToolSupport
from moot.domain.prompt import Prompt
from moot.domain.text import COMPACTION_MARK
from moot.domain.usage import Usage
from moot.models.calls import check_call
from moot.models.prices import price

WINDOW = 8192

_WORD = re.compile(r"\s*\S+\s*$|\s*\S+")
_RUN = re.compile(r"\barun-[0-9a-f]{16}\b")
_TAG = re.compile(r"</?[a-z-]+(?: [^<>]*)?>")


class RuleCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict)


class RuleStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reply: str = ""
    calls: tuple[RuleCall, ...] = ()


class RuleUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prompt: int = 0
    completion: int = 0
    cache_hit: int = 0
    cache_miss: int = 0
    reasoning: int = 0


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One [[rule]] of a script."""

    match: str = ""
    agent: str = ""
    system: str = ""
    reply: str = ""
    thinking: str = ""
    calls: tuple[RuleCall, ...] = ()
    after_tool: str | None = None
    steps: tuple[RuleStep, ...] = ()
    delay_seconds: float = 0.0
    token_seconds: float = 0.0
    error: str = ""
    retryable: bool = False
    hang: bool = False
    empty: bool = False
    usage: RuleUsage | None = None
    times: int = 0


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...] = ()


def read_script(path: Path) -> tuple[Rule, ...]:
    """Read the rules of a file. Raises ConfigError with the file and the problem."""
    fix = "See: moot help scripted-model"
    try:
        rules = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8-sig")), Script).rule
        for rule in rules:
            for pattern in (rule.match, rule.agent, rule.system):
                re.compile(pattern)
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror}", fix=fix) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, re.error) as error:
        raise ConfigError(f"The script {path} is wrong: {error}", fix=fix) from error
    return rules


class ScriptedModel:
    """A model that answers by the rules of its script."""

    def __init__(self, config: ModelConfig, *, clock: Clock, rules: tuple[Rule, ...] | None = None) -> None:
        self.config = config
        self._clock = clock
        self.name = config.name
        self.provider = config.provider
        self.model = config.model or "scripted"
        self.window = config.window or WINDOW
        self.window_is_assumed = False
        self.tools = ToolSupport(config.tools or ToolSupport.NATIVE)
        if rules is None:
            rules = read_script(Path(config.script)) if config.script else ()
        self._rules = rules
        self._served = [0] * len(rules)

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        rule, reply, calls = self._decide(prompt)
        if rule.hang:
            await asyncio.Event().wait()
        await self._clock.sleep(rule.delay_seconds)
        if rule.error:
            raise ModelError(f"Model '{self.name}': {rule.error}", fix="Change the script.", retryable=rule.retryable)
        if rule.thinking:
            yield ThinkingDelta(rule.thinking)
            yield ThinkingDone(Thinking(text=rule.thinking))
        for number, word in enumerate(_WORD.findall(reply)):
            if number and rule.token_seconds:
                await self._clock.sleep(rule.token_seconds)
            yield TextDelta(word)
        for ready in calls:
            yield ready
        yield Finished(_estimate_usage(rule, prompt, reply, calls))

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        return prompt

    def cost(self, usage: Usage) -> float:
        return price(self.config, usage).dollars

    async def find_window(self) -> None:
        """Do nothing: the window is configured or known."""

    async def has_price(self) -> bool:
        return True

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _decide(self, prompt: Prompt) -> tuple[Rule, str, list[CallReady]]:
        messages = [*prompt.transcript.messages[-64:], *prompt.tail]
        text = last_user_text(prompt)
        system = "\n\n".join(prompt.system)
        last = messages[-1] if messages else None
        result = last.content if last is not None and last.role is Role.TOOL else None
        for index, rule in enumerate(self._rules):
            if rule.times and self._served[index] >= rule.times:
                continue
            found = re.search(rule.match, text)
            if found and re.search(rule.agent, system) and re.search(rule.system, system):
                self._served[index] += 1
                return self._apply(rule, found, text, result, prompt)
        return Rule(), _answer_without_script(text, system, result), []

    def _apply(
        self, rule: Rule, found: re.Match[str], text: str, result: str | None, prompt: Prompt
    ) -> tuple[Rule, str, list[CallReady]]:
        # Only these names are filled in; all other braces are text.
        values = {"user": text, "result": result or "", **{k: v or "" for k, v in found.groupdict().items()}}
        if rule.empty:
            return rule, "", []
        if rule.steps:
            done, results = _count_steps(prompt)
            step = rule.steps[min(done, len(rule.steps) - 1)]
            values |= _parse_run_ids(results)
            return rule, _fill(step.reply, values), _build_calls(step.calls, prompt, values)
        if result is not None and rule.after_tool is not None:
            return rule, _fill(rule.after_tool, values), []
        if result is not None and rule.calls:
            # A rule that calls a tool without `after_tool` would otherwise call it forever.
            return rule, _fill(rule.reply, values) or f"The tool says: {result}", []
        return rule, _fill(rule.reply, values), _build_calls(rule.calls, prompt, {})


def last_user_text(prompt: Prompt) -> str:
    """Return the last user message of the transcript; messages of this request only are a fallback."""
    for message in (*reversed(prompt.transcript.messages), *reversed(prompt.tail)):
        if message.role is Role.USER and message.content.strip():
            return message.content
    return ""


def _fill(template: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda field: values.get(field[1], field[0]), template)


def _count_steps(prompt: Prompt) -> tuple[int, list[str]]:
    """Return how many steps with calls this turn has made, and the results of the calls."""
    done, results = 0, []
    for message in reversed(prompt.transcript.messages):
        if message.role is Role.USER:
            break
        done += bool(message.tool_calls)
        if message.role is Role.TOOL:
            results.append(message.content)
    return done, results[::-1]


def _parse_run_ids(results: list[str]) -> dict[str, str]:
    named = [run for result in results for run in _RUN.findall(result)]
    return {"agent_id": named[-1] if named else "", "agent_ids": ",".join(dict.fromkeys(named))}


def _build_calls(calls: tuple[RuleCall, ...], prompt: Prompt, values: dict[str, str]) -> list[CallReady]:
    # The position in the transcript gives an id that is unique and the same in every replay.
    place = len(prompt.transcript.messages)
    return [
        check_call(
            f"call_scripted_{place}_{number}",
            _fill(call.name, values),
            _fill(call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments), values),
        )
        for number, call in enumerate(calls)
    ]


def _answer_without_script(message: str, system: str, result: str | None) -> str:
    text = " ".join(_TAG.sub(" ", message).split())
    short = text if len(text) <= 120 else text[:119].rstrip() + "…"
    if COMPACTION_MARK in system:
        topic = short.rstrip(".!? ")
        return f"A conversation about {topic}. The person said: {short} Nothing else is left open."
    if result is not None:
        return f"I looked, and this is what came back: {' '.join(result.split())[:400]}"
    if not short:
        return "I am listening."
    return f'You told me: "{short}". I am a scripted model, so I only repeat it, but I did hear you.'


def _estimate_usage(rule: Rule, prompt: Prompt, reply: str, calls: list[CallReady]) -> Usage:
    """Return the usage of the rule, or one token per four characters."""
    if rule.usage is not None:
        return Usage(**msgspec.structs.asdict(rule.usage))
    given = sum(map(len, prompt.system)) + sum(map(_message_size, (*prompt.transcript.messages, *prompt.tail)))
    made = len(reply) + len(rule.thinking) + sum(len(ready.call.name) + len(ready.call.arguments) for ready in calls)
    return Usage(prompt=given // 4 + 1, completion=made // 4 + 1, reasoning=len(rule.thinking) // 4)


def _message_size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) for call in message.tool_calls) + 4
