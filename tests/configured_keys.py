"""Looks up what a configuration refers to, as a daemon without a vault does. For tests of tools."""

from moot.models import keys


async def reveal(reference: str, *, place: str, host: str = "") -> str:
    return await keys.reveal(reference, place=place)
