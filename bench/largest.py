"""Pings of one client while another sends requests of the largest size. Used by work.py."""

import asyncio
import json
import socket
import statistics
import threading
import time
from pathlib import Path

from bench.line import connect
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import LIST_BOUNDS, MAX_FRAME, TEXT_BOUNDS
from moot.wire.codec import encode_frame

_PAUSE_SECONDS = 0.002
_CONTENT = 1_000_000


class Pinger(threading.Thread):
    """Pings in a thread of its own, so that what it measures is the daemon, not the other client."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.taken: list[float] = []
        self._is_stopped = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))

    def run(self) -> None:
        ping = encode_frame(pb.ClientMessage(request_id=1, ping=pb.Ping()))
        size = len(encode_frame(pb.ServerMessage(request_id=1, pong=pb.Pong())))
        while not self._is_stopped.wait(_PAUSE_SECONDS):
            started = time.perf_counter()
            self._socket.sendall(ping)
            self._socket.recv(size, socket.MSG_WAITALL)
            self.taken.append(time.perf_counter() - started)

    def stop(self) -> None:
        self._is_stopped.set()
        self.join()
        self._socket.close()


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
    pinger = Pinger(path)
    async with connect(path) as line:
        await asyncio.to_thread(pinger.start)
        for message in requests:
            await line.request(message)
    await asyncio.to_thread(pinger.stop)
    return statistics.quantiles(pinger.taken, n=100)[98]
