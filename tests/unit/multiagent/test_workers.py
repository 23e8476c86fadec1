"""Continuing a worker: of several calls at the same time, one does it."""

import asyncio
import json
from typing import Any, cast

import pytest
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.run import Outcome, Run, RunEnd, RunStatus
from moot.domain.run_view import RunView
from moot.engine.history import Histories
from moot.engine.supervisor import Supervisor
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.multiagent.teammates.teammates import Teammates
from moot.multiagent.teammates.worker_tool import MAX_MESSAGE_BYTES, SendMessageToWorker
from moot.multiagent.teammates.workers import Workers
from tests.unit.shelves import SetClock, context, teammate_run


class Team:
    """Store, histories and teammates, each of which lets others go first."""

    def __init__(self, first: Run) -> None:
        self.runs = [first]

    async def list_runs(self, _key: object) -> list[Run]:
        await asyncio.sleep(0)
        return list(self.runs)

    async def load(self, _key: object) -> None:
        await asyncio.sleep(0)

    async def count_delegation(self, *_given: object) -> None:
        await asyncio.sleep(0)

    def new_id(self) -> str:
        return f"arun-{len(self.runs) + 1}"

    async def keep(self, run: Run) -> RunView:
        await asyncio.sleep(0)
        self.runs.append(run)
        return RunView(run)


async def test_of_two_calls_for_one_worker_only_one_continues_it() -> None:
    end = RunEnd(outcome=Outcome.COMPLETED, content="done")
    first = replace(teammate_run(), status=RunStatus.ENDED, end=end)
    team: Any = Team(first)
    clock = SetClock()
    workers = Workers(
        teammates=cast(Teammates, team),
        live=LiveRuns(Supervisor(clock), clock),
        store=team,
        histories=cast(Histories, team),
        clock=clock,
    )
    calls = [replace(context(), call_id=call) for call in ("one", "two")]
    made = await asyncio.gather(*(workers.go_on(each, first, "more") for each in calls))

    assert [each is None for each in made] == [False, True]
    assert len(team.runs) == 2
    # The same call, repeated after a crash, finds what it has made.
    again = await workers.go_on(calls[0], first, "more")
    assert again is not None
    assert again.prior.id == first.id


WORKER_ID, LARGE = "arun-1", "x" * (MAX_MESSAGE_BYTES + 1)
# Each caller and its arguments with the first of the refusals that apply, in the order of the checks.
REFUSALS: list[tuple[str, str, tuple[str, ...], dict[str, Any], str]] = [
    ("hand", "hand", (), {}, "RoleRefused"),
    ("hand", "boss", (), {"worker_id": WORKER_ID, "message": LARGE}, "RoleRefused"),
    ("boss", "boss", ("chief",), {"worker_id": WORKER_ID, "message": "x"}, "RoleRefused"),
    ("boss", "other", (), {}, "Wire"),
    ("boss", "other", (), {"worker_id": WORKER_ID}, "Wire"),
    ("boss", "other", (), {"worker_id": " ", "message": LARGE}, "Wire"),
    ("boss", "other", (), {"worker_id": 7, "message": "x"}, "Wire"),
    ("boss", "other", (), {"worker_id": WORKER_ID, "message": ""}, "Wire"),
    ("boss", "other", (), {"worker_id": WORKER_ID, "message": LARGE}, "MessageTooLarge"),
    ("boss", "other", (), {"worker_id": WORKER_ID, "message": "x"}, "BindingUnresolved"),
    ("boss", "boss", (), {"worker_id": WORKER_ID, "message": LARGE[:-1]}, ""),
]


@pytest.mark.parametrize(("speaker", "agent", "chain", "arguments", "kind"), REFUSALS)
def test_the_refusals_of_a_caller_come_in_their_order(
    speaker: str, agent: str, chain: tuple[str, ...], arguments: dict[str, Any], kind: str
) -> None:
    tool = SendMessageToWorker(cast(Any, None), cast(Any, None), lambda name: name in ("boss", "chief"))
    caller = replace(context(), speaker=speaker, key=ConversationKey(agent, "user"), chain=chain)
    refusal = tool.explain_refusal(arguments, caller)
    assert (json.loads(refusal.content)["kind"] if refusal is not None else "") == kind
    assert refusal is None or refusal.is_error
