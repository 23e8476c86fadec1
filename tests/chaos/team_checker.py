"""Compares a store with a team, and the files its calls left, with what was promised. Has its own SQL."""

import json
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import apsw

from tests.chaos.checker import Key, Line, Talk, read, sound
from tests.chaos.team import Told
from tests.daemon_process import Home

# Tools whose effects are counted; a call of any other may be made again.
EFFECTS = ("fs_mark", "fs_risk")
_REPORT = re.compile(r"^\w[\w-]* \((arun-[0-9a-f]{16})\) has ended: (\w+)\.$", re.MULTILINE)


@dataclass(slots=True)
class Mate:
    """A spawned or background run as it lies in the file."""

    id: str
    key: Key
    root: Key
    parent: str
    parent_key: Key
    call: str
    instruction: str
    status: str
    outcome: str
    allowed: list[str] | None
    ended_at: float
    # The run and the number of the message that showed its result; None where none did.
    delivered: tuple[str, int] | None = None

    def may_use(self, tool: str) -> bool:
        return self.allowed is None or any(fnmatchcase(tool, pattern) for pattern in self.allowed)


@dataclass(slots=True)
class Picture:
    """All of a store that a team has to do with."""

    talks: dict[Key, Talk]
    mates: dict[str, Mate] = field(default_factory=dict)
    # Asks by id: the run, the call, the state and the attempt.
    asks: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    marks: Counter[str] = field(default_factory=Counter)

    def of_run(self, run_id: str, key: Key) -> list[Line]:
        return [line for line in self.talks[key].lines if line.run_id == run_id] if key in self.talks else []

    def under(self, run_id: str) -> Iterator[Mate]:
        for mate in self.mates.values():
            if mate.parent == run_id:
                yield mate
                yield from self.under(mate.id)


def take(home: Home) -> Picture:
    """Read a copy, so that what a dead daemon left is found by the next one as it was."""
    with tempfile.TemporaryDirectory() as folder:
        for path in home.store.parent.glob("moot.db*"):
            shutil.copy(path, folder)
        picture = _read(Path(folder) / home.store.name)
    marks = home.path / "marks.txt"
    picture.marks.update(marks.read_text().split("\n")[:-1] if marks.exists() else ())
    return picture


def _read(path: Path) -> Picture:
    picture = Picture(read(path))
    picture.runs = {run["id"]: run for talk in picture.talks.values() for run in talk.runs}
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for row in db.execute(
            "SELECT runs.id, own.agent, own.sender, runs.root_agent, runs.root_sender, runs.parent_id, above.agent,"
            " above.sender, runs.parent_call, coalesce(messages.content, runs.content, ''), runs.status,"
            " runs.outcome, runs.allowed_tools,"
            " (SELECT json_group_array(tool) FROM asks WHERE run = runs.id AND asks.id LIKE 'grant-%'"
            " AND asks.state IN ('granted', 'used')), runs.ended_at, deliveries.run_id, deliveries.seq FROM runs"
            " JOIN conversations AS own ON own.id = runs.conversation"
            " LEFT JOIN messages ON messages.id = (runs.conversation << 32) + runs.user_seq"
            " LEFT JOIN runs AS parents ON parents.id = runs.parent_id"
            " LEFT JOIN conversations AS above ON above.id = parents.conversation"
            " LEFT JOIN deliveries ON deliveries.item_id = runs.id WHERE runs.kind <> 'turn' ORDER BY runs.number"
        ):
            fields: tuple[Any, ...] = row
            allowed = None if fields[12] is None else [*json.loads(fields[12]), *json.loads(fields[13])]
            picture.mates[fields[0]] = Mate(
                fields[0], (fields[1], fields[2]), (fields[3], fields[4]), fields[5], (fields[6], fields[7]), fields[8],
                fields[9], fields[10], fields[11], allowed, fields[14],
                None if fields[15] is None else (fields[15], fields[16]),
            )  # fmt: skip
        names = ("run", "call", "state", "attempt", "tool", "kind")
        for ask_id, *values in db.execute(f"SELECT id, {', '.join(names)} FROM asks"):
            picture.asks[ask_id] = dict(zip(names, values, strict=True))
    finally:
        db.close()
    return picture


# ---- what must become of what a dead daemon left ----------------------------------------------------


def unknown_calls(picture: Picture, mate: Mate) -> list[str]:
    """Calls of which nobody can know whether they were made."""
    lines = picture.of_run(mate.id, mate.key)
    answered = {line.call_id for line in lines if line.role == "tool"}
    # A call that was refused, or that nobody has decided about in time, was not made either.
    unused = ("pending", "granted", "denied", "expired")
    waiting = {ask["call"] for ask in picture.asks.values() if ask["run"] == mate.id and ask["state"] in unused}
    return [
        call["id"]
        for line in lines
        for call in line.calls
        if call["name"] in EFFECTS
        and call["id"] not in answered | waiting
        # What a run was not allowed it cannot have begun.
        and mate.may_use(call["name"])
    ]


def fates(picture: Picture) -> dict[str, str]:
    """For each run that has not ended: interrupted, cancelled, what it ended with already, or `goes on`."""
    return {mate.id: _fate(picture, mate) for mate in picture.mates.values() if mate.status != "ended"}


def _fate(picture: Picture, mate: Mate) -> str:
    if unknown_calls(picture, mate):
        return "interrupted"
    above = picture.runs.get(mate.parent)
    while above is not None:
        if above["outcome"] == "cancelled":
            return "cancelled"
        parent = picture.mates.get(above["id"])
        above = picture.runs.get(parent.parent) if parent is not None else None
    return "goes on"


def turns_left(picture: Picture) -> dict[str, str]:
    """For each turn of a person's that was under way: `goes on` where teammates work for it or their results are owed
    to it, else interrupted.

    The orchestrator itself makes no call that could not be made again.
    """
    undelivered = owed(picture)
    leading = {mate.parent for mate in picture.mates.values() if mate.status != "ended" or mate.id in undelivered}
    return {
        run["id"]: "goes on" if run["id"] in leading else "interrupted"
        for run in picture.runs.values()
        if run["status"] == "running" and run["id"] not in picture.mates
    }


def _turns(dead: Picture, now: Picture) -> Iterator[str]:
    """A turn that went on has ended, and has given one answer; one that could not says so."""
    keys = {run["id"]: talk.key for talk in now.talks.values() for run in talk.runs}
    for run_id, fate in turns_left(dead).items():
        outcome = now.runs[run_id]["outcome"]
        answers = [line for line in now.of_run(run_id, keys[run_id]) if line.role == "assistant" and not line.calls]
        if fate == "interrupted" and outcome != fate:
            yield f"the turn {run_id} should be interrupted, and is {outcome!r}"
        # A turn whose teammates were all denied ends as denied, with an answer that says so.
        elif fate == "goes on" and (outcome not in ("completed", "denied") or len(answers) != 1):
            yield f"the turn {run_id} could have gone on, and is {outcome!r} with {len(answers)} answers"


def continued(dead: Picture, risen: Picture, pending: dict[str, int]) -> Iterator[str]:
    """What was asked before is asked after, under the same id; `pending` is what the new daemon says is asked."""
    fate = fates(dead)
    for ask_id, ask in dead.asks.items():
        mate = dead.mates.get(ask["run"])
        if ask["state"] != "pending" or mate is None:
            continue
        ended = fate.get(mate.id, "ended") != "goes on"
        now = risen.asks[ask_id]
        if ended and now["state"] == "pending":
            yield f"{ask_id} is asked for a run that has ended"
        elif not ended and (now["state"] != "pending" or now["attempt"] != ask["attempt"]):
            yield f"{ask_id} was pending at attempt {ask['attempt']} and is {now['state']} at {now['attempt']}"
        elif not ended and pending.get(ask_id) != ask["attempt"]:
            yield f"{ask_id} is pending in the store, and the daemon says {pending.get(ask_id)}"


def asked_again(dead: Picture, seen: set[str]) -> Iterator[str]:
    """What a run asked a person before, and has no answer to, it asks after under the same id."""
    for run_id, fate in fates(dead).items():
        lines = dead.of_run(run_id, dead.mates[run_id].key)
        answered = {line.call_id for line in lines if line.role == "tool"}
        for call in [call for line in lines for call in line.calls if call["id"] not in answered]:
            ask_id = f"ask-{run_id}-{call['id']}-1"
            # One whose answer was stored before the kill goes on with that.
            is_answered = dead.asks.get(ask_id, {}).get("state") == "answered"
            if call["name"] == "ask_user" and fate == "goes on" and ask_id not in seen and not is_answered:
                yield f"{run_id} asked with {call['id']} and does not ask again"


def fulfilled(dead: Picture, now: Picture) -> Iterator[str]:
    """Each run came to what its state at the kill said it must."""
    yield from _turns(dead, now)
    for run_id, fate in fates(dead).items():
        outcome = now.mates[run_id].outcome
        if fate == "goes on":
            if outcome == "interrupted":
                yield f"{run_id} ({now.mates[run_id].instruction}) could have gone on, and was interrupted"
        elif outcome != fate and not (fate == "interrupted" and outcome == "cancelled"):
            yield f"{run_id} ({now.mates[run_id].instruction}) should be {fate}, and is {outcome!r}"
    for mate in dead.mates.values():
        if mate.status == "ended" and mate.outcome != now.mates[mate.id].outcome:
            yield f"{mate.id} had ended {mate.outcome}, and is {now.mates[mate.id].outcome}"


# ---- what holds once everything is quiet ------------------------------------------------------------


def check(home: Home, told: Told) -> list[str]:
    """Everything that is wrong, one sentence each. The daemon is up and idle, and nothing is left to decide."""
    picture = take(home)
    problems = [*told.surprises, *(f"in the log: {failure}" for failure in home.failures())]
    for talk in picture.talks.values():
        problems += [f"{' as '.join(talk.key)}: {problem}" for problem in sound(talk)]
    problems += [*_ends(picture), *_marks(picture), *_asks(picture), *_spawns(picture)]
    problems += [problem for mate in picture.mates.values() for problem in _delivery(picture, mate, told)]
    problems += [f"{run_id} was told to exist and does not" for run_id in told.begun - picture.mates.keys()]
    problems += [f"{run_id} was told as spawned and is not" for run_id in told.spawned - picture.mates.keys()]
    return problems


def _ends(picture: Picture) -> Iterator[str]:
    for mate in picture.mates.values():
        if mate.status != "ended" or not mate.outcome:
            yield f"{mate.id} is {mate.status} {mate.outcome}"
        elif not picture.runs[mate.id]["started_at"] and mate.outcome != "cancelled":
            yield f"{mate.id} never ran, and is {mate.outcome}"
    for run in picture.runs.values():
        if run["outcome"] != "cancelled":
            continue
        for mate in picture.under(run["id"]):
            # One that was about to end may do so while it is being stopped.
            if mate.outcome != "cancelled" and mate.ended_at > run["ended_at"] + 1.0:
                yield f"{mate.id} ended {mate.outcome} long after {run['id']} above it was stopped"


def _marks(picture: Picture) -> Iterator[str]:
    """An effect is had at most once a call, exactly once where a result says so, and never where it was refused."""
    intents: set[str] = set()
    for talk in picture.talks.values():
        for line in talk.lines:
            for result, call in zip(talk.lines[line.seq :], line.calls, strict=False):
                mark = f"{line.run_id} {call['id']}"
                if call["name"] not in EFFECTS:
                    continue
                intents.add(mark)
                times = picture.marks[mark]
                if times > 1:
                    yield f"a call was made {times} times: {mark}"
                if not result.is_error and times != 1:
                    yield f"a result says that {mark} was made, and it was not"
                if result.is_error and times and "interrupted" not in result.content:
                    yield f"{mark} was made, and its result is {result.content!r}"
    for mark in picture.marks.keys() - intents:
        yield f"a call was made before it was recorded: {mark}"


def _asks(picture: Picture) -> Iterator[str]:
    for ask_id, ask in picture.asks.items():
        if ask["state"] in ("pending", "granted"):
            yield f"{ask_id} is still {ask['state']}, and its run has ended"


def _spawns(picture: Picture) -> Iterator[str]:
    """Each spawn that was answered has its run, and each run the one call that made it."""
    by_call = {(mate.parent, mate.call): mate.id for mate in picture.mates.values() if mate.call}
    for talk in picture.talks.values():
        for line in talk.lines:
            for result, call in zip(talk.lines[line.seq :], line.calls, strict=False):
                if call["name"] == "agent_spawn" and result.role == "tool" and not result.is_error:
                    given = json.loads(result.content)["agent_id"]
                    if by_call.get((line.run_id, call["id"])) != given:
                        yield f"{line.run_id} was told it spawned {given}"


def _delivery(picture: Picture, mate: Mate, told: Told) -> Iterator[str]:
    """A result goes to one place, once: to a wait of the parent's, or into one message."""
    reports = _reports(picture)[mate.id]
    waited = mate.id in _waited(picture.of_run(mate.parent, mate.parent_key))
    where = f"{mate.id} ({mate.instruction}, {mate.outcome})"
    if mate.delivered is None:
        if reports or (mate.parent and not _is_dropped(picture, mate, told)):
            yield f"{where} was delivered to nobody, and told in {reports} messages"
    elif not _shows(picture, mate):
        yield f"{where} was delivered by a message that does not show it"
    elif len(reports) + waited > 1:
        yield f"{where} was told in {reports} messages, and waited for: {waited}"
    if any(outcome != mate.outcome for outcome in reports):
        yield f"{where} was told as {reports}"


def _is_dropped(picture: Picture, mate: Mate, told: Told) -> bool:
    """Whether it was stopped by the one above it, or with it, or by a person: nobody wants to hear how it ended."""
    above: Mate | None = mate
    while above is not None:
        run = picture.runs.get(above.parent)
        stops = [call for line in picture.of_run(above.parent, above.parent_key) for call in line.calls]
        if (
            (run is not None and run["outcome"] == "cancelled")
            or above.parent in told.stopped
            or any(call["name"] == "agent_stop" and above.id in call["arguments"] for call in stops)
        ):
            return True
        above = picture.mates.get(above.parent)
    return False


def owed(picture: Picture) -> list[str]:
    """The runs that have ended, whose result their parents want and nobody has shown."""
    return [
        mate.id
        for mate in picture.mates.values()
        if mate.status == "ended" and mate.parent and mate.delivered is None and not _stopped_together(picture, mate)
    ]


def _stopped_together(picture: Picture, mate: Mate) -> bool:
    above = picture.runs.get(mate.parent)
    return mate.outcome == "cancelled" and above is not None and above["outcome"] == "cancelled"


def _shows(picture: Picture, mate: Mate) -> bool:
    """Whether the message that is on record as the delivery is there and names the run."""
    assert mate.delivered is not None
    run_id, seq = mate.delivered
    lines = (line for talk in picture.talks.values() for line in talk.lines if line.run_id == run_id)
    return any(line.seq == seq and mate.id in line.content for line in lines)


def _reports(picture: Picture) -> dict[str, list[str]]:
    told: dict[str, list[str]] = defaultdict(list)
    for talk in picture.talks.values():
        for line in talk.lines:
            if line.role == "user" and line.agent:
                for run_id, outcome in _REPORT.findall(line.content):
                    told[run_id].append(outcome)
    return told


def _waited(lines: Iterable[Line]) -> set[str]:
    """The runs whose end the waits of a run have told."""
    names: dict[str, str] = {}
    told: set[str] = set()
    for line in lines:
        names |= {call["id"]: call["name"] for call in line.calls}
        if line.role == "tool" and names.get(line.call_id) == "agent_wait" and not line.is_error:
            said = json.loads(line.content)
            told |= {view["agent_id"] for view in said.get("runs", [said]) if "outcome" in view}
    return told
