"""A grant that was requested for one call of a run is kept when another call of it comes first after a restart."""

import asyncio
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.approval import Decision
from moot.domain.ask import AskKind, grant_id
from moot.domain.config import InterceptorConfig
from moot.domain.events import AskOpened, EventBody
from moot.domain.ports.hook import GateCall
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.run import Run, RunRequest, RunStatus, Spawn
from moot.multiagent.teammates.grants import Grants
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.store.sqlite import open_store
from tests.unit.shelves import ADA, SetClock, asks_over, context, talk


class Send:
    spec = ToolSpec(name="send", description="", parameters={"type": "object"}, safety=Safety.DANGEROUS)

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        raise AssertionError(arguments)


async def test_a_call_that_was_not_asked_about_does_not_replace_the_ask_of_another(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        tool, opened = Send(), asyncio.Event()
        live = LiveRuns(cast(Any, None), SetClock())
        request = RunRequest(id="run-1", key=ADA, speaker="ada", content="")
        live.add(Run(request=request, status=RunStatus.RUNNING, created_at=1.0, spawn=Spawn(allowed_tools=("read",))))

        def emit(event: EventBody) -> None:
            if isinstance(event, AskOpened):
                opened.set()

        def call(number: int) -> GateCall:
            return GateCall(id=f"c{number}", tool=tool, arguments={"n": number}, context=replace(context(), emit=emit))

        def restart() -> Grants:
            return Grants(
                live=live,
                asks=asks,
                sealer=cast(Any, None),
                config=InterceptorConfig,
                tools=lambda: {"send": tool},
                traces=cast(Any, None),
            )

        asks = asks_over(store)
        first = asyncio.create_task(restart().admit(call(0)))
        async with asyncio.timeout(30):
            await opened.wait()
            asks.suspend()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            asks = asks_over(store)
            await asks.start()
            grants, grant = restart(), grant_id("run-1", "send")
            opened.clear()
            later = asyncio.create_task(grants.admit(call(1)))
            # It waits, and lets the call pass that the owner was asked about.
            earlier = asyncio.create_task(grants.admit(call(0)))
            await opened.wait()
            (pending,) = await asks.list_pending()
            assert (pending.kind, pending.id, pending.attempt, pending.call_id) == (AskKind.GRANT, grant, 1, "c0")
            await asks.decide(grant, attempt=1, decision=Decision.ONCE, by="owner")
            admitted = await asyncio.gather(earlier, later)
            assert [cast(GateCall, each).approved for each in admitted] == [True, False]
            assert await asks.list_pending() == []
    finally:
        await store.close()


async def test_a_tool_that_was_removed_while_its_grant_was_requested_is_not_run(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        opened, tools = asyncio.Event(), {"send": Send()}
        live = LiveRuns(cast(Any, None), SetClock())
        request = RunRequest(id="run-1", key=ADA, speaker="ada", content="")
        live.add(Run(request=request, status=RunStatus.RUNNING, created_at=1.0, spawn=Spawn(allowed_tools=("read",))))
        asks = asks_over(store)
        grants = Grants(
            live=live,
            asks=asks,
            sealer=cast(Any, None),
            config=InterceptorConfig,
            tools=lambda: tools,
            traces=cast(Any, None),
        )

        def emit(event: EventBody) -> None:
            if isinstance(event, AskOpened):
                opened.set()

        call = GateCall(id="c1", tool=tools["send"], arguments={}, context=replace(context(), emit=emit))
        async with asyncio.timeout(30):
            admitting = asyncio.create_task(grants.admit(call))
            await opened.wait()
            tools.clear()
            await asks.decide(grant_id("run-1", "send"), attempt=1, decision=Decision.ONCE, by="owner")
            refused = await admitting
        assert isinstance(refused, ToolResult)
        assert (refused.is_error, refused.content) == (True, "send is no longer available; it was not run.")
    finally:
        await store.close()
