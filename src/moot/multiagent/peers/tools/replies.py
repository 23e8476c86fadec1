"""Replies: waits for mail with a given correlation id in one conversation. Used by peer_tools.py and plans.py."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from moot.domain.conversation import ConversationKey
from moot.domain.events import Event
from moot.domain.mail import MAIL_AUTHOR, Mail, join_taint, render_mail
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import ToolResult
from moot.engine.mailboxes import Mailboxes


class Replies:
    def __init__(self, *, mailboxes: Mailboxes, clock: Clock) -> None:
        self._mailboxes = mailboxes
        self._clock = clock
        self._waiting: dict[ConversationKey, list[asyncio.Event]] = {}

    def on_mail(self, event: Event) -> None:
        """Wake those who wait for mail in this conversation."""
        for arrived in self._waiting.get(event.source.key, ()):
            arrived.set()

    async def wait(
        self,
        key: ConversationKey,
        run_id: str,
        correlation_id: str,
        seconds: float,
        is_wanted: Callable[[Mail], bool] = lambda _: True,
    ) -> list[Mail]:
        """Return the unread mail with that id that is wanted, for a run that shows it; empty if none came in time."""
        arrived = asyncio.Event()
        self._waiting.setdefault(key, []).append(arrived)
        try:
            with suppress(TimeoutError):
                async with self._clock.timeout(seconds):
                    while True:
                        found = await self._mailboxes.collect(
                            key, run_id, correlation_id=correlation_id, is_wanted=is_wanted
                        )
                        if found:
                            return found
                        await arrived.wait()
                        arrived.clear()
            return []
        finally:
            self._waiting[key].remove(arrived)
            if not self._waiting[key]:
                del self._waiting[key]


def show_mail(mails: Sequence[Mail]) -> ToolResult:
    """Return the result of a call that shows these messages, as they are shown at the beginning of a turn."""
    return ToolResult(
        content=render_mail(mails),
        taint=join_taint(mails),
        delivers=tuple(mail.id for mail in mails),
        author=MAIL_AUTHOR,
    )
