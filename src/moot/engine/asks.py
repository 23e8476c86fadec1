"""Runs that wait for a human: open questions by conversation, answered oldest first."""

import asyncio
from collections.abc import Sequence

from moot.domain.ask import Ask, Question
from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound, Unavailable
from moot.domain.ports import Clock


class Asks:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[ConversationKey, list[tuple[Ask, asyncio.Future[str]]]] = {}

    def open(
        self,
        key: ConversationKey,
        run_id: str,
        questions: Sequence[Question],
        *,
        ask_id: str,
        seconds: float,
        since: float | None = None,
    ) -> Ask:
        """Ask for so many seconds, counted from when it was first asked where that was before."""
        opened_at = self._clock.now() if since is None else since
        ask = Ask(
            id=ask_id,
            key=key,
            run_id=run_id,
            questions=tuple(questions),
            opened_at=opened_at,
            expires_at=opened_at + seconds,
        )
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open.setdefault(key, []).append((ask, answer))
        return ask

    async def answer(self, ask: Ask) -> str:
        """Wait for the answer; however the wait ends, the question is closed afterwards."""
        future = next(future for known, future in self._open[ask.key] if known.id == ask.id)
        try:
            async with asyncio.timeout(max(0.0, ask.expires_at - self._clock.now())):
                return await future
        except TimeoutError:
            raise Unavailable(
                f"nobody answered within {ask.expires_at - ask.opened_at:.0f} seconds",
                fix="Go on without the answer, or ask again later.",
            ) from None
        finally:
            self._close(ask)

    def reply(self, key: ConversationKey, content: str) -> Ask:
        """Answer the oldest question of the conversation."""
        for ask, future in self._open.get(key, []):
            if not future.done():
                future.set_result(content)
                return ask
        raise NotFound(f"{key.agent} is not asking {key.sender} anything", fix="See open questions with `moot status`.")

    def all(self) -> list[Ask]:
        return [ask for asks in self._open.values() for ask, future in asks if not future.done()]

    def of(self, key: ConversationKey) -> list[Ask]:
        return [ask for ask, future in self._open.get(key, []) if not future.done()]

    def _close(self, ask: Ask) -> None:
        left = [(known, future) for known, future in self._open.get(ask.key, []) if known.id != ask.id]
        if left:
            self._open[ask.key] = left
        else:
            self._open.pop(ask.key, None)
