"""Handlers for secrets: set, list, remove, audit. No answer contains a value."""

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.daemon.vault.master_key import MasterKey
from moot.daemon.vault.vault import Vault
from moot.domain.secret import Holder
from moot.wire import moot_pb2 as pb

_AUDIT_LINES = 100
_MOST_AUDIT_LINES = 10_000


class SecretRequests:
    def __init__(self, *, vault: Vault, master: MasterKey) -> None:
        self._vault = vault
        self._master = master

    async def set_secret(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("set a secret")
        asked = message.set_secret
        replaced = await self._vault.store(asked.name, asked.value, _holder_of(principal))
        reply.send(pb.ServerMessage(secret_set=pb.SecretSet(name=asked.name, replaced=replaced)))

    async def list_secrets(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the secrets")
        secrets = [
            pb.SecretInfo(
                name=info.name,
                created_at=info.created_at,
                updated_at=info.updated_at,
                uses=info.uses,
                used_at=info.used_at,
            )
            for info in await self._vault.list_all()
        ]
        reply.send(pb.ServerMessage(secret_list=pb.SecretList(secrets=secrets, key=self._master.place)))

    async def remove_secret(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("remove a secret")
        await self._vault.delete(message.remove_secret.name, _holder_of(principal))
        reply.send(pb.ServerMessage(pong=pb.Pong()))

    async def audit_secrets(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see who used a secret")
        asked = message.audit_secrets
        limit = min(asked.limit or _AUDIT_LINES, _MOST_AUDIT_LINES)
        uses = [
            pb.SecretUseInfo(
                name=use.name,
                action=use.action,
                agent=use.holder.agent,
                sender=use.holder.sender,
                run=use.holder.run,
                tool=use.holder.tool,
                at=use.at,
            )
            for use in await self._vault.audit(name=asked.name, limit=limit)
        ]
        reply.send(pb.ServerMessage(secret_audit=pb.SecretAudit(uses=uses)))


def _holder_of(principal: Principal) -> Holder:
    return Holder(sender=principal.default_sender)
