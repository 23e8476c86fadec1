"""A run waiting for a human: what it asks, and until when."""

from dataclasses import dataclass

from moot.domain.conversation import ConversationKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    label: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks, where that is a run that a person does not sit before: a teammate, or work in the background."""

    agent: str
    run_id: str
    # Why it was set to work, and on what.
    spawn_reason: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    id: str
    key: ConversationKey
    run_id: str
    questions: tuple[Question, ...]
    opened_at: float
    expires_at: float
