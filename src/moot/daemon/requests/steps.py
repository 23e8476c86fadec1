"""Requests about model requests: one made again from its record, and a run replayed."""

import asyncio
from collections.abc import Callable
from random import Random

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.errors import BadRequest, NotFound
from moot.domain.ports.model import Model
from moot.domain.ports.store import Store
from moot.domain.ports.traces import StepStore
from moot.engine.replay import ReplayedStep, find_step, replay
from moot.engine.step_records import rebuild
from moot.models.request_body import encode_body
from moot.wire import moot_pb2 as pb


class StepRequests:
    def __init__(self, *, store: Store, steps: StepStore, models: Callable[[str], Model], rng: Random) -> None:
        self._store = store
        self._steps = steps
        self._models = models
        self._rng = rng

    async def get_prompt(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the request to a model")
        run_id = await self._find_run(message.get_prompt.run_id)
        stored = await find_step(self._steps, run_id, message.get_prompt.step)
        # In a thread, because a long history takes a while to encode.
        config, prompt = await asyncio.to_thread(rebuild, stored)
        info = pb.PromptInfo(
            run_id=run_id,
            step=stored.step,
            steps=len(await self._steps.list_numbers(run_id)),
            provider=config.provider,
            model=config.model,
            body=await asyncio.to_thread(encode_body, config, prompt),
        )
        reply.send(pb.ServerMessage(prompt=info))

    async def replay_run(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("replay a run")
        run_id = await self._find_run(message.replay_run.run_id)
        config, _ = rebuild(await find_step(self._steps, run_id, 0))
        model = self._models(message.replay_run.model or config.name)
        replayed = await replay(self._steps, run_id, model, self._rng)
        answer = pb.Replayed(
            run_id=run_id,
            model=model.name,
            steps=map(_step, replayed),
            recorded=len(await self._steps.list_numbers(run_id)),
        )
        reply.send(pb.ServerMessage(replayed=answer))

    async def _find_run(self, written: str) -> str:
        found = await self._store.list_run_ids(written, limit=2) if written else []
        if not found:
            raise NotFound(f"there is no run {written!r}", fix="`moot trace` lists them.")
        if len(found) > 1 and written not in found:
            raise BadRequest(f"several runs begin with {written!r}", fix="Give more characters of the id.")
        return written if written in found else found[0]


def _step(step: ReplayedStep) -> pb.ReplayedStep:
    return pb.ReplayedStep(
        step=step.step,
        verdict=step.verdict,
        expected=step.expected,
        got=step.got,
        prompt_tokens=step.usage.prompt,
        completion_tokens=step.usage.completion,
        cost=step.cost,
    )
