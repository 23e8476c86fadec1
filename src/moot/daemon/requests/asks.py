"""Requests about what waits for a human: questions, approvals, the rules decided with them, and the gate's hooks."""

from collections.abc import Callable

from moot.daemon.principal import Principal
from moot.daemon.requests.exchange import Reply
from moot.domain.agent_run import AgentRun
from moot.domain.approval import Decision
from moot.domain.ask import Asker
from moot.domain.errors import BadRequest
from moot.engine.approvals import Approvals
from moot.engine.asks import Asks
from moot.engine.gate import Gate
from moot.wire import moot_pb2 as pb
from moot.wire.asks import approval_info, ask_info, rule_info


class Inbox:
    def __init__(
        self, *, asks: Asks, approvals: Approvals, gate: Gate, at_work: Callable[[str], AgentRun | None]
    ) -> None:
        self._asks = asks
        self._approvals = approvals
        self._gate = gate
        self._at_work = at_work

    async def list_asks(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        wanted = message.list_asks.ask_id
        infos = [ask_info(ask, self._by(ask.run_id)) for ask in self._asks.all() if principal.owns(ask.key.sender)]
        waiting = await self._approvals.pending()
        # One that was named is told whole; many of them might not fit into one answer.
        infos += [
            approval_info(approval, self._by(approval.run_id), whole=approval.id == wanted)
            for approval in waiting
            if principal.owns(approval.key.sender)
        ]
        infos = [info for info in infos if wanted in ("", info.ask_id)]
        reply.send(pb.ServerMessage(ask_list=pb.AskList(asks=infos)))

    def _by(self, run_id: str) -> Asker | None:
        run = self._at_work(run_id)
        return run.asker if run is not None else None

    async def decide_ask(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.demand_owner("decide what an agent may do on this machine")
        asked = message.decide_ask
        try:
            decision = Decision(asked.decision)
        except ValueError:
            raise BadRequest(f"{asked.decision!r} is no decision", fix="Say once, run, always or deny.") from None
        decided = await self._approvals.decide(
            asked.ask_id, attempt=asked.attempt, decision=decision, by=principal.name, whole=asked.whole_tool
        )
        rule = decided.rule_words(decision, whole=asked.whole_tool)
        answer = pb.AskDecided(ask_id=decided.id, state=decided.state, rule=rule)
        reply.send(pb.ServerMessage(ask_decided=answer))

    async def list_rules(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.demand_owner("see the rules")
        await self._approvals.load()
        rules = [rule_info(rule) for rule in self._approvals.rules()]
        reply.send(pb.ServerMessage(rule_list=pb.RuleList(rules=rules)))

    async def delete_rule(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.demand_owner("take back a rule")
        await self._approvals.delete_rule(message.delete_rule.number)
        reply.send(pb.ServerMessage(pong=pb.Pong()))

    async def list_hooks(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.demand_owner("see the hooks")
        live = self._gate.hooks(None)
        before = [hook for hook in live if hook.phase == "pre-execute"]
        # The chain is wrapped around the tool: of those that act after it the innermost is the first.
        after = [hook for hook in reversed(live) if hook not in before]
        hooks = [
            pb.HookInfo(name=hook.name, phase=hook.phase, enabled=True, counts=hook.counts())
            for hook in (*before, *after)
        ]
        reply.send(pb.ServerMessage(hook_list=pb.HookList(hooks=hooks)))
