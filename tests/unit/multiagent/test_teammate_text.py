"""What is told about a teammate has the taint of all that contributed to it, and an unknown one if that is gone."""

from typing import Any, cast

import pytest
from msgspec import Struct

from moot.daemon.clock import ManualClock
from moot.domain.conversation import ConversationKey
from moot.domain.run import Run, RunRequest, RunStatus
from moot.domain.run_view import RunView
from moot.engine.history import Histories
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.multiagent.teammates.teammate_text import UNKNOWN, StoredRuns, TeammateTexts


class History(Struct):
    taint: frozenset[str]


class Stored:
    """The conversations that exist, by sender."""

    def __init__(self, **taints: str) -> None:
        self._taints = taints

    async def load(self, key: ConversationKey) -> History | None:
        found = self._taints.get(key.sender)
        return History(frozenset(found.split())) if found is not None else None


def run(name: str, *, started: bool = True, waits_for: tuple[str, ...] = (), taint: str = "") -> RunView:
    request = RunRequest(
        id=name, key=ConversationKey("operator", name), speaker="operator", content="do", taint=frozenset(taint.split())
    )
    stored = Run(request=request, status=RunStatus.RUNNING, created_at=1.0, started_at=2.0 if started else 0.0)
    return RunView(stored, waiting_on=waits_for)


@pytest.mark.parametrize(
    ("seen", "taint"),
    [
        (run("clean"), frozenset()),
        (run("reads"), {"web"}),
        # It has no conversation yet: its instruction was written by a tainted run.
        (run("queued", started=False, taint="mcp"), {"mcp"}),
        (run("deleted", taint="mcp"), {"mcp", *UNKNOWN}),
        (run("clean", waits_for=("reads",)), {"web"}),
        (run("clean", waits_for=("gone",)), frozenset()),
    ],
)
async def test_the_taint_is_that_of_all_that_contributed(seen: RunView, taint: frozenset[str]) -> None:
    live = LiveRuns(cast(Any, None), ManualClock())
    live.add(run("reads").run).is_submitted = True
    stored = Stored(clean="", reads="web")
    texts = TeammateTexts(cast("Histories", stored), cast("StoredRuns", stored), live)
    told = await texts.join([seen, run("clean")], lambda shown: " ".join(each.id for each in shown))
    assert (told.content, told.taint) == (f"{seen.id} clean", taint)


@pytest.mark.parametrize(
    ("is_submitted", "is_resumed", "taint"),
    [(False, False, {"mcp"}), (True, False, {"web"}), (False, True, {"web"})],
)
async def test_a_run_that_has_not_begun_has_read_only_its_instruction(
    is_submitted: bool, is_resumed: bool, taint: set[str]
) -> None:
    seen = run("run-1", taint="mcp")
    live = LiveRuns(cast(Any, None), ManualClock())
    added = live.add(seen.run)
    added.is_submitted, added.is_resumed = is_submitted, is_resumed
    stored = Stored(**{"run-1": "web"})
    texts = TeammateTexts(cast("Histories", stored), cast("StoredRuns", stored), live)
    assert (await texts.join([seen], str)).taint == taint
