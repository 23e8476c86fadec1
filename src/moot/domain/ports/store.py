"""The Store port: conversations, runs, asks and rules. Implemented in store/: sqlite.py, asks.py, rules.py."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from msgspec import Struct

from moot.domain.approval import Decision, Rule
from moot.domain.ask import Ask, AskState
from moot.domain.conversation import (
    Archive,
    Conversation,
    ConversationKey,
    LoadedConversation,
    Place,
    Recollection,
    StoppedTurn,
)
from moot.domain.deletion import DeletionCounts
from moot.domain.message import Entry, Message
from moot.domain.recovery import LeftRun
from moot.domain.run import Limits, Run, RunEnd, RunRequest
from moot.domain.senders import SenderSet
from moot.domain.token import Token
from moot.domain.usage import RunUsage, UsageRow


class StartedRun(Struct, frozen=True, kw_only=True):
    """A run that has begun: its stored user message, whether the conversation was made for it, and its epoch."""

    entry: Entry
    created: bool
    epoch: int


class AskStore(Protocol):
    """Where questions, approvals and grants are kept. A change is on disk when the method returns."""

    async def open(self, ask: Ask) -> Ask: ...

    async def answer(self, key: ConversationKey, content: str, *, by: str, now: float, reply_id: str = "") -> Ask:
        """Answer the oldest open question of the conversation. The same reply sent again changes nothing."""
        ...

    async def decide(
        self, ask_id: str, *, attempt: int, decision: Decision, by: str, now: float, whole: bool = False
    ) -> Ask: ...
    async def use(self, ask: Ask, *, now: float) -> None: ...
    async def close(self, ask_id: str, state: AskState, *, now: float) -> Ask | None: ...

    async def find(self, ask_id: str) -> Ask | None: ...
    async def find_reply(self, key: ConversationKey, reply_id: str) -> Ask | None: ...

    async def list_open(self) -> list[Ask]: ...
    async def list_unused_calls(self) -> list[tuple[str, str]]:
        """The run and the call of each approval and grant that was not used, of runs that have not ended."""
        ...


class RuleStore(Protocol):
    """Where rules are kept. They are written by AskStore.decide."""

    async def load(self) -> list[Rule]: ...
    async def delete(self, number: int) -> None: ...


class Store(Protocol):
    """Durable truth. A method that changes anything returns once the change is on disk (fsync).

    A conversation belongs to the daemon that wrote it last, and has an epoch, which goes up when another daemon claims
    it. That can be done once the owner is not alive any more, and the first write does it. A run keeps the epoch under
    which it was queued, begun or recovered. Whatever writes a conversation or a run, here or through another port,
    raises `Fenced` and changes nothing where another living daemon has the conversation, or the epoch of the run is not
    the current one. Where a method takes `epoch`, it must be that as well; 0 adds no condition.
    """

    async def load(self, key: ConversationKey) -> LoadedConversation | None:
        """What a run needs of it, with the epoch under which this daemon writes it."""
        ...

    async def conversations(
        self,
        *,
        agent: str = "",
        sender: str = "",
        teammates: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Conversation]:
        """The last used first, from the place after `after` on. Empty names match all.

        Those that teammates have to themselves come only where they are wanted or named.
        """
        ...

    async def entries(self, key: ConversationKey, *, first: int = 1, last: int = 0) -> list[Entry]:
        """Entries first..last, archived ones too; last 0 is the newest."""
        ...

    async def stopped_turns(self, key: ConversationKey, *, first: int = 1) -> list[StoppedTurn]:
        """The turns from message `first` on that ended without an answer, here or before they were imported."""
        ...

    async def set_title(self, key: ConversationKey, title: str) -> None: ...
    async def set_cwd(self, key: ConversationKey, cwd: str, *, now: float) -> None:
        """The directory its runs work in where they name none; the conversation is made where there is none yet."""
        ...

    async def trust(self, key: ConversationKey, *, last: int) -> None:
        """Take what was said up to the entry `last` as trusted: its taint no longer counts."""
        ...

    async def doom(self, key: ConversationKey) -> DeletionCounts: ...
    async def delete(self, key: ConversationKey) -> DeletionCounts: ...

    async def find_run(self, key: ConversationKey, client_message_id: str) -> Run | None: ...
    async def find_retried(self, key: ConversationKey, prefix: str, *, since: float) -> Run | None: ...
    async def run_ids(self, start: str, *, limit: int) -> list[str]: ...
    async def ended_runs(self, senders: SenderSet, *, limit: int) -> list[Run]:
        """The runs that ended last, the newest first, of root conversations with owned senders. Long texts are cut."""
        ...

    async def queued_runs(self) -> list[Run]:
        """Messages that wait in their conversations."""
        ...

    async def runs_not_ended(self) -> list[Run]: ...
    async def owed_runs(self) -> list[Run]:
        """Ended runs whose results their parents want and were not told; no living daemon has the parents but this."""
        ...

    async def still_owed(self, run_ids: Sequence[str]) -> list[Run]:
        """Those of the runs whose results their parents want and were not told."""
        ...

    async def runs_of_root(self, root_id: str) -> list[Run]:
        """All that a turn, and what it spawned, has spawned."""
        ...

    async def root_conversations(self, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
        """The conversations that spawned runs work for, by the runs' ids."""
        ...

    async def spawn(self, run: Run) -> Run:
        """Store a spawned or background run as queued, with its conversation.

        The same call of the same parent, or the same start of a client's, gives the run it made before.
        """
        ...

    async def spare(self, parent_id: str) -> None:
        """Let what a run spawned go on when it is stopped."""
        ...

    async def enqueue(self, request: RunRequest, *, now: float) -> None:
        """Store a message that must wait its turn, with the conversation if it is new."""
        ...

    async def unqueue(self, run_id: str, end: RunEnd, *, now: float) -> None:
        """End a run that never began."""
        ...

    def begin(self, request: RunRequest, *, now: float, epoch: int = 0) -> Awaitable[StartedRun]:
        """Append the user message and mark the run running, queued before or not. Handed over like `append`."""
        ...

    async def rerun(self, request: RunRequest, *, now: float, epoch: int = 0) -> StartedRun:
        """Run again on the message that run `rerun_of` appended, queued before or not.

        The message is appended again where somebody spoke after it.
        """
        ...

    def append(  # noqa: PLR0913 — what one transaction writes
        self,
        key: ConversationKey,
        run_id: str,
        messages: Sequence[Message],
        *,
        now: float,
        spent: RunUsage | None = None,
        delivers: Sequence[str] = (),
        can_wait: bool = False,
        epoch: int = 0,
    ) -> Awaitable[list[Entry]]:
        """Append what a run has to say; in the same transaction, what it has used up so far and what it shows.

        `delivers` are the items, such as runs, whose results the last message shows: they are owed to nobody then.
        It is handed over when this is called, ahead of whatever is handed over later. What can wait shares a commit
        with the next that is handed over, if that comes within a few milliseconds.
        """
        ...

    def end(  # noqa: PLR0913 — what one transaction writes
        self,
        key: ConversationKey,
        run_id: str,
        end: RunEnd,
        messages: Sequence[Message],
        *,
        now: float,
        after: int | None = None,
        epoch: int = 0,
    ) -> Awaitable[list[Entry]]:
        """Append the last messages and record the outcome, in one transaction. A second end changes nothing.

        Handed over like `append`. It is refused where the conversation does not end with number `after`.
        """
        ...

    async def recover(self) -> list[LeftRun]:
        """Take over the runs that no living daemon works on any more; those, in the order they came."""
        ...

    async def runs(self, key: ConversationKey, *, first_seq: int = 1) -> list[Run]: ...
    async def run(self, run_id: str) -> Run | None: ...

    async def archive(self, key: ConversationKey, archive: Archive, *, epoch: int = 0) -> Archive:
        """Turn entries up to archive.last_seq into an archive, marker and index in one transaction."""
        ...

    async def archives(self, key: ConversationKey) -> list[Archive]: ...
    async def recall(self, key: ConversationKey, query: str, *, limit: int, now: float) -> list[Recollection]: ...

    async def restore_conversation(
        self,
        conversation: Conversation,
        messages: Sequence[tuple[Message, float]],
        archives: Sequence[Archive],
        stopped: Sequence[StoppedTurn] = (),
    ) -> None:
        """Write an imported conversation whole; Conflict when the key exists.

        `stopped` are its turns that ended without an answer, in order. They are runs of nobody here.
        """
        ...

    async def spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]: ...
    async def teammate_spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]:
        """What spawned runs took, by the conversation they worked for, those that are not kept any more included."""
        ...

    async def budget(self, root_id: str) -> tuple[Limits, RunUsage]:
        """What the run at the top of a tree was allowed, and what all runs of the tree have used up so far."""
        ...

    async def add_token(self, token: Token, digest: str) -> None: ...
    async def find_token(self, digest: str) -> Token | None: ...
    async def touch_token(self, name: str, *, now: float) -> None: ...
    async def tokens(self) -> list[Token]: ...
    async def revoke_token(self, name: str, *, now: float) -> None: ...

    async def backup(self, path: str) -> None:
        """Write a consistent copy while everything goes on."""
        ...

    async def check(self) -> list[str]:
        """What is wrong with the store, one sentence each; an empty list is a clean bill."""
        ...

    async def close(self) -> None: ...
