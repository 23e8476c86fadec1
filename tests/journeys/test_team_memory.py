"""What a team keeps in memory of its work is gone when the work is: looked at from inside a whole daemon."""

from pathlib import Path

from moot.daemon.app import Daemon, running
from moot.daemon.paths import Paths
from moot.domain.conversation import ConversationKey
from moot.domain.run import RunRequest
from moot.domain.senders import SenderSet
from moot.redaction.redactor import Redactor
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually
from tests.scripting import lead, mate, say, script, spawn, wait
from tests.teaming import TEAM

SCRIPT = script(
    # Nobody waits: the teammate spawns when the turn is over, and the turn on its report spawns again.
    lead("^leave it", spawn("go on by yourself"), say("Begun.")),
    lead("has ended", spawn("finish what is left", "librarian"), wait(), say("All done.")),
    lead("^at once", spawn("finish", "librarian"), wait(), say("Done.")),
    mate("^go on by yourself", spawn("finish", "librarian"), wait(), say("I have."), delay_seconds=0.2),
    mate("^finish", reply="Finished.", delay_seconds=0.05),
)


async def say_to(daemon: Daemon, content: str, number: int) -> None:
    key = ConversationKey("moot", f"s{number}")
    request = RunRequest(id=f"run-{number}", key=key, speaker="moot", content=content)
    await (await daemon.runtime.runs.submit(request)).wait_end()


async def test_no_tally_outlives_the_runs_that_delegate(tmp_path: Path) -> None:
    home = Home(tmp_path).furnish(script=SCRIPT, config=PLAIN + TEAM, agents=())
    async with running(Paths.under(home.path), Redactor()) as daemon:
        teammates = daemon.runtime.teammates
        for number, content in enumerate(["leave it", "at once"] * 3):
            await say_to(daemon, content, number)

        async def over() -> bool:
            # Each that was left comes back in a report, and both spawn once more.
            ended = await daemon.storage.store.list_ended_runs(SenderSet(is_everyone=True), limit=100)
            spawned = sorted(run.key.agent for run in ended if run.parent_id)
            done = spawned == ["librarian"] * 9 + ["operator"] * 3
            return done and not teammates.local_runs() and not daemon.runtime.runs.local_lanes()

        await eventually(over)
        deliveries = teammates._deliveries
        kept = (
            teammates._delegations._tallies,
            daemon.runtime.runs._turns._budgets._open,
            deliveries._ready,
            daemon.runtime.live._ended,
            daemon.runtime.live._shown,
        )
        await eventually(lambda: not any(kept))
