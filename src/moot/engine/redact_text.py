"""Removes secrets from a text: from a long one in a thread. Used for messages, replies and mail."""

import asyncio
from collections.abc import Callable

# Text that resembles a long secret takes about a quarter of a second for each megabyte.
LONG_TEXT = 16_384


async def redact_text(redact: Callable[[str], str], text: str) -> str:
    return await asyncio.to_thread(redact, text) if len(text) > LONG_TEXT else redact(text)
