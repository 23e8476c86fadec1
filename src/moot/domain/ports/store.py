"""The Store port: conversations, runs, asks and rules. Implemented in store/: sqlite.py, asks.py, rules.py."""

from collections.abc import Awaitable, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from moot.domain.approval import Decision, Rule
from moot.domain.ask import Ask, AskReply, AskState
from moot.domain.conversation import (
    Archive,
    Conversation,
    ConversationKey,
    LoadedConversation,
    Place,
    Recollection,
    StoppedTurn,
)
from moot.domain.deletion import Deletion, DeletionCounts
from moot.domain.digest import Visit
from moot.domain.message import Entry, Message
from moot.domain.owner import OwnedRun, Owner
from moot.domain.recovery import LeftRun
from moot.domain.run import Limits, Run, RunEnd, RunRequest
from moot.domain.senders import SenderSet
from moot.domain.token import Token
from moot.domain.usage import RunUsage, Usage, UsageRow


class StartedRun(Struct, frozen=True, kw_only=True):
    """A run that has begun: its stored user message, whether its conversation is new, and its epoch."""

    entry: Entry
    created: bool
    epoch: int


class CommitCounts(Struct):
    """What a store has committed since it was opened. Several transactions may share a commit."""

    commits: int = 0
    transactions: int = 0


class AskStore(Protocol):
    """Stores questions, approvals and grants. A change is on disk when the method returns."""

    async def open(self, ask: Ask) -> Ask: ...

    async def answer(self, key: ConversationKey, reply: AskReply, *, now: float) -> Ask:
        """Answer the oldest open question of the conversation. Sending the same reply again changes nothing.

        Raise Conflict if the reply names another question, or another attempt of it.
        """
        ...

    async def decide(  # noqa: PLR0913 — what one decision consists of
        self,
        ask_id: str,
        *,
        attempt: int,
        decision: Decision,
        by: str,
        now: float,
        whole: bool = False,
        pattern: str = "",
        reason: str = "",
    ) -> Ask:
        """Store the decision on an approval or grant, with its rules in the same transaction.

        `whole` and `pattern` say what the rules cover (make_rules); `reason` is that of a denial.
        """
        ...

    async def use(self, ask: Ask, *, now: float) -> None: ...
    async def close(self, ask_id: str, state: AskState, *, now: float) -> Ask | None: ...

    async def find(self, ask_id: str) -> Ask | None: ...
    async def find_held(self, ask_id: str) -> Ask | None:
        """Return the ask; raise Fenced if another daemon has taken over the run that asks."""
        ...

    async def find_reply(self, key: ConversationKey, reply_id: str) -> Ask | None: ...

    async def list_open(self, *, here: bool = False) -> list[Ask]:
        """Return the pending asks of all nodes, and the granted ones that were not used; `here`: those of this node."""
        ...

    async def list_unused_calls(self) -> list[tuple[str, str]]:
        """Return run id and call id of each unused approval and grant of runs that have not ended."""
        ...


class RuleStore(Protocol):
    """Stores rules. They are written by AskStore.decide."""

    async def load(self) -> list[Rule]: ...
    async def delete(self, number: int) -> None: ...


class Store(Protocol):
    """Durable storage. A method that changes anything returns once the change is on disk (fsync).

    A conversation belongs to the daemon that wrote it last, and has an epoch, which is incremented when another daemon
    claims it. The first write does so, and only if the owner is no longer alive. A run keeps the epoch under which it
    was queued, begun or recovered. Every write to a conversation or a run, here or through another port, raises
    `Fenced` and changes nothing if another living daemon owns the conversation, or if the epoch of the run is not the
    current one. If a method takes `epoch`, that must be current as well; 0 adds no condition.
    """

    async def load(self, key: ConversationKey) -> LoadedConversation | None:
        """Return what a run needs of the conversation, with the epoch under which this daemon writes it."""
        ...

    async def list_conversations(
        self,
        *,
        agent: str = "",
        sender: str = "",
        teammates: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Conversation]:
        """Return conversations, last used first, from the position after `after`. Empty names match all.

        Conversations of teammates are included only if requested or named.
        """
        ...

    async def list_entries(self, key: ConversationKey, *, first: int = 1, last: int = 0) -> list[Entry]:
        """Return entries first..last, including archived ones; last 0 is the newest."""
        ...

    async def list_stopped_turns(self, key: ConversationKey, *, first: int = 1) -> list[StoppedTurn]:
        """Return the turns from message `first` on that ended without an answer, including imported ones."""
        ...

    async def find_visit(self, key: ConversationKey) -> Visit | None:
        """Return when a person last read the conversation; None if there is no such conversation."""
        ...

    async def set_visit(self, key: ConversationKey, visit: Visit) -> None:
        """Store that a person reads the conversation. Nothing happens if it does not exist."""
        ...

    async def set_title(self, key: ConversationKey, title: str) -> None: ...
    async def set_project_files(self, key: ConversationKey, *, used: bool, now: float) -> None:
        """Set whether its runs are told the instruction files of the project; the conversation is created if needed."""
        ...

    async def set_cwd(self, key: ConversationKey, cwd: str, *, now: float) -> None:
        """Set the default working directory of its runs; the conversation is created if it does not exist."""
        ...

    async def find_mode(self, key: ConversationKey) -> str:
        """Return the mode that was set for the conversation; empty if none was, or if it does not exist."""
        ...

    async def set_mode(self, key: ConversationKey, mode: str, *, now: float) -> None:
        """Set the mode of a conversation, which is created if it does not exist. An empty one takes it back."""
        ...

    async def find_auto_approve(self, key: ConversationKey) -> str:
        """Return the level of the dial that was set for the conversation; empty if none was."""
        ...

    async def set_auto_approve(self, key: ConversationKey, level: str, *, now: float) -> None:
        """Set the level of the dial of a conversation, which is created if need be. An empty one takes it back."""
        ...

    async def set_model(self, key: ConversationKey, model: str, *, now: float) -> None:
        """Set the model of its agent there, "" for the agent's own. The conversation is created if need be."""
        ...

    async def trust(self, key: ConversationKey, *, last: int) -> None:
        """Mark everything up to the entry `last` as trusted: its taint no longer counts."""
        ...

    async def count_deletion(self, key: ConversationKey) -> DeletionCounts: ...
    async def delete(self, key: ConversationKey, *, now: float) -> Deletion:
        """Delete a conversation and those of its teammates; their unread mail comes back to its senders."""
        ...

    async def find_run(self, key: ConversationKey, client_message_id: str) -> Run | None: ...
    async def find_retried(self, key: ConversationKey, prefix: str, *, since: float) -> Run | None: ...
    async def list_run_ids(self, start: str, *, limit: int) -> list[str]: ...
    async def list_ended_runs(self, senders: SenderSet, *, prefix: str = "", limit: int) -> list[Run]:
        """Return the runs that ended last, newest first, of root conversations with owned senders.

        With a prefix only those in conversations whose own sender begins with it. Long texts are cut.
        """
        ...

    async def list_live_runs(self) -> list[OwnedRun]:
        """Return all runs that have not ended, of every node, in the order they were created."""
        ...

    async def find_owner(self, key: ConversationKey) -> Owner | None:
        """Return the node that owns the conversation and its runs; None if there is no such conversation."""
        ...

    async def list_owed_runs(self) -> list[Run]:
        """Return ended runs whose results are owed to parents that no other living daemon owns."""
        ...

    async def list_still_owed(self, run_ids: Sequence[str]) -> list[Run]:
        """Return those of the runs whose results are still owed to parents that no other living daemon owns."""
        ...

    async def list_runs_of_root(self, root_id: str) -> list[Run]:
        """Return all runs spawned by a turn, directly or indirectly."""
        ...

    async def list_workers(self, key: ConversationKey, *, root: ConversationKey, limit: int) -> list[Run]:
        """Return the newest run of each teammate that runs of a conversation have started, newest first.

        `root` is the root conversation of these runs.
        """
        ...

    async def find_root_conversations(self, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
        """Return the root conversations of spawned runs, by run id."""
        ...

    async def spawn(self, run: Run) -> Run:
        """Store a spawned or background run as queued, with its conversation.

        The same call of the same parent, or the same start of a client, returns the run that was stored before.
        """
        ...

    async def detach_children(self, parent_id: str) -> None:
        """Let the runs spawned by a run continue when it is stopped."""
        ...

    async def enqueue(self, request: RunRequest, *, now: float) -> None:
        """Store a message that has to wait, with its conversation if that is new."""
        ...

    async def unqueue(self, run_id: str, end: RunEnd, *, now: float) -> None:
        """End a run that never began."""
        ...

    def is_short_of_room(self) -> bool:
        """Whether the disk is nearly full, so that a write may well be refused."""
        ...

    def begin(self, request: RunRequest, *, now: float, epoch: int = 0) -> Awaitable[StartedRun]:
        """Append the user message and mark the run as running, queued before or not. Ordered like `append`."""
        ...

    async def rerun(self, request: RunRequest, *, now: float, epoch: int = 0) -> StartedRun:
        """Run again on the message that run `rerun_of` appended, queued before or not.

        The message is appended again if other messages came after it.
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
        steered: Sequence[str] = (),
        can_wait: bool = False,
        epoch: int = 0,
    ) -> Awaitable[list[Entry]]:
        """Append messages of a run; in the same transaction, what it has used so far and what it delivers.

        `delivers` are the items, such as runs, whose results the last message shows: they count as delivered.
        `steered` are the runs of queued messages that the first messages show, in their order: they end with them, and
        Conflict is raised and nothing written if one of them is not queued in this conversation any more. Writes keep
        the order in which they are called. A write that can wait shares a commit with the next one, if that comes
        within a few milliseconds.
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

        Ordered like `append`. It is refused if the last message of the conversation does not have the number `after`.
        """
        ...

    async def recover(self) -> list[LeftRun]:
        """Take over the runs that no living daemon works on; return them in the order they were created."""
        ...

    async def list_runs(self, key: ConversationKey, *, first_seq: int = 1) -> list[Run]: ...
    async def get_run(self, run_id: str) -> Run | None: ...

    async def archive(self, key: ConversationKey, archive: Archive, *, epoch: int = 0) -> Archive:
        """Move entries up to archive.last_seq to an archive, with marker and index, in one transaction."""
        ...

    async def open_stretch(
        self, key: ConversationKey, *, closing: Archive | None, resumed: int = 0, epoch: int = 0
    ) -> Archive:
        """Archive the current messages as `closing` (None if there are none) and begin anew, in one transaction.

        The archive gets the title of the conversation, if it has one. What follows begins with nothing, or with the
        archive `resumed`, whose title the conversation gets. The rules of the conversation (domain/approval.py) are
        deleted. Returns the newest archive.
        """
        ...

    async def list_archives(self, key: ConversationKey) -> list[Archive]: ...
    async def recall(self, key: ConversationKey, query: str, *, limit: int, now: float) -> list[Recollection]: ...

    async def restore_conversation(
        self,
        conversation: Conversation,
        messages: Sequence[tuple[Message, float]],
        archives: Sequence[Archive],
        stopped: Sequence[StoppedTurn] = (),
    ) -> None:
        """Write a complete imported conversation; raise Conflict if the key exists.

        `stopped` are its turns that ended without an answer, in order. They belong to no run of this store.
        """
        ...

    async def add_spend(
        self, key: ConversationKey, model: str, usage: Usage, cost: float, *, root_id: str = ""
    ) -> None:
        """Count a model call outside steps for an agent and a sender; that of a teammate for whom it worked for.

        It is part of the budget of the root run, if one is named.
        """
        ...

    async def list_spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]:
        """Return the usage of ended runs, archives and calls outside runs by agent, sender and model."""
        ...

    async def list_teammate_spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]:
        """Return the usage of spawned runs, including deleted ones, by the conversation they worked for."""
        ...

    async def load_budget(self, root_id: str) -> tuple[Limits, RunUsage]:
        """Return the limits of the root run of a tree, and what all its runs have used so far."""
        ...

    async def add_token(self, token: Token, digest: str, *, taken: Collection[str] = ()) -> Token:
        """Store a token and return it with its sender, which no other token has had unless the owner gave it.

        It is none that has stored data, and none that is `taken`.
        """
        ...

    async def find_token(self, digest: str) -> Token | None: ...
    async def touch_token(self, name: str, *, now: float) -> None: ...
    async def list_tokens(self) -> list[Token]: ...
    async def revoke_token(self, name: str, *, now: float) -> tuple[str, ...]:
        """Revoke a token and pause the jobs of senders that have no other; return the names of these jobs."""
        ...

    async def backup(self, path: str) -> None:
        """Write a consistent copy while the store is in use."""
        ...

    async def check(self) -> list[str]:
        """Return the problems of the store, one sentence each; an empty list means it is intact."""
        ...

    async def close(self) -> None: ...
