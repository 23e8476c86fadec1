"""Schedules and workflows: what 10,000 jobs cost, how late a firing is, and what a step of a workflow adds."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from bench.line import Line, connect
from bench.subject import MODEL, Daemon, make_home
from moot.wire import moot_pb2 as pb

JOBS = 10_000
STEPS = 1_000
WORKFLOWS, STEPS_EACH = 100, 5
_PLACES = 8
_STARTS = 3
_IDLE_SECONDS = 3.0
_CONFIG = "\n[agent]\nmaxRunning = {places}\n[workflow]\nmax_parallel = {places}\n"
_AGENT = "---\nname: {name}\ndescription: Measured.\nmodel: {name}\n---\nYou are a helpful assistant.\n"
# How long the model of each agent takes, in milliseconds: a step, and what keeps all places until all have begun.
_LATENCIES = {"slow": 20, "first": 8_000}


class Automated:
    """What one repeat measured, in seconds; starts in seconds of processor time."""

    def __init__(self) -> None:
        self.start_without: list[float] = []
        self.start_with: list[float] = []
        self.idle_without: list[float] = []
        self.idle_with: list[float] = []
        self.late: list[float] = []
        # Seconds for a step of a workflow, and for a background run; the same of processor time.
        self.step = self.run = self.step_cpu = self.run_cpu = 0.0
        # When the first of many workflows has ended, as a part of the time until the last has.
        self.fairness = 0.0


async def measure_automation(folder: Path, base: str, *, moot: Path) -> Automated:
    found = Automated()
    without, many = (_make_home(folder / name, base) for name in ("without", "with"))
    for home in (without, many):
        # The first start on a home makes its store.
        await (await Daemon.start(home, moot=moot)).stop()
    await asyncio.to_thread(_add_jobs, many / "data" / "moot.db", JOBS)
    for number in range(_STARTS):
        is_last = number == _STARTS - 1
        found.start_without.append(await _measure_start(without, moot, found.idle_without if is_last else None))
        found.start_with.append(await _measure_start(many, moot, found.idle_with if is_last else None))
    await _measure_firing(many, moot, found.late)
    await _measure_workflows(without, moot, found)
    return found


def _make_home(folder: Path, base: str) -> Path:
    home = make_home(folder, base)
    models = ""
    for name, latency in _LATENCIES.items():
        (home / "agents" / name).mkdir()
        (home / "agents" / name / "AGENT.md").write_text(_AGENT.format(name=name), encoding="utf-8")
        models += MODEL.format(name=name, base=base, options=f"/l{latency}")
    with (home / "config.toml").open("a", encoding="utf-8") as config:
        config.write(models + _CONFIG.format(places=_PLACES))
    return home


async def _measure_start(home: Path, moot: Path, idle: list[float] | None) -> float:
    """Return the processor time until a daemon is ready; add what it uses for doing nothing, if that is wanted."""
    daemon = await Daemon.start(home, moot=moot)
    used = daemon.cpu()
    if idle is not None:
        await asyncio.sleep(1.0)
        before = daemon.cpu()
        await asyncio.sleep(_IDLE_SECONDS)
        idle.append((daemon.cpu() - before) / _IDLE_SECONDS)
    await daemon.stop()
    return used


def _add_jobs(store: Path, count: int) -> None:
    """Put so many jobs that are due tomorrow into a store."""
    db = apsw.Connection(str(store))
    numbers = f"WITH RECURSIVE jobs (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM jobs WHERE n < {count})"
    with db:
        db.execute(
            "INSERT INTO cron_jobs (id, agent, sender, name, runs_as, prompt, workflow, schedule_kind, schedule, zone,"
            " conversation_mode, missed, delivers, cwd, search_path, taint, created_at, updated_at, paused, next_at)"
            f" {numbers} SELECT 'cron-' || n, 'bench', 'many', 'job ' || n, 'bench', 'Say something.', '', 'cron',"
            " '0 8 * * *', 'Europe/Berlin', 'isolated', 'once', 0, '', '', '[]', 1.0, 1.0, 0, ? + n FROM jobs",
            (time.time() + 86_400,),
        )
    db.close()


async def _measure_firing(home: Path, moot: Path, late: list[float]) -> None:
    """Add how long after its time the run of a job begins."""
    daemon = await Daemon.start(home, moot=moot)
    try:
        async with connect(daemon.socket) as line:
            for number in range(5):
                due = datetime.now(UTC) + timedelta(seconds=0.5)
                asked = pb.SaveCronJobMsg(
                    agent="bench", name=f"soon {number}", prompt="Say.", schedule_type="at", schedule=due.isoformat()
                )
                await line.request(pb.ClientMessage(save_cron_job=asked))
                await asyncio.sleep(0.8)
                wanted = pb.ListFiringsMsg(job=f"soon {number}")
                (firing,) = (await line.request(pb.ClientMessage(list_firings=wanted))).firings.firings
                late.append(firing.started_at - due.timestamp())
    finally:
        await daemon.stop()


async def _measure_workflows(home: Path, moot: Path, found: Automated) -> None:
    daemon = await Daemon.start(home, moot=moot)
    try:
        async with connect(daemon.socket) as line:
            await _run_workflow(line, 50)
            used, started = daemon.cpu(), time.perf_counter()
            await _run_background(daemon.socket, STEPS)
            found.run = (time.perf_counter() - started) / STEPS
            found.run_cpu = (daemon.cpu() - used) / STEPS
            used, started = daemon.cpu(), time.perf_counter()
            await _run_workflow(line, STEPS)
            found.step = (time.perf_counter() - started) / STEPS
            found.step_cpu = (daemon.cpu() - used) / STEPS
            found.fairness = await _measure_fairness(line)
    finally:
        await daemon.stop()


def _make_flow(steps: int, agent: str, *, chains: int) -> str:
    """Steps in chains that run beside each other, each given the result of the one before it."""
    made: list[dict[str, object]] = []
    for number in range(steps):
        step: dict[str, object] = {"id": f"s{number}", "agent": agent, "prompt": "Say something."}
        if number >= chains:
            before = f"s{number - chains}"
            step |= {"prompt": f"Say something about: {{{{{before}.result}}}}", "depends_on": [before]}
        made.append(step)
    return json.dumps({"name": "measured", "max_parallel": _PLACES, "steps": made})


async def _run_workflow(line: Line, steps: int) -> None:
    started = pb.StartWorkflowMsg(source=_make_flow(steps, "bench", chains=_PLACES))
    run = (await line.request(pb.ClientMessage(start_workflow=started))).workflow_run
    while not run.ended_at:
        # Only the end is waited for: what it shows meanwhile is not what is measured.
        await asyncio.sleep(0.02)
        listed = pb.ListWorkflowRunsMsg(limit=1)
        run = (await line.request(pb.ClientMessage(list_workflow_runs=listed))).workflow_runs.runs[0]
    if run.status != "completed":
        raise RuntimeError(f"the workflow ended {run.status}: {run.error}")


async def _run_background(socket: Path, count: int) -> None:
    """The same number of runs without a workflow, as many at once."""
    left = count

    async def work() -> None:
        nonlocal left
        async with connect(socket) as line:
            while left > 0:
                left -= 1
                asked = pb.StartRunMsg(agent="bench", content="Say something.")
                run = (await line.request(pb.ClientMessage(start_run=asked))).run
                waited = pb.WaitRunsMsg(run_ids=[run.run_id], seconds=60.0)
                await line.request(pb.ClientMessage(wait_runs=waited))

    async with asyncio.TaskGroup() as group:
        for _ in range(_PLACES):
            group.create_task(work())


async def _measure_fairness(line: Line) -> float:
    """Many workflows that get places at the same moment: how far apart the first and the last end."""
    blocking = pb.StartWorkflowMsg(source=_make_flow(_PLACES, "first", chains=_PLACES), sender="first")
    first = (await line.request(pb.ClientMessage(start_workflow=blocking))).workflow_run.run_id
    source = _make_flow(STEPS_EACH, "slow", chains=STEPS_EACH)
    for _ in range(WORKFLOWS):
        await line.request(pb.ClientMessage(start_workflow=pb.StartWorkflowMsg(source=source, sender="fair")))
    listed = pb.ClientMessage(list_workflow_runs=pb.ListWorkflowRunsMsg(sender="fair", limit=WORKFLOWS))
    while True:
        runs = (await line.request(listed)).workflow_runs.runs
        if all(run.ended_at for run in runs):
            break
        await asyncio.sleep(0.05)
    blocked = (await line.request(pb.ClientMessage(get_workflow_run=pb.GetWorkflowRunMsg(run_id=first)))).workflow_run
    ends = [run.ended_at - blocked.ended_at for run in runs]
    return min(ends) / max(ends)
