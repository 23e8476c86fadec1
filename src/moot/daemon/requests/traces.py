"""Handlers for traces: list, show one, health."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.config import RunLedgerConfig
from moot.domain.errors import BadRequest
from moot.domain.ledger import LedgerEntry, block_payload, replay
from moot.domain.mail import describe_request
from moot.domain.ports.clock import Clock
from moot.domain.ports.traces import TraceStore
from moot.domain.trace import REPORTED_SECONDS, RecordedRun, TraceEvent
from moot.multiagent.traces.timeline import timeline
from moot.wire import moot_pb2 as pb

_LISTED = 20
_MOST_LISTED = 500
_REQUEST = 200
# An answer is one frame; an event takes little more than 1024 characters.
_MOST_EVENTS = 4_000


class TraceRequests:
    def __init__(
        self,
        *,
        traces: TraceStore,
        config: Callable[[], RunLedgerConfig],
        redact: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._traces = traces
        self._config = config
        self._redact = redact
        self._clock = clock

    async def list_traces(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see traces")
        request = message.list_traces
        if request.limit > _MOST_LISTED:
            raise BadRequest(f"at most {_MOST_LISTED} traces are listed", fix="Ask for fewer.")
        found = await self._traces.list_recent(limit=request.limit or _LISTED, failed=request.failed)
        traces = await self._list_heads(found)
        reply.send(pb.ServerMessage(trace_list=pb.TraceList(traces=traces)))

    async def get_trace(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see a trace")
        recorded = await self._traces.find(message.get_trace.run_id)
        (info,) = await self._list_heads([recorded])
        await self._fill(info, recorded, _MOST_EVENTS)
        reply.send(pb.ServerMessage(trace=info))

    async def get_trace_health(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("examine the traces")
        now = self._clock.now()
        health = await self._traces.load_health(since=now - REPORTED_SECONDS)
        answer = pb.TraceHealth(
            failed=await self._list_heads(health.failed),
            loops=health.loops,
            timeouts=health.timeouts,
            reroutes=health.reroutes,
            leaks=health.leaks,
        )
        reply.send(pb.ServerMessage(trace_health=answer))

    async def acknowledge_traces(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("acknowledge what traces report")
        await self._traces.acknowledge(now=self._clock.now())
        reply.send(pb.ServerMessage(pong=pb.Pong()))

    async def _fill(self, info: pb.TraceInfo, recorded: RecordedRun, room: int) -> int:
        """Add the events of a run and of the runs below it, at most the last `room`; return the remaining room."""
        # In a thread, because searching all text for secrets takes a while.
        found = await asyncio.to_thread(timeline, recorded, self._redact, room)
        info.left_out = found.left_out
        info.events.extend(map(_event, found.events))
        room -= len(found.events)
        if found.ledger and self._config().is_shown:
            info.ledger.extend(map(_entry, found.ledger, found.ledger_after))
            info.ledger_snapshot = _json(block_payload(replay(found.ledger)))
        for child, below in zip(info.children, recorded.children, strict=True):
            room = await self._fill(child, below, room)
        return room

    async def _list_heads(self, found: Sequence[RecordedRun]) -> list[pb.TraceInfo]:
        # In a thread, because searching all text for secrets takes a while.
        return await asyncio.to_thread(lambda: [self._head(recorded) for recorded in found])

    def _head(self, recorded: RecordedRun) -> pb.TraceInfo:
        run, now = recorded.run, self._clock.now()
        info = pb.TraceInfo(
            run_id=run.request.id,
            agent=run.request.speaker,
            key_agent=run.request.key.agent,
            sender=run.request.key.sender,
            parent=run.parent_id,
            request=self._redact(describe_request(run.request.content, run.request.author))[:_REQUEST],
            started_at=run.started_at,
            seconds=max(0.0, (run.ended_at or now) - run.started_at) if run.started_at else 0.0,
            tree_tokens=recorded.tree_tokens,
            tree_cost=recorded.tree_cost,
            children=[self._head(child) for child in recorded.children],
        )
        if run.end is not None:
            info.outcome, info.error, info.limit = run.end.outcome, self._redact(run.end.error), run.end.limit
            info.steps, info.tokens, info.cost = run.end.steps, run.end.usage.total, run.end.cost
            info.model = run.end.model
        return info


def _event(event: TraceEvent) -> pb.TraceEventInfo:
    return pb.TraceEventInfo(
        seq=event.seq,
        at=event.at,
        kind=event.kind,
        agent=event.agent,
        payload=event.payload,
        truncated=event.truncated,
        run_id=event.run_id,
    )


def _entry(entry: LedgerEntry, after: int) -> pb.LedgerEntryInfo:
    payload = _json(entry.payload)
    return pb.LedgerEntryInfo(seq=entry.seq, at=entry.at, type=entry.type, payload=payload, after_event=after)


def _json(payload: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(payload)).decode()
