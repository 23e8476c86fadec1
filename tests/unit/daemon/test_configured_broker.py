"""The broker of the current configuration: what observes and consumes stays when the section changes."""

import sys
from pathlib import Path

import pytest

from moot.daemon.clock import SystemClock
from moot.daemon.configured_broker import ConfiguredBroker
from moot.domain.config import BrokerConfig
from moot.domain.ports.broker import BrokerUnavailable
from moot.engine.supervisor import Supervisor
from tests.contracts.broker_kit import STORE, Recorder, make_broker_message, publish
from tests.contracts.test_nats_problems import Connection, wait_until
from tests.nats_server import nats_server


async def read_secret(name: str) -> str:
    return {"NATS": "moot:right"}[name]


class Made:
    """A configured broker, what it reports, and the keys it has registered."""

    def __init__(self, config: BrokerConfig) -> None:
        self.keys: list[tuple[str, str]] = []
        self.supervisor = Supervisor(SystemClock())
        self.broker = ConfiguredBroker(
            config,
            clock=SystemClock(),
            supervisor=self.supervisor,
            read_secret=read_secret,
            register_key=lambda name, value: self.keys.append((name, value)),
        )
        self.recorder = Recorder()
        self.broker.observe_presence(self.recorder.hear)
        self.broker.observe_state(self.recorder.note_state)

    async def __aenter__(self) -> "Made":
        await self.broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.close()
        await self.supervisor.stop()


async def test_a_reload_takes_observers_and_consumers_to_the_other_broker(tmp_path: Path) -> None:
    async with Made(BrokerConfig(name="desk")) as made:
        broker, there = made.broker, made.recorder
        await there.wait_until(lambda: broker.is_connected)
        assert [broker.is_shared, broker.problem] == [False, ""]
        with nats_server(tmp_path, "--user", "moot", "--pass", "right") as server:
            named = BrokerConfig(url=server.url, name="desk", credentials="secret:NATS")
            async with broker.consume(STORE, there.handle), Connection(server.url, credentials="moot:right") as laptop:
                await broker.reload(named)
                assert [broker.is_shared, broker.url] == [True, server.url]
                await there.wait_until(lambda: broker.is_connected)
                assert made.keys == [("secret:NATS", "right")]
                await wait_until(lambda: laptop.is_connected)
                await publish(laptop, make_broker_message("hello"), message_id="a")
                await laptop.announce(b"here")
                await there.wait_until(lambda: there.bodies and there.presence)
                assert there.states == [True, False, True]
                # What does not concern the connection leaves it alone.
                await broker.reload(BrokerConfig(url=server.url, name="desk", credentials="secret:NATS", max_outbox=5))
                assert there.states == [True, False, True]
                await broker.reload(BrokerConfig())
                assert [broker.is_shared, broker.url] == [False, "memory:"]
            assert there.bodies == ["hello"]


async def test_without_the_extra_a_daemon_runs_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moot.broker.nats", None)
    async with Made(BrokerConfig(url="nats://127.0.0.1:1")) as made:
        assert made.broker.is_shared
        assert not made.broker.is_connected
        assert "pip install 'moot[nats]'" in made.broker.problem
        with pytest.raises(BrokerUnavailable, match="nats-py is not installed"):
            await publish(made.broker, make_broker_message(), message_id="a")
        await made.broker.announce(b"nobody hears this")
        async with made.broker.consume(STORE, made.recorder.handle):
            assert made.recorder.states == []


async def test_credentials_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    missing = tmp_path / "laptop.nk"
    async with Made(BrokerConfig(url="nats://127.0.0.1:1", credentials=f"file:{missing}")) as made:
        await wait_until(lambda: f"{missing} cannot be read" in made.broker.problem)
        missing.write_bytes(b"\xff\xfe")
        await wait_until(lambda: "it is not text" in made.broker.problem)
        missing.write_text("user:password")
        await wait_until(lambda: "no NATS server answers" in made.broker.problem)
