"""What people do with schedules, background tasks and workflows while their daemon is killed."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.chaos.ledger import lost
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home
from tests.scripting import call, say, script
from tests.talking import Talking

ACT_SECONDS = 3.0
CONFIG = PLAIN + '[security.interceptor]\npolicy = "configured"\nsensitive_tools = ["sign"]\n'
TOOLS = '''
from pathlib import Path

from moot.tools import tool


def add(file: str, text: str) -> None:
    with open(Path(__file__).parent.parent / file, "a") as out:
        out.write(text + "\\n")


@tool(safety="moderate")
async def mark(key: str) -> str:
    """Add a line to a file.

    Args:
        key: The line.
    """
    add("marks.txt", key)
    return "marked"


@tool(safety="moderate")
async def sign(key: str) -> str:
    """Add a line to a file, which is asked about before.

    Args:
        key: The line.
    """
    add("marks.txt", key)
    return "signed"
'''
SCRIPT = script(
    {"match": r"^call (?P<tool>\w+) (?P<args>.*)", "steps": [call("{tool}", "{args}"), say("Called: {result}")]},
    {"match": r"^mark (?P<key>\S+)", "steps": [call("mark", key="{key}"), say("marked {key}")]},
    {"match": r"^sign (?P<key>\S+)", "steps": [call("sign", key="{key}"), say("signed {key}")]},
    {"match": "^shaky", "error": "it broke, as it was told", "times": 2},
    {"match": "has ended", "reply": "Told."},
    {"reply": "Done."},
)


def new_home(path: Path) -> Home:
    home = Home(path).furnish(script=SCRIPT, config=CONFIG, agents=("ada",))
    (home.path / "tools").mkdir()
    (home.path / "tools" / "marks.py").write_text(TOOLS)
    return home


@dataclass(slots=True)
class Told:
    """What people were told: jobs and workflow runs that exist, tasks that were submitted, cancellations."""

    counter: int = 0
    jobs: set[str] = field(default_factory=set)
    workflows: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    surprises: list[str] = field(default_factory=list)

    def next(self) -> int:
        self.counter += 1
        return self.counter


class People:
    """Act on one daemon. An act ends when the daemon does."""

    def __init__(self, talk: Talking, told: Told, rng: Random) -> None:
        self.talk = talk
        self.told = told
        self.rng = rng

    async def perform(self, acts: list[str]) -> None:
        """All at once; meanwhile somebody approves what is asked."""
        async with asyncio.TaskGroup() as group:
            deciding = group.create_task(self.approve_all())
            await asyncio.wait([group.create_task(self._do(act, f"one-{at}")) for at, act in enumerate(acts)])
            deciding.cancel()

    async def _do(self, act: str, sender: str) -> None:
        try:
            async with asyncio.timeout(ACT_SECONDS):
                await ACTS[act](self, sender)
        except MootError as error:
            if not lost(error) and error.message != "the daemon is stopping":
                self.told.surprises.append(f"{act}: {error.type}: {error.message}")
        except TimeoutError:
            return

    async def schedule(self, sender: str) -> None:
        """A job that is due in a moment."""
        await self._add_job(sender, prompt=f"mark cron-{self.told.next()}")

    async def schedule_workflow(self, sender: str) -> None:
        await self._add_job(sender, workflow=make_flow(self.told.next()))

    async def _add_job(self, sender: str, **what: str) -> None:
        due = datetime.now(UTC) + timedelta(seconds=self.rng.uniform(0.1, 0.5))
        name = f"job {self.told.next()}"
        asked = pb.SaveCronJobMsg(
            agent="ada", sender=sender, name=name, schedule_type="at", schedule=due.isoformat(), **what
        )
        saved = (await self.talk.ask(save_cron_job=asked)).cron_jobs.jobs[0]
        self.told.jobs.add(saved.job_id)
        await asyncio.sleep(0.7)

    async def submit(self, sender: str) -> None:
        arguments = json.dumps({"prompt": f"mark bg-{self.told.next()}"})
        speech = self.talk.start("ada", f"call bg_submit {arguments}", sender)
        try:
            await speech.end()
        finally:
            for result in speech.of("tool_result"):
                if "task_id" in result.output:
                    self.told.tasks.add(json.loads(result.output)["task_id"])
        await asyncio.sleep(0.3)

    async def run_workflow(self, sender: str) -> None:
        await self._start(sender)
        await asyncio.sleep(0.5)

    async def cancel_workflow(self, sender: str) -> None:
        run_id = await self._start(sender)
        await asyncio.sleep(self.rng.uniform(0.0, 0.3))
        try:
            await self.talk.ask(cancel_workflow=pb.CancelWorkflowMsg(run_id=run_id))
            self.told.cancelled.add(run_id)
        except MootError as error:
            if error.type != "not_found":
                raise

    async def _start(self, sender: str) -> str:
        source = make_flow(self.told.next(), approves=True)
        asked = pb.StartWorkflowMsg(source=source, sender=sender, report_to="ada")
        run = (await self.talk.ask(start_workflow=asked)).workflow_run
        self.told.workflows.add(run.run_id)
        return str(run.run_id)

    async def approve_all(self) -> None:
        with suppress(MootError):
            while True:
                for ask in await self.talk.asks():
                    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="once")
                    with suppress(MootError):
                        await self.talk.ask(decide_ask=message)
                await asyncio.sleep(0.02)


def make_flow(number: int, *, approves: bool = False) -> str:
    """A diamond whose steps have effects; one is asked about, and one fails at first."""
    verb = "sign" if approves else "mark"
    steps = [
        {"id": "a", "prompt": f"mark wf-{number}-a"},
        {"id": "b", "prompt": f"{verb} wf-{number}-b {{{{a.result}}}}", "depends_on": ["a"]},
        {"id": "c", "prompt": "shaky", "depends_on": ["a"], "retry": {"attempts": 4, "delay": "0.01s"}},
        {"id": "d", "prompt": f"mark wf-{number}-d {{{{b.result}}}} {{{{c.result}}}}", "depends_on": ["b", "c"]},
    ]
    return json.dumps({"name": f"flow-{number}", "steps": steps})


Act = Callable[[People, str], Awaitable[None]]
ACTS: dict[str, Act] = {
    "schedule": People.schedule,
    "schedule workflow": People.schedule_workflow,
    "submit": People.submit,
    "run": People.run_workflow,
    "cancel": People.cancel_workflow,
}


def act_for(point: str) -> str:
    """Which act comes by a point."""
    if point.startswith("cron.") or point.endswith((".fire", ".cron")):
        return "schedule"
    if "workflow" in point:
        return "cancel" if "cancelled" in point else "run"
    return "submit"
