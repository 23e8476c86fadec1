"""Requests about the mode and the auto-approve level of a conversation. Works with engine/modes.py."""

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.auto_approve import LEVEL_MEANINGS, parse_level
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Forbidden
from moot.domain.mode import FREE_WARNING, MEANINGS, ConversationMode, Mode, next_mode, parse_mode
from moot.engine.modes import Modes
from moot.engine.request_factory import RequestFactory
from moot.wire import moot_pb2 as pb


class ModeRequests:
    def __init__(self, *, modes: Modes, requests: RequestFactory) -> None:
        self._modes = modes
        self._requests = requests

    async def mode(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.mode
        key = ConversationKey(self._requests.resolve_agent(request.agent).name, principal.sender(request.sender))
        if request.HasField("mode"):
            wanted = parse_mode(request.mode) if request.mode else None
            _check_change(principal, wanted)
            await self._modes.set(key, wanted, by=principal.name)
        if request.HasField("auto_approve"):
            # Like the mode free, it decides about many calls at once.
            principal.require_owner("change the auto-approve level")
            level = parse_level(request.auto_approve) if request.auto_approve else None
            await self._modes.set_auto_approve(key, level, by=principal.name)
        found = await self._modes.find(key)
        info, level = _describe(key, found), await self._modes.find_auto_approve(key)
        info.auto_approve, info.level_meaning = level, LEVEL_MEANINGS[level]
        info.has_own_level = await self._modes.has_own_level(key)
        reply.send(pb.ServerMessage(mode=info))


def _check_change(principal: Principal, wanted: Mode | None) -> None:
    """Raise unless the principal may set this mode: a token decides about single calls, not about all of them."""
    principal.require_approver()
    if not principal.is_owner and wanted in (None, Mode.FREE):
        raise Forbidden("only the owner may choose the mode free or the configured one", fix="Use plan, ask or work.")


def _describe(key: ConversationKey, found: ConversationMode) -> pb.ModeInfo:
    return pb.ModeInfo(
        agent=key.agent,
        sender=key.sender,
        mode=found.mode,
        is_own=found.own is not None,
        meaning=MEANINGS[found.mode],
        warning=FREE_WARNING if found.mode is Mode.FREE else "",
        next=next_mode(found.mode),
    )
