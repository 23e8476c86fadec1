"""Makes the tool calls of one step: at once, except for those that keep their order. Used by loop.py."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from moot.domain.message import ToolCall
from moot.domain.prompt import ToolSpec


async def make_calls(
    calls: Sequence[ToolCall], specs: Sequence[ToolSpec], make: Callable[[ToolCall], Coroutine[Any, Any, None]]
) -> None:
    """Make all calls. Calls of tools that are `in_order` are made one after the other."""
    if len(calls) == 1:
        await make(calls[0])
        return
    names = {spec.name for spec in specs if spec.in_order}
    ordered = [call for call in calls if call.name in names]

    async def make_ordered() -> None:
        for call in ordered:
            await make(call)

    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                if call.name not in names:
                    group.create_task(make(call), name=f"tool {call.name}")
                elif call is ordered[0]:
                    group.create_task(make_ordered(), name=f"tool {call.name}")
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
