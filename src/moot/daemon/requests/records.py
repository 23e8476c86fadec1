"""Handlers for stored data: history, archives, recall, export, import, usage, deletion."""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import asdict, replace

from moot.daemon.principal import Principal
from moot.daemon.requests.history_info import build_archive_info, list_history_messages, list_passages
from moot.daemon.requests.pages import take_page
from moot.daemon.requests.reply import Reply
from moot.daemon.workspaces import Workspaces
from moot.domain.conversation import ConversationKey, StoppedTurn
from moot.domain.deletion import DeletionCounts
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.masks import map_json_strings
from moot.domain.message import Entry, Message, ToolCall
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.run import Run, RunKind, RunStatus
from moot.domain.user_message import SEND_USER_MESSAGE, UserMessage, find_user_messages
from moot.engine.asks import Asks
from moot.engine.gate import Gate
from moot.engine.lanes import Ticket
from moot.engine.request_factory import RequestFactory
from moot.engine.runs import Runs
from moot.multiagent.peers.peers import Peers
from moot.tools.exec.jobs import Jobs
from moot.tools.files.change_log import ChangeLog
from moot.wire import moot_pb2 as pb
from moot.wire.jsonl import import_lines
from moot.wire.jsonl_export import export_part
from moot.wire.user_messages import user_message_info

_RECALLED = 5
_LONGEST_QUERY = 4096
# The taint of imported messages that name none.
_IMPORTED = "import"


class RecordDependencies(Struct, frozen=True, kw_only=True):
    store: Store
    runs: Runs
    requests: RequestFactory
    clock: Clock
    # Resources of a conversation outside the store.
    jobs: Jobs
    changes: ChangeLog
    asks: Asks
    workspaces: Workspaces
    # Removes the secrets of the vault from a text.
    redact: Callable[[str], str]
    gate: Gate
    peers: Peers


class RecordRequests:
    def __init__(self, dependencies: RecordDependencies) -> None:
        self._d = dependencies
        self._store = dependencies.store
        self._runs = dependencies.runs
        self._requests = dependencies.requests
        self._clock = dependencies.clock

    async def get_history(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.get_history
        reply.send(pb.ServerMessage(history=await self.history(_conversation_key(request, principal), request)))

    async def history(self, key: ConversationKey, message: pb.GetHistoryMsg, *, run_id: str = "") -> pb.History:
        """Return the requested part of the history of a conversation, or of one run. The caller has checked access."""
        loaded = await self._store.load(key)
        if loaded is None:
            raise _no_conversation_error(key)
        archives = await self._store.list_archives(key) if message.all else []
        found = list(await self._store.list_entries(key) if message.all else loaded.entries)
        own = [entry for entry in found if run_id in ("", entry.run_id)]
        first = own[-message.newest :][0].seq if message.newest and own else message.first_seq
        runs = await self._store.list_runs(key, first_seq=first)
        stopped = await self._store.list_stopped_turns(key, first=first)
        # The history contains the reply of every run that is reported as ended.
        archived = 0 if message.all else loaded.conversation.archived_seq
        found += await self._store.list_entries(key, first=max(found[-1].seq if found else 0, archived) + 1)
        wanted = [entry for entry in found if entry.seq >= first and run_id in ("", entry.run_id)]
        entries, next_seq = take_page(wanted, message.first_seq)
        begun = {entry.run_id for entry in found}
        queued = [run.request for run in runs if run.status is RunStatus.QUEUED and run.id not in begun]
        active = self._runs.active(key)
        history = pb.History(
            messages=self._render_messages(list_history_messages(entries, runs, stopped, archives), found),
            title=loaded.conversation.title,
            cwd=loaded.conversation.cwd,
            queued=[request.content for request in queued],
            queued_guests=[request.guest for request in queued],
            queued_steers=[bool(active) and request.steers == active for request in queued],
            next_seq=next_seq,
            context_tokens=_last_context_tokens(found),
        )
        if loaded.archive is not None:
            history.summary, history.summary_title = loaded.archive.summary, loaded.archive.title
        return history

    def _render_messages(
        self, messages: list[pb.HistoryMessage], entries: Sequence[Entry] = ()
    ) -> list[pb.HistoryMessage]:
        """Return the messages with their calls as lines, and what those sent; `entries` have the results."""
        sent: dict[str, UserMessage] | None = None
        for message in messages:
            for call in message.tool_calls:
                call.line = self._d.gate.line(ToolCall(id=call.call_id, name=call.name, arguments=call.arguments))
                if call.name == SEND_USER_MESSAGE:
                    sent = find_user_messages(entry.message for entry in entries) if sent is None else sent
                    if call.call_id in sent:
                        message.sent.append(user_message_info(sent[call.call_id]))
        return messages

    async def list_archives(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        key = await self._require_known(_conversation_key(message.list_archives, principal))
        archives = [build_archive_info(archive) for archive in await self._store.list_archives(key)]
        reply.send(pb.ServerMessage(archive_list=pb.ArchiveList(archives=archives)))

    async def get_archive(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        key = await self._require_known(_conversation_key(message.get_archive, principal))
        number = message.get_archive.number
        found = [archive for archive in await self._store.list_archives(key) if archive.number == number]
        if not found:
            raise NotFound(f"there is no archive {number}", fix="`moot archives AGENT` lists them.")
        whole = await self._store.list_entries(key, first=found[0].first_seq, last=found[0].last_seq)
        entries, next_seq = take_page(whole, message.get_archive.first_seq)
        runs = await self._store.list_runs(key, first_seq=found[0].first_seq)
        stopped = await self._store.list_stopped_turns(key, first=found[0].first_seq)
        messages = self._render_messages(list_history_messages(entries, runs, stopped, found), whole)
        info = build_archive_info(found[0], messages)
        info.next_seq = next_seq
        reply.send(pb.ServerMessage(archive=info))

    async def recall(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.recall
        key = await self._require_known(_conversation_key(request, principal))
        if not request.query.strip():
            raise BadRequest("the query is empty", fix="Give some words to search for.")
        if len(request.query) > _LONGEST_QUERY:
            raise BadRequest(f"the query is longer than {_LONGEST_QUERY} characters", fix="Use fewer words.")
        limit = min(request.limit or _RECALLED, 50)
        found = await self._store.recall(key, request.query, limit=limit, now=self._clock.now())
        runs, stopped = await self._find_stopped(key, [entry for each in found for entry in each.entries])
        archives = [
            build_archive_info(each.archive, self._render_messages(list_passages(each, runs, stopped)))
            for each in found
        ]
        reply.send(pb.ServerMessage(recalled=pb.Recalled(archives=archives)))

    async def _find_stopped(
        self, key: ConversationKey, entries: Sequence[Entry]
    ) -> tuple[list[Run], list[StoppedTurn]]:
        """Return the stopped runs that these entries began, and all turns stopped since the oldest entry."""
        if not entries:
            return [], []
        stopped = await self._store.list_stopped_turns(key, first=min(entry.seq for entry in entries))
        begun = {turn.user_seq for turn in stopped}
        ids = {entry.run_id for entry in entries if entry.run_id and entry.seq in begun}
        runs = [run for run_id in sorted(ids) if (run := await self._store.get_run(run_id)) is not None]
        return runs, stopped

    async def export(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        key = _conversation_key(message.export, principal)
        loaded = await self._store.load(key)
        if loaded is None:
            raise _no_conversation_error(key)
        whole = await self._store.list_entries(key, first=max(1, message.export.first_seq))
        entries, next_seq = take_page(whole, 0)
        archives = await self._store.list_archives(key)
        stopped = await self._store.list_stopped_turns(key, first=await self._find_turn(entries[0])) if entries else []
        # Only the owner may see paths of folders.
        conversation = loaded.conversation if principal.is_owner else replace(loaded.conversation, cwd="")
        jsonl = export_part(conversation, entries, archives, stopped)
        reply.send(pb.ServerMessage(exported=pb.Exported(jsonl=jsonl, messages=len(entries), next_seq=next_seq)))

    async def _find_turn(self, entry: Entry) -> int:
        """Return the number of the message that began the turn of an entry, or its own if that is not known."""
        run = await self._store.get_run(entry.run_id) if entry.run_id else None
        return min(run.user_seq or entry.seq, entry.seq) if run is not None else entry.seq

    async def import_(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = getattr(message, "import")
        if request.path:
            principal.require_owner("import a file of this machine")
        if request.trust:
            principal.require_owner("trust what is imported")
        jsonl = await asyncio.to_thread(_read_import_file, request.path) if request.path else request.jsonl
        imported = await asyncio.to_thread(import_lines, jsonl, agent=request.agent, sender=request.sender)
        if not imported.messages:
            reason = imported.skipped[0] if imported.skipped else "it is empty"
            raise BadRequest(f"there is no message to import: {reason}", fix="Give a file that `moot export` wrote.")
        agent, sender = imported.conversation.key
        # Without a sender in the file, the caller's own is used; a sender in the file must be allowed for the caller.
        key = ConversationKey(self._requests.resolve_agent(agent).name, principal.sender(sender))
        await self._runs.require_here(key)
        if self._runs.has_local_work(key):
            raise Conflict(f"a run is active in the conversation with {key.agent}", fix="Wait for it, or kill it.")
        conversation = replace(imported.conversation, key=key)
        # The file is untrusted: its taints may be missing.
        unmarked = frozenset[str]() if request.trust else frozenset({_IMPORTED})
        masked = partial(_mask_imported, redact=self._d.redact, unmarked=unmarked)
        # In a thread, because it may take long.
        messages = await asyncio.to_thread(lambda: [(masked(each), at) for each, at in imported.messages])
        archives = [replace(each, taint=each.taint or unmarked) for each in imported.archives]
        stopped = [replace(turn, speaker=turn.speaker or key.agent) for turn in imported.stopped]

        async def write(_ticket: Ticket) -> None:
            await self._store.restore_conversation(conversation, messages, archives, stopped)
            self._runs.histories.drop(key)

        await self._runs.run_exclusively(key, "import", write)
        answer = pb.Imported(
            agent=key.agent,
            sender=key.sender,
            messages=len(imported.messages),
            archives=len(imported.archives),
            skipped=list(imported.skipped),
        )
        reply.send(pb.ServerMessage(imported=answer))

    async def delete(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        key = await self._require_known(_conversation_key(message.delete, principal))
        confirmed = message.delete.confirm
        if confirmed:
            await self._runs.require_here(key)
        if confirmed and self._runs.has_local_work(key):
            raise Conflict(f"a run is active in the conversation with {key.agent}", fix="Wait for it, or kill it.")
        at_work = await self._list_live_runs(key) if confirmed else []
        if at_work:
            fix = f"Wait for them, or stop them: moot stop {' '.join(at_work)}"
            raise Conflict(f"teammates are at work for the conversation with {key.agent}", fix=fix)
        jobs, files = self._d.jobs.running(key), await self._d.workspaces.count(key)

        async def remove(_ticket: Ticket) -> DeletionCounts:
            await self._d.jobs.stop(key, tree=True)
            # First, so that an interrupted deletion is visible and can be repeated.
            await self._d.workspaces.remove(key)
            await asyncio.to_thread(self._d.changes.forget, key)
            gone = await self._store.delete(key, now=self._clock.now())
            self._runs.histories.drop(key)
            await self._d.peers.announce_returned(gone.returned)
            self._d.asks.rules.invalidate()
            await self._d.asks.refresh_all()
            return gone.counts

        counts = await (
            self._runs.run_exclusively(key, "deletion", remove) if confirmed else self._store.count_deletion(key)
        )
        reply.send(pb.ServerMessage(deleted=pb.Deleted(**asdict(counts), jobs=jobs, files=files, deleted=confirmed)))

    async def _list_live_runs(self, key: ConversationKey) -> list[str]:
        """Return the ids of live spawned and background runs of the conversation."""
        runs = [owned.run for owned in await self._store.list_live_runs()]
        return [run.id for run in runs if run.root == key and run.kind is not RunKind.TURN]

    async def trust(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("trust a conversation")
        key = _conversation_key(message.trust, principal)
        # Read before the first await: the owner has not seen what an active run adds from now on.
        history = self._runs.histories.peek(key)
        position = (history.last_seq, history.taint) if history is not None else None
        found = await self._store.list_conversations(agent=key.agent, sender=key.sender)
        if not found:
            raise _no_conversation_error(key)
        last, taint = position or (found[0].last_seq, found[0].taint)
        await self._store.trust(key, last=last)
        self._runs.histories.trust(key, last)
        reply.send(pb.ServerMessage(trusted=pb.Trusted(taint=",".join(sorted(taint)))))

    async def working_directory(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("choose the working directory")
        request = message.working_directory
        agent = self._requests.resolve_agent(request.agent)
        key = ConversationKey(agent.name, principal.sender(request.sender))
        if request.HasField("cwd"):
            cwd = self._requests.directory(request.cwd)
            await self._store.set_cwd(key, cwd, now=self._clock.now())
            # An active turn keeps its working directory.
            self._runs.histories.set_cwd(key, cwd)
        if request.HasField("instructions"):
            await self._store.set_project_files(key, used=request.instructions, now=self._clock.now())
            self._runs.histories.set_project_files(key, used=request.instructions)
        loaded = await self._store.load(key)
        is_told = loaded is None or loaded.conversation.uses_project_files
        chosen = loaded.conversation.cwd if loaded is not None else ""
        is_missing = bool(chosen) and not await asyncio.to_thread(os.path.isdir, chosen)
        place = pb.WorkingDirectory(cwd=chosen or self._d.workspaces(key), is_own=not chosen, is_missing=is_missing)
        place.instructions = is_told and agent.project_instructions
        place.instructions_off_for_agent = not agent.project_instructions
        reply.send(pb.ServerMessage(working_directory=place))

    async def get_usage(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.get_usage
        spent = await self._store.list_spend(agent=request.agent, sender=request.sender)
        spent += await self._store.list_teammate_spend(agent=request.agent, sender=request.sender)
        infos = [
            pb.UsageInfo(
                agent=each.agent,
                sender=each.sender,
                model=each.model,
                runs=each.runs,
                prompt=each.usage.prompt,
                completion=each.usage.completion,
                cache_hit=each.usage.cache_hit,
                reasoning=each.usage.reasoning,
                cost=each.cost,
                root_agent=each.root,
            )
            for each in spent
            if principal.owns(each.sender)
        ]
        reply.send(pb.ServerMessage(usage=pb.UsageList(usage=infos)))

    async def _require_known(self, key: ConversationKey) -> ConversationKey:
        if not await self._store.list_conversations(agent=key.agent, sender=key.sender):
            raise _no_conversation_error(key)
        return key


def _last_context_tokens(entries: Sequence[Entry]) -> int:
    """Return the size of the primary's last request; a guest's is not the conversation's."""
    sizes = (entry.message.context_tokens for entry in reversed(entries) if not entry.message.agent)
    return next(filter(None, sizes), 0)


def _mask_imported(message: Message, redact: Callable[[str], str], unmarked: frozenset[str]) -> Message:
    """Return an imported message without secrets, tainted with `unmarked` if it names no taint itself."""
    calls = tuple(replace(call, arguments=map_json_strings(call.arguments, redact)) for call in message.tool_calls)
    return replace(message, content=redact(message.content), tool_calls=calls, taint=message.taint or unmarked)


_Keyed = (
    pb.GetHistoryMsg | pb.TrustMsg | pb.ListArchivesMsg | pb.GetArchiveMsg | pb.RecallMsg | pb.ExportMsg | pb.DeleteMsg
)


def _conversation_key(message: _Keyed, principal: Principal) -> ConversationKey:
    return ConversationKey(message.agent, principal.sender_or_run(message.sender))


def _read_import_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise BadRequest(f"{path} is not UTF-8 text", fix="Give a file that `moot export` wrote.") from None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="Check the path.") from None


def _no_conversation_error(key: ConversationKey) -> NotFound:
    return NotFound(f"there is no conversation with {key}", fix="`moot conversations` lists them.")
