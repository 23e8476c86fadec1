"""Modes: the mode and the auto-approve level of a run, read from its root conversation. Used by hooks and requests.

It is read from the store at each use, so that a change applies from the next call on, whoever made it.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from moot.domain.agent import Agent
from moot.domain.auto_approve import AutoApproveLevel, resolve_level
from moot.domain.config import InterceptorConfig
from moot.domain.conversation import ConversationKey
from moot.domain.events import EventSource, ModeChanged
from moot.domain.mode import ConversationMode, Mode, narrow_mode, resolve_mode
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext
from moot.domain.senders import owner_of
from moot.engine.bus import Bus


class ModeStore(Protocol):
    async def find_mode(self, key: ConversationKey) -> str: ...
    async def set_mode(self, key: ConversationKey, mode: str, *, now: float) -> None: ...
    async def find_auto_approve(self, key: ConversationKey) -> str: ...
    async def set_auto_approve(self, key: ConversationKey, level: str, *, now: float) -> None: ...


async def find_no_step(context: RunContext) -> ConversationKey | None:
    return None


class Modes:
    """`has_sandbox` returns whether commands run in a sandbox.

    `find_step` returns the conversation of the step of a workflow that a run works for, if it does. Of that and the
    conversation that started the workflow the stricter one holds: an agent gets nothing done by way of another one that
    its own conversation would ask about.
    """

    def __init__(  # noqa: PLR0913 - what a mode depends on
        self,
        *,
        store: ModeStore,
        config: Callable[[], InterceptorConfig],
        has_sandbox: Callable[[], Awaitable[bool]],
        find_agent: Callable[[str], Agent | None],
        bus: Bus,
        clock: Clock,
        find_step: Callable[[RunContext], Awaitable[ConversationKey | None]] = find_no_step,
    ) -> None:
        self._store = store
        self._config = config
        self._has_sandbox = has_sandbox
        self._find_agent = find_agent
        self._bus = bus
        self._clock = clock
        self._find_step = find_step

    async def find(self, key: ConversationKey) -> ConversationMode:
        """Return the mode of a conversation. The one of a background run is that of the conversation it belongs to."""
        return await self._resolve(await self._store.find_mode(_find_person_key(key)))

    async def find_of_run(self, context: RunContext) -> ConversationMode:
        """Return the mode of a run: that of its root conversation, for a workflow also of the agent of the step."""
        found, step = await self.find(context.asks_in), await self._find_step(context)
        return found if step is None else narrow_mode(found, await self.find(step))

    async def find_level_of_run(self, context: RunContext) -> AutoApproveLevel:
        """Return the level of the dial for calls of a run, from the same conversations as its mode."""
        level, step = await self.find_auto_approve(context.asks_in, context.speaker), await self._find_step(context)
        if step is None:
            return level
        return min(level, await self.find_auto_approve(step, context.speaker), key=lambda each: each.rank)

    async def find_default(self) -> ConversationMode:
        """Return the mode of a conversation that has none of its own."""
        return await self._resolve("")

    async def set(self, key: ConversationKey, mode: Mode | None, *, by: str) -> ConversationMode:
        """Set the mode of a conversation; None takes it back to the configured one. It is on disk when this returns."""
        key = _find_person_key(key)
        await self._store.set_mode(key, mode or "", now=self._clock.now())
        found = await self._resolve(mode or "")
        level = await self.find_auto_approve(key)
        self._bus.publish(EventSource(key=key, root=key), ModeChanged(mode=found.mode, by=by, auto_approve=level))
        return found

    async def find_auto_approve(self, key: ConversationKey, speaker: str = "") -> AutoApproveLevel:
        """Return the level of the dial for calls of a speaker, the agent of the conversation unless said otherwise."""
        own = await self._store.find_auto_approve(_find_person_key(key))
        agent = self._find_agent(key.agent)
        other = self._find_agent(speaker) if speaker not in ("", key.agent) else None
        return resolve_level(
            own,
            await self.find(key),
            of_agent=agent.auto_approve if agent is not None else None,
            of_speaker=other.auto_approve if other is not None else None,
        )

    async def has_own_level(self, key: ConversationKey) -> bool:
        """Return whether the level of the dial was set for this conversation."""
        return bool(await self._store.find_auto_approve(_find_person_key(key)))

    async def set_auto_approve(self, key: ConversationKey, level: AutoApproveLevel | None, *, by: str) -> None:
        """Set the level of the dial of a conversation; None takes it back to that of its agent."""
        key = _find_person_key(key)
        await self._store.set_auto_approve(key, level or "", now=self._clock.now())
        mode, now = await self.find(key), await self.find_auto_approve(key)
        self._bus.publish(EventSource(key=key, root=key), ModeChanged(mode=mode.mode, by=by, auto_approve=now))

    async def _resolve(self, own: str) -> ConversationMode:
        configured = self._config().mode
        has_sandbox = bool(own or configured) or await self._has_sandbox()
        return resolve_mode(own, configured, has_sandbox=has_sandbox)


def _find_person_key(key: ConversationKey) -> ConversationKey:
    return ConversationKey(key.agent, owner_of(key.sender))
