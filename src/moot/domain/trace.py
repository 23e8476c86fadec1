"""A run's trace: what happened in it, in order, for diagnosis. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

from msgspec import Struct, field

from moot.domain.ask import AskAttempt
from moot.domain.message import Entry
from moot.domain.run import Outcome, Run

PAYLOAD_LENGTH = 1024
# How long doctor reports failures, unless they are acknowledged before.
REPORTED_SECONDS = 7 * 86_400.0
# Maximum lengths of each text in a payload that is too long, tried in order.
_CUTS = (900, 512, 160, 40)
# A separator that occurs in no text and in nothing that is searched for.
_BETWEEN = "\x00"
_FINE = frozenset({Outcome.COMPLETED, Outcome.ESCALATED, Outcome.CANCELLED})


class TraceKind(StrEnum):
    # Kinds derived from the history, the runs, the spawned runs and the asks.
    TEXT = "text"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    DELEGATION = "delegation"
    DELEGATION_RETURN = "delegation_return"
    TERMINAL_ERROR = "terminal_error"
    OUTCOME = "outcome"
    # A note where no ask was opened: a rule decided, or there was nobody to ask.
    POLICY_DECISION = "policy_decision"
    # Kinds that exist only as notes.
    ROUTING = "routing"
    RECOVERY_ATTEMPT = "recovery_attempt"
    BUDGET_WARNING = "budget_warning"
    MODEL_RETRY = "model_retry"
    CONTEXT = "context"


class TraceNote(Struct, frozen=True, kw_only=True):
    """A fact stored for traces only. `after_seq` is the last message of its conversation before it."""

    run_id: str
    at: float
    kind: TraceKind
    agent: str
    # A JSON object of at most PAYLOAD_LENGTH characters.
    payload: str
    truncated: bool = False
    after_seq: int = 0


class RecordedRun(Struct, frozen=True, kw_only=True):
    """A run as stored, with the runs it spawned; with its messages, asks and notes if everything was requested."""

    run: Run
    entries: Sequence[Entry] = ()
    notes: Sequence[TraceNote] = ()
    # Its approvals and grants, in the order in which they were first opened; attempts of one ask in order.
    attempts: Sequence[AskAttempt] = ()
    # The runs it spawned, in order, including those that have not begun and those that are no longer stored.
    delegated: Sequence[Run] = ()
    children: Sequence["RecordedRun"] = ()

    @property
    def tree_cost(self) -> float:
        own = self.run.end.cost if self.run.end is not None else 0.0
        return own + sum(child.tree_cost for child in self.children)

    @property
    def tree_tokens(self) -> int:
        own = self.run.end.usage.total if self.run.end is not None else 0
        return own + sum(child.tree_tokens for child in self.children)


class TraceEvent(Struct, frozen=True, kw_only=True):
    """One line of a trace. `run_id` is the teammate's if the line is about one."""

    seq: int
    at: float
    kind: TraceKind
    agent: str
    payload: str
    truncated: bool = False
    run_id: str = ""


class Health(Struct, frozen=True, kw_only=True):
    """What traces say about recent problems: the newest failed turns, and violations that must never happen."""

    failed: Sequence[RecordedRun] = ()
    loops: int = 0
    timeouts: int = 0
    # Work that was given to another agent because a teammate failed.
    reroutes: int = 0
    # One sentence for each message stored in the wrong place.
    leaks: Sequence[str] = field(default=())


def is_failure(outcome: Outcome) -> bool:
    return outcome not in _FINE


def encode_payload(payload: Mapping[str, object], clean: Callable[[str], str]) -> tuple[str, bool]:
    """Encode a payload as JSON of limited length, with every text cleaned; return also whether anything was cut."""
    cleaned = _clean_texts(payload, clean)
    text = json.dumps(cleaned, ensure_ascii=False)
    if len(text) <= PAYLOAD_LENGTH:
        return text, False
    for cut in _CUTS:
        text = json.dumps(_map_texts(cleaned, partial(_shorten, cut)), ensure_ascii=False)
        if len(text) <= PAYLOAD_LENGTH:
            return text, True
    # There are too many texts, rather than too long ones.
    return json.dumps({"text": text[: PAYLOAD_LENGTH // 3]}, ensure_ascii=False), True


def _clean_texts(payload: Mapping[str, object], clean: Callable[[str], str]) -> Any:
    """Clean all texts of the payload in one pass, which is cheaper than one by one."""
    texts: list[str] = []

    def gather(text: str) -> str:
        texts.append(text)
        return text

    gathered = _map_texts(payload, gather)
    whole = _BETWEEN.join(texts)
    cleaned = clean(whole)
    if cleaned == whole:
        return gathered
    found = cleaned.split(_BETWEEN)
    if len(found) != len(texts):
        return _map_texts(payload, clean)
    each = iter(found)
    return _map_texts(payload, lambda _: next(each))


def _shorten(cut: int, text: str) -> str:
    return text if len(text) <= cut else f"{text[: cut - 1]}…"


def _map_texts(value: object, change: Callable[[str], str]) -> Any:
    if type(value) is str:
        return change(value)
    match value:
        case bool() | int() | float() | None:
            return value
        case Mapping():
            return {str(key): _map_texts(each, change) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_map_texts(each, change) for each in value]
        case _:
            return change(str(value))
