"""Measures how often the embedded model does a task, and keeps the transcripts: `./dev test-model --score`.

The tasks of each kind in `tasks`, each in its own folder and conversation. A person beside the run allows the calls
that write the expected files, and denies every other. Files, who called, and the reply are checked. The questions of
`documents` are asked with the documents indexed.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from moot.daemon.paths import Paths
from moot.models.pull import is_pulled, model_file
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, LiveDaemon, running
from tests.model.documents import measure_documents
from tests.model.tasks import (
    ABSENT,
    AGENTS,
    COUNTS,
    DOCUMENTS,
    OPERATOR,
    TARGETS,
    TASKS,
    TEAMMATES,
    TITLES,
    Done,
    Task,
    find_fault,
)
from tests.talking import Talking

CONFIG = """
default_model = "qwen"
[models.qwen]
provider = "local"
model = "qwen"
[agent]
multiAgent = {team}
[listen]
http = "off"
tcp = "off"
[security.interceptor]
sensitive_tools = ["fs_write", "fs_edit", "fs_patch", "exec"]
"""
# A task that takes longer is not done.
TASK_SECONDS = 900.0
_TEAM = (OPERATOR, TEAMMATES)


async def measure(daemon: LiveDaemon, tasks: list[Task], folder: Path) -> list[dict[str, Any]]:
    measured = []
    for number, task in enumerate(tasks, 1):
        name = f"{task.kind}-{number:02}"
        work = folder / name
        work.mkdir(parents=True)
        for file, text in task.files.items():
            (work / file).write_text(text)
        async with daemon.client(patience=TASK_SECONDS) as talk:
            done, facts = await perform(talk, task, name, work)
        fault = find_fault(task, done, work)
        measured.append(facts | {"task": name, "kind": task.kind, "fault": fault})
        traces = [daemon.cli_json("trace", run_id)["data"] for run_id in facts["runs"]]
        told = {"message": task.message, "guest": task.guest, **measured[-1], "reply": done.reply, "traces": traces}
        (folder / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False))
        print(f"{name:<14} {fault or 'ok'}", f"({facts['seconds']:.0f} s)", flush=True)
    return measured


async def perform(talk: Talking, task: Task, sender: str, work: Path) -> tuple[Done, dict[str, Any]]:
    began, done, first = time.monotonic(), Done(), 0.0
    limits = pb.RunLimits(seconds=TASK_SECONDS)
    if task.guest:
        await talk.say("moot", "Good morning! Who are you?", sender, cwd=str(work), limits=limits)
        began = time.monotonic()
    fields = {"guest": task.guest} if task.guest else {}
    speech = talk.start("moot", task.message, sender, cwd=str(work), limits=limits, **fields)
    with suppress(TimeoutError):
        async with asyncio.timeout(TASK_SECONDS):
            while not (speech.is_over and not await talk.active()):
                await decide(talk, task, done)
                first = first or (time.monotonic() - began if speech.of("tool_start") else 0.0)
                await asyncio.sleep(0.2)
    if speech.is_over and speech.error is None:
        done.outcome = speech.outcome
    else:
        await talk.kill("moot", sender)
        done.outcome = "error" if speech.error else "timeout"
    history = (await talk.history("moot", sender)).messages
    spoken = [each for each in history if each.role == "assistant" and each.content.strip()]
    done.reply, done.speaker = (spoken[-1].content, spoken[-1].agent) if spoken else ("", "")
    done.tools = [each.name for each in speech.of("tool_result") if not each.is_error]
    runs = [each.run_id for each in speech.of("start")]
    usage = speech.ended.usage if speech.of("end") else pb.TokenUsage()
    facts = {"seconds": time.monotonic() - began, "first_call": first, "runs": runs, "prompt": usage.prompt}
    return done, facts | {"retries": len(speech.of("retrying"))}


async def decide(talk: Talking, task: Task, done: Done) -> None:
    """Allow the calls that write an expected file, deny all others, and answer questions with a no."""
    for ask in await talk.asks():
        if ask.kind == "question":
            await talk.reply(ask.agent, "No. Say what you have done.", ask.sender)
            continue
        wanted = ask.tool in ("fs_write", "fs_edit") and any(name in ask.line for name in task.result)
        message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="once" if wanted else "deny")
        await talk.ask(decide_ask=message)
        done.allowed += [(ask.speaker, ask.tool, ask.line)] if wanted else []


def make_home(folder: Path, *, team: bool) -> Home:
    """A home that uses the weights where `moot models pull qwen` has put them."""
    pulled = Paths.find(os.environ).data / "models"
    if not is_pulled("qwen", pulled):
        sys.exit("The model is not here. Run: moot models pull qwen")
    home = Home(folder).furnish(config=CONFIG.format(team=str(team).lower()), agents=())
    for name, (description, instruction, prefixes) in AGENTS.items():
        path = home.path / "agents" / name / "AGENT.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"---\nname: {name}\ndescription: {description}\nprefixes: {prefixes}\n---\n{instruction}\n")
    models = home.path / "data" / "models"
    models.mkdir(parents=True)
    (models / model_file("qwen", pulled).name).symlink_to(model_file("qwen", pulled))
    return home


def render_table(measured: list[dict[str, Any]]) -> str:
    lines = [
        "| task | done | target | median seconds | to the first call | prompt tokens |",
        "|---|---|---|---|---|---|",
    ]
    for kind, title in TITLES.items():
        own = [each for each in measured if each["kind"] == kind]
        if own:
            done = f"{sum(not each['fault'] for each in own)} of {len(own)}"
            calls = [each["first_call"] for each in own if each["first_call"]]
            first = f"{_median(calls):.0f}" if calls else "-"
            seconds, tokens = _median([each["seconds"] for each in own]), _median([each["prompt"] for each in own])
            lines.append(
                f"| {title} | {done} | {TARGETS[kind]} of {COUNTS[kind]} | {seconds:.0f} | {first} | {tokens:.0f} |"
            )
    return "\n".join(lines)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev test-model --score", description=__doc__)
    parser.add_argument("--kinds", default=",".join(TITLES), help="only these kinds, separated by commas")
    parser.add_argument("--tasks", type=int, default=max(COUNTS.values()), help="at most how many of each kind")
    parser.add_argument("--first", type=int, default=1, help="the number of the first task of each kind")
    parser.add_argument("--folder", help="where the transcripts are written; a new folder unless given")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="moot-score-")).resolve()
    kinds = options.kinds.split(",")
    measured: list[dict[str, Any]] = []
    for team in (False, True):
        chosen = [
            task
            for kind in kinds
            if (kind in _TEAM) is team
            for task in [each for each in TASKS if each.kind == kind][options.first - 1 :][: options.tasks]
        ]
        if chosen:
            with running(make_home(folder / ("home-team" if team else "home"), team=team)) as daemon:
                measured += asyncio.run(measure(daemon, chosen, folder))
    asked = [kind for kind in kinds if kind in (DOCUMENTS, ABSENT)]
    if asked:
        with running(make_home(folder / "home-documents", team=False)) as daemon:
            measured += asyncio.run(measure_documents(daemon, folder, asked, options.tasks))
    (folder / "score.json").write_text(json.dumps(measured, indent=1))
    print(f"\n{render_table(measured)}\n\nTranscripts: {folder}")


if __name__ == "__main__":
    main()
