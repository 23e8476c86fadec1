"""A crowd for one daemon: many streams on a few connections, and readers that behave badly."""

import socket
from pathlib import Path

from moot.wire import moot_pb2 as pb
from moot.wire.codec import FrameDecoder, decode_server, encode_frame
from tests.chaos.daemon import Mortal
from tests.daemon_process import CONFIG, PATIENCE, Home

WORDS = 60
TICK = 0.05
REPLY = " ".join(f"w{number}" for number in range(WORDS))
SCRIPT = f"""
[[rule]]
match = "recite"
reply = "{REPLY}"
token_seconds = {TICK}

[[rule]]
match = "for long"
reply = "{" ".join(f"v{number}" for number in range(WORDS * 3))}"
token_seconds = {TICK}

[[rule]]
reply = "{{user}}"
"""


def launch(path: Path) -> Mortal:
    # A message of a megabyte has to fit: what does not is shortened for the model.
    config = CONFIG.replace('script = "script.toml"', 'script = "script.toml"\nwindow = 1000000')
    daemon = Mortal.launch(Home(path).furnish(script=SCRIPT, config=config, agents=("ada", "ben")))
    assert daemon is not None
    return daemon


class Sloth:
    """A client that sends requests and does not read what comes back until it is told to."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(str(path))
        self._decoder = FrameDecoder()
        self._asked = 0

    def ask(self, agent: str, content: str, sender: str) -> int:
        self._asked += 1
        stream = pb.StreamMsg(agent=agent, content=content, sender=sender)
        self._socket.sendall(encode_frame(pb.ClientMessage(request_id=self._asked, stream=stream)))
        return self._asked

    def ping(self) -> None:
        self._asked += 1
        self._socket.sendall(encode_frame(pb.ClientMessage(request_id=self._asked, ping=pb.Ping())))

    def read_until_pong(self) -> list[pb.ServerMessage]:
        """Everything that was kept for it, up to the answer to a ping sent now."""
        self.ping()
        messages: list[pb.ServerMessage] = []
        while True:
            while (payload := self._decoder.take()) is not None:
                messages.append(decode_server(payload))
                if messages[-1].HasField("pong"):
                    return messages
            data = self._socket.recv(1 << 20)
            assert data, "the daemon hung up"
            self._decoder.feed(data)

    def close(self) -> None:
        self._socket.close()
