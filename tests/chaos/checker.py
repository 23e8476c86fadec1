"""Compares a store with the ledger of what clients were told. Has its own SQL and shares no code with the store."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw

from tests.chaos.ledger import VANISHING, Ledger, Sent
from tests.daemon_process import Home

Key = tuple[str, str]

# Said to a speaker for one run; none of it may ever be found in the files.
FRAMING = (
    b"a guest in a conversation between", b"Guests take part in this conversation", b"moot:compaction",
    b"Your working directory for this turn", b"<from agent=", b"<archived-summary>", b"Write the summary now",
    b"No tool was run:",
)  # fmt: skip


@dataclass(slots=True)
class Line:
    seq: int
    role: str
    content: str
    agent: str
    calls: list[dict[str, Any]]
    call_id: str
    is_error: bool
    run_id: str


@dataclass(slots=True)
class Talk:
    """One conversation as it lies in the file."""

    key: Key
    title: str
    last_seq: int
    archived_seq: int
    archive_count: int
    cwd: str
    lines: list[Line] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    archives: list[tuple[int, int, int, str]] = field(default_factory=list)


def read(path: Path) -> dict[Key, Talk]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(5_000)
        db.execute("PRAGMA query_only = ON")
        db.execute("BEGIN")
        talks: dict[int, Talk] = {}
        for number, agent, sender, *rest in db.execute(
            "SELECT id, agent, sender, title, last_seq, archived_seq, archives, cwd FROM conversations"
        ):
            talks[number] = Talk((agent, sender), *rest)
        for identity, role, content, agent, calls, call_id, is_error, run_id in db.execute(
            "SELECT id, role, content, agent, tool_calls, tool_call_id, is_error, run_id FROM messages ORDER BY id"
        ):
            line = Line(
                identity & 0xFFFFFFFF, role, content, agent, json.loads(calls) if calls else [], call_id,
                bool(is_error), run_id,
            )  # fmt: skip
            talks[identity >> 32].lines.append(line)
        columns = "id, speaker, status, user_seq, outcome, content, client_message_id, started_at, ended_at, number"
        for number, *values in db.execute(f"SELECT conversation, {columns} FROM runs ORDER BY number"):
            talks[number].runs.append(dict(zip(columns.split(", "), values, strict=True)))
        for number, *archive in db.execute(
            "SELECT conversation, number, first_seq, last_seq, title FROM archives ORDER BY number"
        ):
            talks[number].archives.append(tuple(archive))
        return {talk.key: talk for talk in talks.values()}
    finally:
        db.close()


def check(home: Home, ledger: Ledger) -> list[str]:
    """Everything that is wrong, one sentence each. The daemon is up and idle."""
    talks = read(home.store)
    problems = [*ledger.surprises, *_file(home), *_notes(home, talks)]
    for talk in talks.values():
        where = " as ".join(talk.key)
        problems += [f"{where}: {problem}" for problem in sound(talk)]
    problems += _messages(ledger, talks)
    problems += _whole(ledger, talks)
    return problems


def sound(talk: Talk) -> Iterator[str]:
    """What is wrong with a conversation by itself: order, ends, pairs of calls and results, archives."""
    yield from _order(talk)
    yield from _runs(talk)
    yield from _tools(talk)
    yield from _archives(talk)


def _file(home: Home) -> Iterator[str]:
    db = apsw.Connection(str(home.store), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for (answer,) in db.execute("PRAGMA integrity_check"):
            if answer != "ok":
                yield f"integrity: {answer}"
    finally:
        db.close()
    raw = home.on_disk()
    for framing in FRAMING:
        if framing in raw:
            yield f"framing is on disk: {framing.decode()}"


def _notes(home: Home, talks: dict[Key, Talk]) -> Iterator[str]:
    """A tool had its effect at most once a call, and exactly once where a result says so."""
    path = home.path / "notes.txt"
    written = Counter(path.read_text().split("\n")[:-1]) if path.exists() else Counter[str]()
    for wrote, times in written.items():
        if times > 1:
            yield f"a call was made {times} times: {wrote}"
    intents: set[str] = set()
    for talk in talks.values():
        for line in talk.lines:
            # Results stand right behind their calls; an id may come again in a later turn.
            for result, call in zip(talk.lines[line.seq :], line.calls, strict=False):
                if call["name"] != "note":
                    continue
                note = f"{line.run_id} {json.loads(call['arguments'])['number']}"
                intents.add(note)
                if result.role == "tool" and not result.is_error and written[note] != 1:
                    yield f"a result says that {note} was written, and it was not"
    for wrote in written:
        if wrote not in intents:
            yield f"a call was made before it was recorded: {wrote}"


def _order(talk: Talk) -> Iterator[str]:
    seqs = [line.seq for line in talk.lines]
    if seqs != list(range(1, len(seqs) + 1)) or talk.last_seq != len(seqs):
        yield f"seqs are {seqs[:50]} and the last should be {talk.last_seq}"


def _runs(talk: Talk) -> Iterator[str]:
    roles = {line.seq: line.role for line in talk.lines}
    began = sorted((run for run in talk.runs if run["user_seq"]), key=lambda run: (run["user_seq"], run["number"]))
    for run in talk.runs:
        if run["status"] != "ended":
            yield f"run {run['id']} is {run['status']}"
        elif not run["outcome"]:
            yield f"run {run['id']} has no outcome"
        if run["user_seq"] and roles.get(run["user_seq"]) != "user":
            yield f"run {run['id']} points at seq {run['user_seq']}, which is no user message"
    for before, after in pairwise(began):
        if after["started_at"] < before["ended_at"]:
            yield f"runs {before['id']} and {after['id']} overlap"
    owned = {run["user_seq"] for run in began}
    for line in talk.lines:
        if line.role == "user" and line.run_id and line.seq not in owned:
            yield f"the user message {line.seq} has no run"
    ids = Counter(run["client_message_id"] for run in talk.runs if run["client_message_id"])
    for message_id, times in ids.items():
        if times > 1:
            yield f"message id {message_id} stands on {times} runs"


def _tools(talk: Talk) -> Iterator[str]:
    """Every call has its result right behind it, in call order, and no result is without a call."""
    expected: list[str] = []
    for line in talk.lines:
        if line.role == "tool":
            if not expected or line.call_id != expected[0]:
                yield f"seq {line.seq} is a result of {line.call_id}, expected {expected[:1]}"
            expected = expected[1:]
        elif expected:
            yield f"seq {line.seq} stands where results of {expected} belong"
            expected = []
        if line.calls:
            expected = [call["id"] for call in line.calls]
    if expected:
        yield f"the calls {expected} have no result"


def _archives(talk: Talk) -> Iterator[str]:
    after = 0
    for place, (number, first, last, title) in enumerate(talk.archives, start=1):
        if number != place or first != after + 1 or last < first or not title:
            yield f"archive {number} covers {first}..{last} after {after}"
        after = last
    if (after, len(talk.archives)) != (talk.archived_seq, talk.archive_count):
        yield f"archives end at {after}, the conversation says {talk.archived_seq}"


def _messages(ledger: Ledger, talks: dict[Key, Talk]) -> Iterator[str]:
    found: dict[tuple[Key, str], list[int]] = defaultdict(list)
    for talk in talks.values():
        for line in talk.lines:
            if line.role == "user":
                found[talk.key, line.content].append(line.seq)
    last: dict[Key, tuple[int, int]] = {}
    for sent in ledger.sent:
        seqs = found[sent.key, sent.content]
        held = talks.get(sent.key)
        given_up = held is not None and any(
            not run["user_seq"] and run["outcome"] and run["content"] == sent.content for run in held.runs
        )
        problems = _message(sent, seqs, held, given_up=given_up)
        yield from (f"{sent.agent} as {sent.sender} {sent.content!r}: {problem}" for problem in problems)
        if seqs and held is not None:
            # Sent again after others have spoken, it stands there once more, and that time it was answered.
            yield from (f"{sent.content!r}: {problem}" for problem in _turn(sent, seqs[-1], held, ledger))
            order, seq = last.get(sent.key, (0, 0))
            if seqs[0] <= seq:
                yield f"{sent.content!r} was sent after {order} and stands before it"
            last[sent.key] = (sent.order, seqs[0])


def _message(sent: Sent, seqs: list[int], talk: Talk | None, *, given_up: bool) -> Iterator[str]:
    if len(seqs) > 1 and talk is not None:
        yield from (f"stored at {seqs}, {problem}" for problem in _repeats(sent, seqs, talk))
    if not sent.seqs <= set(seqs):
        yield f"acknowledged at {sorted(sent.seqs)}, stored at {seqs}"
    if seqs and sent.refusal in ("not_found", "busy"):
        yield f"refused as {sent.refusal}, and stored at {seqs}"
    if seqs and sent.withdrawn:
        yield f"withdrawn, and stored at {seqs}"
    may_be_given_up = sent.agent.startswith(VANISHING) or sent.withdrawn is not False
    if sent.queued and not seqs and not (given_up and may_be_given_up):
        yield "acknowledged as queued, and gone"


def _repeats(sent: Sent, seqs: list[int], talk: Talk) -> Iterator[str]:
    """What is wrong with a message that is stored more than once.

    That is right only where it was sent again under its id, had not been answered, and others spoke after it or it
    was archived: an answer belongs behind its question.
    """
    if not sent.message_id:
        yield "and sent without an id"
    if len(seqs) > sent.attempts:
        yield f"and sent {sent.attempts} times"
    if sent.outcome and seqs[-1] not in sent.seqs:
        yield f"and acknowledged at {sorted(sent.seqs)} alone"
    for before, after in pairwise(seqs):
        followed = any(line.role == "user" for line in talk.lines[before : after - 1])
        archived = any(before <= last < after for _, _, last, _ in talk.archives)
        if not followed and not archived:
            yield f"and nobody spoke between {before} and {after}"
        if any(run["user_seq"] == before and run["outcome"] == "completed" for run in talk.runs):
            yield f"and answered at {before}"


def _turn(sent: Sent, seq: int, talk: Talk, ledger: Ledger) -> Iterator[str]:
    runs = [run for run in talk.runs if run["user_seq"] == seq]
    if not runs:
        return
    run = runs[-1]
    if sent.outcome and sent.outcome != run["outcome"]:
        yield f"told to have ended {sent.outcome}, stored as {run['outcome']}"
    if run["speaker"] != (sent.guest or sent.agent):
        yield f"answered by {run['speaker']}"
    ids = {each["id"] for each in runs}
    replies = [line for line in talk.lines if line.run_id in ids and line.role == "assistant"]
    if any(line.agent != sent.guest for line in replies):
        yield f"attributed to {[line.agent for line in replies]}"
    if sent.outcome == "completed" and (not replies or replies[-1].content != sent.text):
        yield f"the reader was told {sent.text!r}, stored is {[line.content for line in replies]}"
    if run["outcome"] == "completed" and not replies:
        yield "completed without a reply"
    if sent.outcome == "completed" and sent.content in ledger.answers:
        told = [line.content for line in talk.lines if line.run_id in ids and line.role == "tool"]
        if told != [ledger.answers[sent.content]]:
            yield f"answered with {ledger.answers[sent.content]!r}, stored is {told}"


def _whole(ledger: Ledger, talks: dict[Key, Talk]) -> Iterator[str]:
    for key, (messages, acknowledged) in ledger.imported.items():
        has = len(talks[key].lines) if key in talks else 0
        deleted = ledger.deleted.get(key, False)
        allowed = {messages} if acknowledged else {0, messages}
        if deleted is not False:
            allowed = {0} if deleted else allowed | {0}
        if has not in allowed:
            yield f"{key} was imported with {messages} messages ({acknowledged}, deleted {deleted}) and has {has}"
    for key, number in ledger.compacted.items():
        if len(talks[key].archives) < number:
            yield f"{key} was told of archive {number} and has {len(talks[key].archives)}"
    for key, allowed_folders in ledger.directories.items():
        cwd = talks[key].cwd if key in talks else ""
        if cwd not in allowed_folders:
            yield f"{key} has the working directory {cwd!r}, and may have {sorted(allowed_folders)}"
    for key in ledger.titled:
        if talks[key].title != "A name":
            yield f"{key} was named and has the title {talks[key].title!r}"
