"""Pings a daemon until it is sent a line, then prints how long each ping took. Started by largest.py.

A process of its own, because a thread would also wait for the client that encodes and decodes the largest messages.
"""

import json
import select
import socket
import sys
import time

from moot.wire import moot_pb2 as pb
from moot.wire.codec import encode_frame

_PAUSE_SECONDS = 0.002


def ping(path: str) -> list[float]:
    """Return the seconds that each ping took."""
    message = encode_frame(pb.ClientMessage(request_id=1, ping=pb.Ping()))
    size = len(encode_frame(pb.ServerMessage(request_id=1, pong=pb.Pong())))
    taken: list[float] = []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], _PAUSE_SECONDS)[0]:
            started = time.perf_counter()
            connection.sendall(message)
            connection.recv(size, socket.MSG_WAITALL)
            taken.append(time.perf_counter() - started)
    return taken


if __name__ == "__main__":
    print(json.dumps(ping(sys.argv[1])))
