"""A daemon with few file descriptors answers its owner, and those with a token, however many others connect."""

import asyncio
import json
import shlex
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import aiohttp
import pytest

from moot.client.connection import connect
from moot.client.errors import Unreachable
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as SCRIPTED
from tests.daemon_process import SERVE, DaemonProcess, Home, eventually, running
from tests.raw_client import http_address, tcp_address
from tests.talking import Talking

CONFIG = SCRIPTED.replace('http = "off"', 'http = "127.0.0.1:0"').replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
DESCRIPTORS = 200
CONNECTIONS = 150
WEBSOCKET = (
    "GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.fixture
def poor(home: Home) -> Iterator[DaemonProcess]:
    """A daemon that may have few files open, and is started with a lower soft limit still."""
    serve = f"ulimit -Sn 100 && ulimit -Hn {DESCRIPTORS} && exec {shlex.join(SERVE)}"
    with running(home, command=("sh", "-c", serve)) as daemon:
        yield daemon


async def test_connections_without_a_token_lock_nobody_out(poor: DaemonProcess) -> None:
    http, tcp = http_address(poor).removeprefix("http://"), tcp_address(poor)
    async with poor.client() as owner:
        token = (await owner.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
    # Idle ones, requests that never end, and WebSockets without a Hello; more in all than there are descriptors.
    upgrade = WEBSOCKET.format(host=http).encode()
    beginnings = [(tcp, b""), (http, b""), (http, b"GET / HTTP/1.1\r\nX: "), (http, upgrade)]
    with ExitStack() as stack:
        for address, beginning in beginnings * CONNECTIONS:
            host, _, port = address.rpartition(":")
            connection = await asyncio.to_thread(socket.create_connection, (host, int(port)))
            stack.enter_context(connection)
            connection.sendall(beginning)
        await _check_that_others_are_served(poor, token, len(beginnings) * CONNECTIONS)


async def _check_that_others_are_served(poor: DaemonProcess, token: str, opened: int) -> None:
    http, tcp = http_address(poor).removeprefix("http://"), tcp_address(poor)
    async with poor.client() as owner:

        async def count_rejected() -> pb.DaemonStats | None:
            stats = (await owner.ask(get_stats=pb.GetStats())).stats
            return stats if stats.rejected_connections >= opened - stats.max_connections else None

        stats = await eventually(count_rejected)
        assert (await owner.say("ada", "hello")).outcome == "completed"
    # The soft limit was raised to the hard one, and the listeners share part of it.
    assert 16 < stats.max_connections < DESCRIPTORS // 2
    assert stats.unauthenticated_connections <= stats.max_connections // 2
    async with connect(tcp, token=token) as known:
        assert (await Talking(known).say("ada", "hello")).outcome == "completed"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.post(f"http://{http}/api", data=json.dumps({"ping": {}})) as answer,
    ):
        assert answer.status == 200

    status = poor.cli("status")
    assert (status.returncode, "rejected since the start" in status.stdout) == (0, True)
    assert poor.cli_json("status")["data"]["rejected_connections"] >= stats.rejected_connections
    assert "unauthenticated connections" in poor.cli("doctor").stdout


async def test_a_client_is_told_when_a_daemon_has_no_room_for_it(home: Home) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    home.socket.parent.mkdir(parents=True)
    async with await asyncio.start_unix_server(hang_up, str(home.socket)), connect(home.socket) as connection:
        with pytest.raises(Unreachable) as refusal:
            await connection.request(pb.ClientMessage(get_stats=pb.GetStats()))
    assert "did not answer" in refusal.value.message
    assert "too many connections" in refusal.value.fix
