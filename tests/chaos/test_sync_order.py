"""A daemon acknowledges nothing before the disk has it: its system calls are traced, and their order is read.

A kill cannot show this, because the kernel keeps what was written.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from moot.wire import moot_pb2 as pb
from moot.wire.codec import FrameDecoder, decode_server
from tests.chaos.daemon import Mortal, new_home
from tests.talking import Speech

TURNS = 50
SENDERS = 5
_CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<fd>\d+)<(?P<where>[^>]*)>(?P<rest>.*)$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_RESULT = re.compile(r"= (-?\d+)[^=]*$")


@dataclass(slots=True)
class Call:
    """One system call: where in the trace it began and ended, on which file, with which bytes."""

    began: int
    ended: int
    name: str
    where: str
    data: bytes


def calls(trace: Path) -> Iterator[Call]:
    open_calls: dict[str, tuple[int, re.Match[str]]] = {}
    for number, line in enumerate(trace.read_text(encoding="ascii").splitlines()):
        if found := _CALL.match(line):
            if "<unfinished" in line:
                open_calls[found["pid"]] = (number, found)
            else:
                yield _call(number, number, found, found["rest"])
        elif (found := _RESUMED.match(line)) and found["pid"] in open_calls:
            began, head = open_calls.pop(found["pid"])
            yield _call(began, number, head, head["rest"] + found["rest"])


def _call(began: int, ended: int, head: "re.Match[str]", rest: str) -> Call:
    data = b"".join(bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(rest))
    result = _RESULT.search(rest)
    written = int(result[1]) if result else 0
    # Paths are written the same way as bytes, unless the tracer knows a better name.
    where = re.sub(r"\\x([0-9a-f]{2})", lambda digits: chr(int(digits[1], 16)), head["where"])
    return Call(began, ended, head["name"], where, data[: max(0, written)])


def early(made: list[Call], what: str, marks: dict[int, bytes]) -> list[int]:
    """The requests that were told `what` before their mark was written to the log and the log was synced."""
    log = [call for call in made if call.where.endswith("-wal")]
    syncs = [call for call in log if call.name in ("fdatasync", "fsync")]
    decoders: dict[str, FrameDecoder] = {}
    told: dict[int, int] = {}
    for call in made:
        if call.name not in ("write", "writev", "sendmsg", "sendto") or not call.where.startswith(("UNIX", "socket:")):
            continue
        decoder = decoders.setdefault(call.where, FrameDecoder())
        decoder.feed(call.data)
        while (payload := decoder.take()) is not None:
            message = decode_server(payload)
            if message.stream.WhichOneof("event") == what:
                told.setdefault(message.request_id, call.began)
    if what == "queued":
        # One that came when the turn before it was over already did not have to wait.
        marks = {request: mark for request, mark in marks.items() if request in told}
    assert marks, f"no request was told {what}"
    assert set(told) >= set(marks), f"not every request was told {what}"
    found: list[int] = []
    for request, mark in marks.items():
        written = next((call.ended for call in log if call.name == "pwrite64" and mark in call.data), None)
        if written is None or not any(written < sync.began and sync.ended < told[request] for sync in syncs):
            found.append(request)
    return found


def trace_turns(tmp_path: Path, **environment: str) -> tuple[list[Call], dict[str, dict[int, bytes]]]:
    """Fifty turns under a tracer; the calls, and the marks of what each request was told."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here to watch the system calls with")
    if subprocess.run([strace, "-o", os.devnull, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not let strace trace")
    trace = tmp_path / "trace"
    watched = "trace=pwrite64,write,writev,sendmsg,sendto,fdatasync,fsync"
    prefix = (strace, "-f", "-y", "-xx", "-s", "200000", "-e", watched, "-o", str(trace))
    daemon = Mortal.launch(new_home(tmp_path / "home"), prefix=prefix, **environment)
    assert daemon is not None
    try:
        marks = asyncio.run(_turns(daemon))
    finally:
        os.kill(daemon.pid, signal.SIGTERM)
        daemon.reap()
    return list(calls(trace)), marks


async def _turns(daemon: Mortal) -> dict[str, dict[int, bytes]]:
    """Each request's number is the order it was sent in, so that answers can be told apart in the trace."""
    marks: dict[str, dict[int, bytes]] = {"start": {}, "queued": {}, "end": {}}
    number = 0
    async with daemon.client() as talk:
        for turn in range(TURNS // SENDERS):
            speeches: list[Speech] = []
            for sender in range(SENDERS):
                number += 1
                mark = f"mark-{number}-of-the-test"
                speeches.append(talk.start("ada", mark, f"sender {sender if turn else 0}"))
                marks["start"][number] = mark.encode()
                marks["end"][number] = f"Heard: {mark}".encode()
                if not turn and sender:
                    marks["queued"][number] = mark.encode()
            for speech in speeches:
                await speech.end()
    return marks


def test_no_start_queued_or_end_is_sent_before_what_it_promises_is_synced(tmp_path: Path) -> None:
    made, marks = trace_turns(tmp_path)
    assert len(marks["start"]) == TURNS
    assert len(marks["queued"]) == SENDERS - 1
    for what, expected in marks.items():
        assert early(made, what, expected) == [], what


def test_the_trace_would_show_a_daemon_that_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    made, marks = trace_turns(tmp_path, MOOT_TEST_SYNCHRONOUS="NORMAL")
    assert len(early(made, "start", marks["start"])) == TURNS


def test_frames_that_are_cut_anywhere_are_read_whole() -> None:
    frame = pb.ServerMessage(request_id=3, stream=pb.StreamEvent(start=pb.StreamStart(agent="ada", user_seq=1)))
    payload = frame.SerializeToString()
    data = len(payload).to_bytes(4, "big") + payload
    made = [
        Call(0, 0, "pwrite64", "/x/moot.db-wal", b"..mark.."),
        Call(1, 1, "write", "UNIX-STREAM:[1]", data[:3]),
        Call(2, 2, "fdatasync", "/x/moot.db-wal", b""),
        Call(3, 3, "write", "UNIX-STREAM:[1]", data[3:]),
    ]
    assert early(made, "start", {3: b"mark"}) == []
    assert early([made[0], made[1], made[3]], "start", {3: b"mark"}) == [3]
