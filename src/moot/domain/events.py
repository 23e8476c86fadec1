"""Events: the envelope, the source it names, and the closed union of bodies. engine/bus.py publishes them. Pure."""

from collections.abc import Hashable, Iterator
from enum import StrEnum
from itertools import repeat
from typing import Any

from msgspec import Struct

from moot.domain.ask import Ask, Asker
from moot.domain.conversation import ConversationKey
from moot.domain.mail import Mail
from moot.domain.message import ToolCall
from moot.domain.run import RunEnd, RunRequest
from moot.domain.user_message import UserMessage


class RunSpawned(Struct, frozen=True):
    """A teammate or background run is stored. It starts when there is a free place."""

    agent: str
    # The beginning of its task, and why it was spawned.
    task: str
    reason: str = ""
    # The call of its parent that spawned it.
    call_id: str = ""


class RunQueued(Struct, frozen=True):
    """The message, or the task of a spawned run, is stored and waits; `position` 1 is next.

    If the active run waits for a person, `ask_id` is the ask, and `ask_kind` question, approval or grant.
    """

    position: int
    ask_id: str = ""
    ask_kind: str = ""


class RunWithdrawn(Struct, frozen=True):
    """A waiting message was withdrawn by its sender. It was never sent to a model; RunEnded follows."""

    content: str


class MessageSteered(Struct, frozen=True):
    """A queued message is on disk as a message of an active run, which sees it from now on.

    Published by the active run `into`, and by the run of the message, `run_id`, which RunEnded follows.
    """

    content: str
    user_seq: int
    run_id: str
    into: str


class RunStarted(Struct, frozen=True):
    """The user message is on disk. `agent` is the speaker that will answer."""

    agent: str
    user_seq: int


class TextStarted(Struct, frozen=True):
    agent: str


class TextChunk(Struct, frozen=True):
    content: str


class TextEnded(Struct, frozen=True):
    agent: str


class ThinkingStarted(Struct, frozen=True):
    agent: str


class ThinkingChunk(Struct, frozen=True):
    content: str


class ThinkingEnded(Struct, frozen=True):
    agent: str


class ToolsStarted(Struct, frozen=True):
    calls: tuple[ToolCall, ...]
    # Each call in one line for a person, empty if its tool cannot render it; no lines at all if none were requested.
    lines: tuple[str, ...] = ()

    def calls_with_lines(self) -> Iterator[tuple[ToolCall, str]]:
        return zip(self.calls, self.lines or repeat(""), strict=False)


class ToolFinished(Struct, frozen=True):
    call_id: str
    name: str
    output: str
    duration_ms: int
    is_error: bool


class ToolExecuted(Struct, frozen=True):
    """A call has passed the gate: success and duration, for observers."""

    call_id: str
    name: str
    ok: bool
    seconds: float


class ToolsCompleted(Struct, frozen=True):
    pass


class AskOpened(Struct, frozen=True):
    """A question, an approval or a grant is stored and waits for a person."""

    ask: Ask


class AskClosed(Struct, frozen=True):
    """An ask is closed; its state says how: answered, granted, denied, expired or cancelled."""

    ask: Ask


class RunBlocked(Struct, frozen=True):
    """The run cannot proceed: it waits for a person (`ask_id`) or for other runs (`waiting_on`)."""

    condition: str
    reason: str
    ask_id: str = ""
    waiting_on: tuple[str, ...] = ()


class RunUnblocked(Struct, frozen=True):
    """The block announced by the RunBlocked with the same condition and ask has ended."""

    condition: str
    ask_id: str = ""


class CommandStarted(Struct, frozen=True):
    """A command was started in the background. It continues after the run that started it."""

    job_id: str
    command: str


class CommandEnded(Struct, frozen=True):
    """`reason` is empty if the command ended by itself, else timeout, flood or stopped."""

    job_id: str
    exit_code: int
    reason: str = ""


class ModelRetrying(Struct, frozen=True):
    """A model call failed before any output and will be retried."""

    attempt: int
    delay_seconds: float
    reason: str


class Stage(StrEnum):
    """What a run waits for before its model answers."""

    # The tools of MCP servers are being listed, since the daemon was just started.
    TOOLS = "tools"
    LOADING = "loading"
    READING = "reading"


class ModelPreparing(Struct, frozen=True):
    """A run waits for its tools, or for a model on this machine, which loads or has read `percent` of the prompt."""

    stage: Stage
    percent: int
    # The duration of its previous call; 0 if there was none.
    previous_seconds: float = 0.0


class TextDiscarded(Struct, frozen=True):
    """The text of the current step is not kept; a client should remove it."""


class CompactionStarted(Struct, frozen=True):
    """The history is being summarized for an archive; Compacted follows unless it fails."""


class Compacted(Struct, frozen=True):
    number: int
    title: str


class ModeChanged(Struct, frozen=True):
    """A person has changed the mode of the conversation (domain/mode.py), or its auto-approve level."""

    mode: str
    by: str = ""
    # The level that applies now (domain/auto_approve.py).
    auto_approve: str = ""


class ConfigReloaded(Struct, frozen=True):
    """The daemon has read its configuration, agents, tools and skills again. It belongs to no conversation."""


class MailSent(Struct, frozen=True, gc=False):
    """A message to another agent is stored. The source is the sender."""

    mail: Mail


class MailDelivered(Struct, frozen=True, gc=False):
    """A message of another agent waits to be read. The source is the receiver, as for the following two."""

    mail: Mail


class MailRead(Struct, frozen=True, gc=False):
    """A run was shown the message."""

    mail: Mail


class MailEvicted(Struct, frozen=True):
    """The message will not be read: too many came after it, or its run has ended. It can be sent again."""

    mail: Mail


class MailDropped(Struct, frozen=True):
    """A message was not accepted, here or by another daemon. The source is its receiver, or its sender here."""

    mail: Mail
    reason: str


class BridgeRefused(Struct, frozen=True):
    """A shutdown or plan message was refused, when it was sent or by the daemon it was for. The source is as above.

    One that was refused when it was sent was not stored; it has no id.
    """

    mail: Mail
    reason: str


class UserMessageSent(Struct, frozen=True):
    """An agent with the role assistant has sent a message to the person. Its call is on disk."""

    message: UserMessage


class PrivateText(Struct, frozen=True):
    """A chunk of text that the agent did not send to the person. It is kept in the history, and not shown by itself."""

    content: str


class RunEnded(Struct, frozen=True):
    """The last event of every run. `agent` is the speaker that answered."""

    agent: str
    end: RunEnd


EventBody = (
    RunSpawned
    | RunQueued
    | RunWithdrawn
    | MessageSteered
    | RunStarted
    | TextStarted
    | TextChunk
    | TextEnded
    | ThinkingStarted
    | ThinkingChunk
    | ThinkingEnded
    | ToolsStarted
    | ToolFinished
    | ToolExecuted
    | ToolsCompleted
    | AskOpened
    | AskClosed
    | RunBlocked
    | RunUnblocked
    | CommandStarted
    | CommandEnded
    | ModelRetrying
    | ModelPreparing
    | TextDiscarded
    | CompactionStarted
    | Compacted
    | ModeChanged
    | ConfigReloaded
    | MailSent
    | MailDelivered
    | MailRead
    | MailEvicted
    | MailDropped
    | BridgeRefused
    | UserMessageSent
    | PrivateText
    | RunEnded
)

# Events that open or close an ask; they are shown in the root conversation.
ASK_EVENTS = (AskOpened, AskClosed)


class EventSource(Struct, frozen=True, kw_only=True, gc=False):
    """Where an event comes from: a run and its place in its tree; without a run id, a conversation itself."""

    key: ConversationKey
    # The root conversation, where a person is; it owns the event.
    root: ConversationKey
    # The speaker of the run.
    speaker: str = ""
    run_id: str = ""
    parent_id: str = ""
    # The run at the top of the tree.
    root_id: str = ""
    # The asker of this run's questions and approvals, if no person talks to the run directly.
    asker: Asker | None = None


# Where an event of the daemon itself comes from.
_NOWHERE = ConversationKey("", "")
DAEMON_SOURCE = EventSource(key=_NOWHERE, root=_NOWHERE)


def make_event_source(request: RunRequest) -> EventSource:
    return EventSource(
        key=request.key,
        root=request.asks_in,
        speaker=request.speaker,
        run_id=request.id,
        parent_id=request.parent_id,
        root_id=request.root_id or request.id,
        asker=request.asker,
    )


class Event(Struct, eq=False):
    """One event with its envelope. `seq` is unique in the daemon, increases, and is not reused after a restart.

    It is 0 for an event that is only repeated to one subscriber, such as the text of a reply that has ended.
    """

    seq: int
    at: float
    source: EventSource
    body: EventBody
    # The event in each wire format, cached by the first subscriber that needs it.
    encodings: dict[Hashable, Any] | None = None


class Gap(Struct, frozen=True):
    """Events `first` to `last` can no longer be delivered; the subscriber has to read the store instead."""

    first: int
    last: int
