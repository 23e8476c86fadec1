"""Pings of one client while another sends requests of the largest size. Used by work.py."""

import asyncio
import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.line import connect
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import LIST_BOUNDS, MAX_FRAME, TEXT_BOUNDS

_CONTENT = 1_000_000


def _list_largest(sender: str) -> list[pb.ClientMessage]:
    """Requests of the largest size: texts that are read, and lists that are looked up."""
    name, most = "x" * TEXT_BOUNDS["run_ids"], LIST_BOUNDS["run_ids"]
    line = json.dumps({"role": "user", "content": "< " * (_CONTENT // 2)})
    jsonl = "\n".join([line] * (MAX_FRAME // len(line) - 1))
    whole = pb.ClientMessage()
    getattr(whole, "import").CopyFrom(pb.ImportMsg(agent="bench", sender=sender, jsonl=jsonl))
    return [
        pb.ClientMessage(send=pb.SendMsg(agent="bench", sender=sender, content="< " * (_CONTENT // 2))),
        pb.ClientMessage(send=pb.SendMsg(agent="bench", sender=sender, content="<from " * (_CONTENT // 6))),
        pb.ClientMessage(wait_runs=pb.WaitRunsMsg(run_ids=[name] * most)),
        pb.ClientMessage(new_token=pb.NewTokenMsg(name=sender, senders=[name] * most)),
        whole,
        pb.ClientMessage(get_history=pb.GetHistoryMsg(agent="bench", sender=sender)),
        pb.ClientMessage(list_traces=pb.ListTracesMsg()),
    ]


async def measure_pings(path: Path, sender: str) -> float:
    """The 99th percentile of pings while each of the largest requests is sent and answered."""
    requests = _list_largest(sender)
    command = (sys.executable, "-m", "bench.pinger", str(path))
    pinger = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert pinger.stdout is not None
    await pinger.stdout.readline()
    async with connect(path) as line:
        for message in requests:
            await line.request(message)
    taken, _ = await pinger.communicate(b"\n")
    return statistics.quantiles(json.loads(taken), n=100)[98]
