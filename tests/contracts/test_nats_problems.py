"""What is wrong with a NATS server is said in words a person can act on, and put right without a restart."""

import asyncio
import datetime
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any

import nats
import nats.errors
import nats.js.errors
import nkeys
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from nats.js.api import RePublish

from moot.broker.credentials import NatsCredentials, parse_credentials
from moot.broker.nats import NatsBroker
from moot.broker.nats_errors import describe
from moot.broker.nats_link import NatsLink, NatsSettings
from moot.broker.nats_stream import STREAM, make_stream_config
from moot.daemon.clock import SystemClock
from moot.domain.errors import ConfigError
from moot.domain.ports.broker import BrokerUnavailable
from moot.engine.supervisor import Supervisor
from tests.contracts.broker_kit import STORE, Recorder, make_broker_message, publish
from tests.nats_server import NatsServer, nats_server

URL = "nats://broker.example:4222"


class Connection:
    """A broker with given credentials, and a way to wait for what it says is wrong."""

    def __init__(
        self,
        url: str,
        *,
        credentials: str = "",
        ca_file: str = "",
        name: str = "laptop",
        ping_seconds: float = 2.0,
        most_stream_bytes: int = 1 << 26,
    ) -> None:
        self.credentials = credentials
        self.supervisor = Supervisor(SystemClock())
        settings = NatsSettings(
            url=url, name=name, ca_file=ca_file, most_stream_bytes=most_stream_bytes, ping_seconds=ping_seconds
        )
        self.broker = NatsBroker(settings, SystemClock(), self.supervisor.start, self._read)

    async def _read(self) -> NatsCredentials | None:
        return parse_credentials(self.credentials) if self.credentials else None

    async def __aenter__(self) -> NatsBroker:
        await self.broker.start()
        return self.broker

    async def __aexit__(self, *_: object) -> None:
        await self.broker.close()
        await self.supervisor.stop()


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait for what a broker says of itself; a problem that changes is reported to nobody."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_a_server_without_room_says_so_and_takes_messages_once_it_has_some(tmp_path: Path) -> None:
    """Other streams have used up what its configuration allows, as they may use up its disk."""
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path / "data"}", max_file_store: 1MB }}\n')
    with nats_server(tmp_path, "-c", str(config)) as server:
        async with Connection(server.url, most_stream_bytes=100_000) as broker:
            await wait_until(lambda: broker.is_connected)
            other = await nats.connect(server.url)
            try:
                jetstream = other.jetstream()
                await jetstream.add_stream(name="OTHER", subjects=["other"])
                with pytest.raises(nats.js.errors.APIError) as full:
                    await asyncio.gather(*(jetstream.publish("other", b"x" * 100_000) for _ in range(20)))
                assert full.value.err_code == 10023
                with pytest.raises(BrokerUnavailable, match="the storage of the NATS server is full"):
                    await publish(broker, make_broker_message(), message_id="a")
                assert broker.is_connected
                await jetstream.purge_stream("OTHER")
                await publish(broker, make_broker_message(), message_id="a")
            finally:
                await other.close()


async def publish_as(url: str, name: str, most_stream_bytes: int) -> None:
    async with Connection(url, name=name, most_stream_bytes=most_stream_bytes) as broker:
        await wait_until(lambda: broker.is_connected or "storage" in broker.problem)
        assert broker.problem == ""
        await publish(broker, make_broker_message(), message_id=f"{name}-{most_stream_bytes}")


async def test_a_server_with_room_for_one_stream_is_used_by_a_second_daemon_and_by_one_that_returns(
    tmp_path: Path,
) -> None:
    """It says that it has no room for a stream of that size, although the stream is there."""
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path / "data"}", max_file_store: 6MB }}\n')
    with nats_server(tmp_path, "-c", str(config)) as server:
        async with Connection(server.url, most_stream_bytes=4_000_000) as first:
            await wait_until(lambda: first.is_connected)
            # As much as the first, and more: the size of a stream is left alone.
            await publish_as(server.url, "desk", 4_000_000)
            await publish_as(server.url, "desk", 5_000_000)
        server.kill()
        server.start()
        await publish_as(server.url, "laptop", 4_000_000)


async def test_a_server_without_room_for_the_stream_says_so(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path / "data"}", max_file_store: 3MB }}\n')
    with nats_server(tmp_path, "-c", str(config)) as server:
        async with Connection(server.url, most_stream_bytes=4_000_000) as broker:
            await wait_until(lambda: broker.problem and not broker.problem.startswith("connecting"))
            assert "too little storage for the stream" in broker.problem
            assert "smaller [broker] max_stream_bytes" in broker.problem


@pytest.mark.parametrize(
    "found",
    [
        {"deny_purge": False, "deny_delete": False},
        {"max_age": 300},
        {"max_msgs_per_subject": 1},
        {"deny_purge": False, "allow_rollup_hdrs": True},
        {"republish": RePublish(src=">", dest="copy.>")},
    ],
    ids=lambda found: next(reversed(found)),
)
async def test_nothing_but_its_receiver_gets_or_removes_a_message(tmp_path: Path, found: dict[str, Any]) -> None:
    """A receiver reports only the number of the last message: one that was removed before would count as received."""
    with nats_server(tmp_path) as server:
        other = await nats.connect(server.url)
        try:
            jetstream = other.jetstream()
            await jetstream.add_stream(make_stream_config(1_000_000).evolve(**found))
            copies = await other.subscribe("copy.>")
            async with Connection(server.url) as broker:
                await wait_until(lambda: broker.is_connected)
                for message_id in ("a", "b"):
                    await publish(broker, make_broker_message(), message_id=message_id)
                for remove in (jetstream.purge_stream(STREAM), jetstream.delete_msg(STREAM, 1)):
                    with pytest.raises(nats.js.errors.APIError, match="not permitted"):
                        await remove
                stream = await jetstream.stream_info(STREAM)
                assert (stream.state.messages, stream.config.max_age, stream.config.max_bytes) == (2, 0, 1_000_000)
                assert not copies.pending_msgs
        finally:
            await other.close()


async def test_a_server_that_takes_only_short_messages_is_said_until_it_takes_more(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path / "data"}" }}\nmax_payload: 2000\n')
    with nats_server(tmp_path, "-c", str(config)) as server:
        async with Connection(server.url) as broker:
            await wait_until(lambda: broker.is_connected)
            await broker.announce(b"x" * 2001)
            assert "which has 2001 bytes. Set a larger max_payload" in broker.problem
            await broker.announce(b"x" * 2000)
            assert broker.problem == ""


async def test_a_server_that_is_not_there_is_used_as_soon_as_it_is(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    server.kill()
    async with Connection(server.url) as broker:
        await wait_until(lambda: "no NATS server answers" in broker.problem)
        with pytest.raises(BrokerUnavailable, match=f"no NATS server answers at {server.url}"):
            await publish(broker, make_broker_message(), message_id="a")
        await asyncio.to_thread(server.start)
        try:
            await wait_until(lambda: broker.is_connected)
        finally:
            await asyncio.to_thread(server.kill)


async def _publish_for_ever(broker: NatsBroker) -> None:
    """A server that is told to stop may go on for a moment. Then nothing more fits into the connection."""
    for number in count():
        async with asyncio.TaskGroup() as group:
            for each in range(50):
                group.create_task(publish(broker, make_broker_message("x" * 100_000), message_id=f"{number} {each}"))


async def test_a_server_that_does_not_answer_is_noticed_and_used_again_when_it_does(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:
        async with Connection(server.url, ping_seconds=0.3) as broker:
            await wait_until(lambda: broker.is_connected)
            assert server.process is not None
            server.process.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(ExceptionGroup) as failures:
                    await _publish_for_ever(broker)
                assert failures.group_contains(BrokerUnavailable)
                await wait_until(lambda: not broker.is_connected)
            finally:
                server.process.send_signal(signal.SIGCONT)
            await wait_until(lambda: broker.is_connected)


async def test_refused_credentials_are_said_and_new_ones_are_read(tmp_path: Path) -> None:
    with nats_server(tmp_path, "--user", "moot", "--pass", "right") as server:
        connection = Connection(server.url)
        async with connection as broker:
            await wait_until(lambda: "refused the credentials" in broker.problem)
            connection.credentials = "moot:wrong"
            assert "wrong" not in broker.problem
            connection.credentials = "not credentials"
            await wait_until(lambda: "USER:PASSWORD" in broker.problem)
            connection.credentials = "moot:right\n"
            await wait_until(lambda: broker.is_connected)


async def test_a_server_without_jetstream_is_said(tmp_path: Path) -> None:
    with nats_server(tmp_path, "--jetstream=false") as server:
        async with Connection(server.url) as broker:
            await wait_until(lambda: "no JetStream" in broker.problem)


async def test_a_second_consumer_of_a_store_is_said_and_takes_over_when_the_first_has_ended(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:
        async with Connection(server.url) as first, Connection(server.url, name="copy") as second:
            await wait_until(lambda: first.is_connected and second.is_connected)
            there = Recorder()
            async with first.consume(STORE, there.handle):
                await there.wait_until(lambda: there.batches)
                elsewhere = Recorder()
                async with second.consume(STORE, elsewhere.handle):
                    await wait_until(lambda: "another daemon" in second.problem)
                    assert second.is_connected
            async with second.consume(STORE, elsewhere.handle):
                await elsewhere.wait_until(lambda: elsewhere.batches)
                assert second.problem == ""


async def test_a_stream_of_another_version_is_changed_and_its_limits_are_left_alone(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:
        client = await nats.connect(server.url)
        jetstream = client.jetstream()
        await jetstream.add_stream(name=STREAM, subjects=["agent.inbox.*"], retention="workqueue", max_bytes=123_456)
        async with Connection(server.url) as broker:
            await wait_until(lambda: broker.is_connected)
            changed = (await jetstream.stream_info(STREAM)).config
            assert changed.max_bytes == 123_456
            assert set(changed.subjects or ()) == {"agent.inbox.*", "agent.notice.*"}
        await client.close()


async def test_a_stream_that_keeps_what_was_received_is_named_as_the_problem(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name=STREAM, subjects=["agent.inbox.*"])
        async with Connection(server.url) as broker:
            await wait_until(lambda: broker.problem and not broker.problem.startswith("connecting"))
            assert "stream" in broker.problem
        await client.close()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "moot test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "cert.pem", folder / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_file, key_file


async def test_tls_is_used_and_never_done_without(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with nats_server(tmp_path / "tls", "--tls", "--tlscert", str(certificate), "--tlskey", str(key)) as server:
        secure = server.url.replace("nats:", "tls:")
        async with Connection(secure, ca_file=str(certificate)) as broker:
            await wait_until(lambda: broker.is_connected)
            assert (await publish(broker, make_broker_message(), message_id="a")).sequence == 1
        async with Connection(secure) as broker:
            await wait_until(lambda: "is not trusted" in broker.problem)
            assert "ca_file" in broker.problem
    with nats_server(tmp_path / "plain") as server:
        secure = server.url.replace("nats:", "tls:")
        async with Connection(secure, ca_file=str(certificate), credentials="moot:secret") as broker:
            await wait_until(lambda: "does not offer TLS" in broker.problem)


REFUSING = """
jetstream { store_dir: "DATA" }
authorization { users = [{ user: moot, password: secret, permissions: { subscribe: ["_INBOX.laptop.>"] } }] }
"""


async def test_a_connection_that_is_refused_can_be_closed_at_any_moment(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text(REFUSING.replace("DATA", str(tmp_path / "data")))
    with nats_server(tmp_path / "data", "-c", str(config)) as server:
        for turns in range(150):
            async with Connection(server.url, credentials="moot:secret", name="desk"):
                for _ in range(turns):
                    await asyncio.sleep(0)


async def test_a_broker_ends_although_its_cancellation_is_lost() -> None:
    supervisor = Supervisor(SystemClock())
    is_reading = asyncio.Event()

    async def read_and_lose_cancellation() -> None:
        is_reading.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    broker = NatsBroker(
        NatsSettings(url="nats://127.0.0.1:9", name="desk"),
        SystemClock(),
        supervisor.start,
        read_and_lose_cancellation,
    )
    await broker.start()
    await is_reading.wait()
    await broker.close()
    assert len(supervisor) == 0


def refuse(code: int, number: int, text: str) -> Exception:
    return nats.js.errors.APIError(code=code, description=text, err_code=number)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the host of nats://broker.example:4222 is unknown"),
        (TimeoutError(), "does not answer"),
        (nats.errors.TimeoutError(), "does not answer"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed"), "no NATS server answers"),
        (OSError(101, "Network is unreachable"), "Network is unreachable"),
        (ssl.SSLError(1, "handshake failure"), "TLS with"),
        (nats.errors.MaxPayloadError(), "max_payload"),
        (refuse(503, 10077, "maximum bytes exceeded"), "stream is full"),
        (refuse(503, 10077, "write msg: no space left on device"), "Look whether the disk is full"),
        (refuse(503, 10023, "insufficient resources"), "storage of the NATS server is full"),
        (refuse(500, 10047, "insufficient storage resources available"), "max_stream_bytes"),
        (refuse(503, 10076, "JetStream not enabled"), "no JetStream"),
        (refuse(400, 10100, "filtered consumer not unique on workqueue stream"), "another daemon"),
        (refuse(400, 12345, "something new"), "something new"),
        (nats.errors.Error("nats: 'maximum connections exceeded'"), "maximum connections exceeded"),
    ],
)
def test_errors_are_described(error: Exception, words: str) -> None:
    assert words in describe(error, URL)


@pytest.mark.parametrize("text", ["", "onlyone", "SUTOOSHORT", "user:pass\nsecond line", ":x", "x:"])
def test_what_is_no_credentials_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_credentials(text)
    assert not text or text not in refusal.value.sentence


async def test_a_link_that_could_not_begin_to_connect_can_be_closed() -> None:
    link = NatsLink(NatsSettings(url=URL, name="laptop"), SystemClock(), lambda *_: None)
    with pytest.raises(nkeys.NkeysError):
        await link.open(NatsCredentials(seed="none"), None)
    await link.close()
    assert link.is_lost


def test_each_kind_of_credentials_is_recognised() -> None:
    seed = "SUABQBPWBJK2Y2RDSEZOGSNXIE6NYXOZ4UZVRVIR2I7N6BJPSONYYGK34I"
    jwt = "-----BEGIN NATS USER JWT-----\nabc.def\n------END NATS USER JWT------\n"
    creds = f"{jwt}\n-----BEGIN USER NKEY SEED-----\n{seed}\n"
    assert parse_credentials(f" {seed}\n") == NatsCredentials(seed=seed)
    assert parse_credentials("me:a:b") == NatsCredentials(user="me", password="a:b")
    assert parse_credentials(creds).creds.strip() == creds.strip()
    assert parse_credentials(creds).secrets == ["abc.def", seed]
