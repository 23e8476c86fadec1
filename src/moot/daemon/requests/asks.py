"""Requests about asks, the rules decided with them, and the hooks of the gate. Works with engine/asks.py."""

from typing import Any

import msgspec

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.approval import Decision, describe_rules
from moot.domain.ask import Ask, AskKind
from moot.domain.errors import BadRequest, Conflict, Forbidden, NotFound
from moot.domain.owner import OwnedRun
from moot.domain.ports.store import Store
from moot.domain.redaction import MASK
from moot.domain.run import RunKind
from moot.domain.secret import find_references
from moot.engine.asks import Asks
from moot.engine.gate import Gate
from moot.wire import moot_pb2 as pb
from moot.wire.asks import ask_info, encode_pattern, rule_info


class AskRequests:
    def __init__(self, *, asks: Asks, gate: Gate, store: Store) -> None:
        self._asks = asks
        self._gate = gate
        self._store = store

    async def list_asks(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        wanted = message.list_asks.ask_id
        asks = [ask for ask in await self._asks.list_pending() if wanted in ("", ask.id)]
        runs = {owned.run.id: owned for owned in await self._store.list_live_runs()} if asks else {}
        # A single ask is sent complete; texts in a list are shortened, as many might not fit into one answer.
        visible = [ask for ask in asks if principal.owns(ask.key.sender)]
        infos = [_describe(ask, runs.get(ask.run_id), whole=ask.id == wanted) for ask in visible]
        if pattern := message.list_asks.pattern:
            # Whether a pattern covers a call tells where the call works.
            principal.require_approver()
            for ask, info in zip(visible, infos, strict=True):
                del info.patterns[:]
                info.patterns.append(encode_pattern(ask, pattern))
        reply.send(pb.ServerMessage(ask_list=pb.AskList(asks=infos)))

    async def decide_ask(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_approver()
        request = message.decide_ask
        try:
            decision = Decision(request.decision)
        except ValueError:
            raise BadRequest(
                f"{request.decision!r} is not a decision", fix="Use once, run, conversation, always or deny."
            ) from None
        if request.reason and decision is not Decision.DENY:
            raise BadRequest("only a denial has a reason", fix="Leave it out, or decide `deny`.")
        if request.pattern and (request.whole_tool or decision in (Decision.ONCE, Decision.DENY)):
            raise BadRequest(
                "a pattern can only be given for a rule", fix="Decide run, conversation or always, without whole_tool."
            )
        if not principal.is_owner:
            await self._check_shown(request, decision, principal)
        decided = await self._asks.decide(
            request.ask_id,
            attempt=request.attempt,
            decision=decision,
            by=principal.name,
            whole=request.whole_tool,
            pattern=request.pattern,
            reason=request.reason,
        )
        rule = describe_rules(decided, decision, whole=request.whole_tool, pattern=request.pattern)
        answer = pb.AskDecided(ask_id=decided.id, state=decided.state, rule=rule)
        reply.send(pb.ServerMessage(ask_decided=answer))

    async def _check_shown(self, request: pb.DecideAskMsg, decision: Decision, principal: Principal) -> None:
        """Raise unless a token may decide this: one call, of its own senders, all of which it was shown."""
        pending = await self._asks.list_pending()
        ask = next((ask for ask in pending if ask.id == request.ask_id and principal.owns(ask.key.sender)), None)
        if ask is None:
            raise NotFound(f"there is no ask {request.ask_id}", fix="List the open ones with `moot inbox`.")
        if ask.attempt != request.attempt:
            # Checked here too, because what is checked below belongs to this attempt.
            raise Conflict(f"{ask.id} has changed since it was shown", fix="Look at it again.")
        if ask.kind is not AskKind.APPROVAL or decision not in (Decision.ONCE, Decision.DENY) or request.whole_tool:
            raise Forbidden("only the owner may write rules and grant tools", fix="Decide `once` or `deny`.")
        if (ask.sealed or MASK in ask.arguments) and decision is not Decision.DENY:
            raise Forbidden(
                "only the owner may allow a call whose arguments are not shown",
                fix="Decide `deny`, or let the owner decide it with `moot inbox`.",
            )

        if decision is not Decision.DENY and find_references(_read_arguments(ask)):
            raise Forbidden(
                "only the owner may allow a call that uses a secret",
                fix="Decide `deny`, or let the owner decide it with `moot inbox`.",
            )

    async def list_rules(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the rules")
        rules = [rule_info(rule) for rule in await self._asks.rules.read()]
        reply.send(pb.ServerMessage(rule_list=pb.RuleList(rules=rules)))

    async def delete_rule(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("revoke a rule")
        await self._asks.rules.delete(message.delete_rule.number)
        reply.send(pb.ServerMessage(pong=pb.Pong()))

    async def list_hooks(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the hooks")
        live = self._gate.hooks(None)
        before = [hook for hook in live if hook.phase == "pre-execute"]
        # Hooks wrap the tool, so of those that act after it the innermost is the first.
        after = [hook for hook in reversed(live) if hook not in before]
        hooks = [
            pb.HookInfo(name=hook.name, phase=hook.phase, enabled=True, counts=hook.counts())
            for hook in (*before, *after)
        ]
        reply.send(pb.ServerMessage(hook_list=pb.HookList(hooks=hooks)))


def _read_arguments(ask: Ask) -> dict[str, Any]:
    try:
        arguments = msgspec.json.decode(ask.arguments)
    except msgspec.DecodeError:
        # They were cut to be stored.
        arguments = ask.arguments
    return {"arguments": arguments}


def _describe(ask: Ask, owned: OwnedRun | None, *, whole: bool) -> pb.AskInfo:
    is_spawned = owned is not None and owned.run.kind is not RunKind.TURN
    info = ask_info(ask, owned.run.asker if owned is not None and is_spawned else None, whole=whole)
    info.node = owned.owner.other_node if owned is not None else 0
    return info
