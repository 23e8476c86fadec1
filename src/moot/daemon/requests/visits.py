"""The handler of VisitMsg: notes that a person reads a conversation, and answers what happened since they last did."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.daemon.principal import Principal
from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.reply import Reply
from moot.domain.conversation import ConversationKey
from moot.domain.digest import DigestItem, Visit, find_last_presence, list_items
from moot.domain.message import Entry
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.store import Store
from moot.domain.run import Run, RunKind
from moot.domain.senders import owner_of
from moot.domain.text import clean
from moot.engine.asks import Asks
from moot.wire import moot_pb2 as pb
from moot.wire.user_messages import user_message_info

# How many of the newest messages and ended runs are looked at.
_MOST_ENTRIES = 500
_MOST_RUNS = 200
# How many items are sent, and how much of the text of each.
_MOST_ITEMS = 200
_LONGEST_TEXT = 1_000


class VisitRequests:
    def __init__(self, *, store: Store, mail: MailStore, asks: Asks, clock: Clock) -> None:
        self._store = store
        self._mail = mail
        self._asks = asks
        self._clock = clock

    async def visit(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.visit
        key = ConversationKey(request.agent, principal.sender(request.sender))
        visit = await self._store.find_visit(key)
        if visit is None:
            reply.send(pb.ServerMessage(digest=pb.DigestInfo()))
            return
        now = self._clock.now()
        entries = await self._read_newest(key)
        since = find_last_presence(entries, visit)
        if request.again and visit.away_since:
            since = min(since, visit.away_since)
        runs = await self._store.list_ended_runs(principal.owned, limit=_MOST_RUNS)
        items = list_items(
            entries,
            [run for run in runs if _belongs(run, key)],
            await self._mail.list_unread(key),
            [ask for ask in await self._asks.list_pending() if ask.key == key],
            since=since,
        )
        is_due = bool(items) and 0 < request.away_seconds <= now - since
        if not request.again:
            await self._store.set_visit(key, Visit(at=now, away_since=since if is_due else visit.away_since))
        shown = list_item_infos(items[-_MOST_ITEMS:], key.agent)
        reply.send(pb.ServerMessage(digest=pb.DigestInfo(since=since, is_due=is_due, items=shown, total=len(items))))

    async def _read_newest(self, key: ConversationKey) -> list[Entry]:
        found = await self._store.list_conversations(agent=key.agent, sender=key.sender)
        last = found[0].last_seq if found else 0
        return await self._store.list_entries(key, first=max(1, last - _MOST_ENTRIES + 1))


def _belongs(run: Run, key: ConversationKey) -> bool:
    """Whether a run is a turn of the conversation, or a background run that its owner started with the same agent."""
    if run.kind is RunKind.BACKGROUND:
        return run.agent == key.agent and owner_of(run.key.sender) == key.sender
    return run.key == key


def list_item_infos(items: Sequence[DigestItem], primary: str) -> list[pb.DigestItemInfo]:
    """Return the items as they are sent: the newest messages whole, as many as fit into an answer, others cut."""
    shown: list[pb.DigestItemInfo] = []
    room = PAGE_BYTES
    for item in reversed(items):
        shown.append(_item_info(item, primary, room))
        room -= shown[-1].ByteSize()
    return shown[::-1]


def _item_info(item: DigestItem, primary: str, room: int) -> pb.DigestItemInfo:
    info = pb.DigestItemInfo(kind=item.kind, at=item.at, agent=item.agent or primary, id=item.id)
    info.text = clean(item.text[:_LONGEST_TEXT])
    if item.message is not None:
        message, more = item.message, len(item.message.content) - _LONGEST_TEXT
        if more > 0 and len(message.content.encode()) > room:
            cut = f"{message.content[:_LONGEST_TEXT]}\n(… {more} characters more; the history has all of it)"
            message = replace(message, content=cut)
        info.message.CopyFrom(user_message_info(message))
    return info
