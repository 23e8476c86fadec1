"""Handlers for secrets: set, list, remove, audit. No answer contains a value."""

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.daemon.vault.master_key import MasterKey
from moot.daemon.vault.vault import Vault
from moot.domain.secret import OWNER, Holder, SecretScope
from moot.wire import moot_pb2 as pb

_AUDIT_LINES = 100
_MOST_AUDIT_LINES = 10_000


class SecretRequests:
    def __init__(self, *, vault: Vault, master: MasterKey) -> None:
        self._vault = vault
        self._master = master

    async def set_secret(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("set a secret")
        request = message.set_secret
        scope = _decode_scope(request.scope) if request.HasField("scope") else None
        holder = _holder_of(principal)
        replaced = await self._vault.store(request.name, request.value, holder, scope=scope, new_key=request.new_key)
        kept = await self._find_scope(request.name, holder.sender)
        done = pb.SecretSet(name=request.name, replaced=replaced, scope=_encode_scope(kept))
        reply.send(pb.ServerMessage(secret_set=done))

    async def _find_scope(self, name: str, owner: str) -> SecretScope:
        infos = await self._vault.list_all()
        return next((info.scope for info in infos if (info.owner, info.name) == (owner, name)), SecretScope())

    async def list_secrets(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the secrets")
        unreadable = await self._vault.list_unreadable()
        secrets = [
            pb.SecretInfo(
                name=info.name,
                owner=info.owner,
                scope=_encode_scope(info.scope),
                created_at=info.created_at,
                updated_at=info.updated_at,
                uses=info.uses,
                used_at=info.used_at,
                unreadable=(info.owner, info.name) in unreadable,
            )
            for info in await self._vault.list_all()
        ]
        reply.send(pb.ServerMessage(secret_list=pb.SecretList(secrets=secrets, key=self._master.place)))

    async def remove_secret(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("remove a secret")
        request = message.remove_secret
        await self._vault.delete(request.name, _holder_of(principal), owner=request.owner)
        reply.send(pb.ServerMessage(pong=pb.Pong()))

    async def scope_secret(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("change the scope of a secret")
        request = message.scope_secret
        scope = _decode_scope(request.scope)
        await self._vault.set_scope(request.name, request.owner or OWNER, scope, _holder_of(principal))
        reply.send(pb.ServerMessage(pong=pb.Pong()))

    async def audit_secrets(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see who used a secret")
        request = message.audit_secrets
        limit = min(request.limit or _AUDIT_LINES, _MOST_AUDIT_LINES)
        uses = [
            pb.SecretUseInfo(
                name=use.name,
                owner=use.owner,
                action=use.action,
                agent=use.holder.agent,
                sender=use.holder.sender,
                run=use.holder.run,
                tool=use.holder.tool,
                at=use.at,
            )
            for use in await self._vault.audit(name=request.name, limit=limit)
        ]
        reply.send(pb.ServerMessage(secret_audit=pb.SecretAudit(uses=uses)))


def _decode_scope(scope: pb.SecretScope) -> SecretScope:
    return SecretScope(
        agents=tuple(scope.agents),
        senders=tuple(scope.senders),
        tools=tuple(scope.tools),
        hosts=tuple(scope.hosts),
        configuration_only=scope.configuration_only,
    )


def _encode_scope(scope: SecretScope) -> pb.SecretScope:
    return pb.SecretScope(
        agents=scope.agents,
        senders=scope.senders,
        tools=scope.tools,
        hosts=scope.hosts,
        configuration_only=scope.configuration_only,
    )


def _holder_of(principal: Principal) -> Holder:
    return Holder(sender=principal.default_sender)
