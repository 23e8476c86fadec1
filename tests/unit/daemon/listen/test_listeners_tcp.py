"""TCP: loopback, and nothing but a ping before a good token."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from moot.daemon.address import TCP_PORT, PortTaken, bind, get_bound_address, parse_listen
from moot.daemon.listen import tcp
from moot.daemon.requests.admission import ConnectionLimits
from moot.domain.errors import ConfigError
from moot.wire import moot_pb2 as pb
from tests.unit.daemon.listen.listener_fakes import House, Peer, peer

PING = pb.ClientMessage(request_id=9, ping=pb.Ping())
KILL = pb.ClientMessage(request_id=3, kill=pb.KillMsg(agent="crab"))


@asynccontextmanager
async def opened(house: House) -> AsyncIterator[str]:
    listener = await tcp.listen(tcp.open_port("127.0.0.1:0"), house.serving)
    try:
        yield listener.address
    finally:
        await listener.close()
        await house.close()


def hello(token: str) -> pb.ClientMessage:
    return pb.ClientMessage(request_id=1, hello=pb.Hello(version=1, token=token))


def test_before_hello_only_a_ping_is_answered() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house) as address, peer(address=address) as client:
            assert (await client.ask(PING)).HasField("pong")
            answer = await client.ask(KILL)
            assert (answer.request_id, answer.error.code) == (3, 401)
            assert "moot tokens new" in answer.error.fix
            assert house.handlers.asked == []

    asyncio.run(scene())


def test_a_good_token_makes_the_connection_its_principals() -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(house) as address, peer(address=address) as client:
            welcome = (await client.ask(hello(house.bot.secret))).welcome
            assert (welcome.version, welcome.principal, welcome.default_sender) == (1, "bot", "bot")
            assert (await client.ask(KILL)).HasField("pong")
            ((_, principal),) = house.handlers.asked
            assert (principal.name, principal.is_owner) == ("bot", False)

    asyncio.run(scene())


def test_requests_sent_along_with_hello_wait_for_it() -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(house) as address, peer(address=address) as client:
            client.send(hello(house.bot.secret))
            client.send(KILL)
            client.send(PING)
            assert (await client.receive()).HasField("welcome")
            assert {(await client.receive()).request_id for _ in range(2)} == {3, 9}

    asyncio.run(scene())


def test_hello_may_be_said_again_amid_other_requests() -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(house) as address, peer(address=address) as client:
            for _ in range(5):
                client.send(hello(house.bot.secret))
                client.send(hello(house.bot.secret))
                client.send(KILL)
            answers = [(await client.receive()).WhichOneof("message") for _ in range(15)]
            assert sorted(answers) == ["pong"] * 5 + ["welcome"] * 10

    asyncio.run(scene())


@pytest.mark.parametrize("token", ["", "moot_wrong", "x" * 10_000, "é\ufffd"])
def test_a_wrong_token_is_refused_and_may_be_tried_again(token: str) -> None:
    async def scene() -> None:
        house = House()
        async with opened(house) as address, peer(address=address) as client:
            assert (await client.ask(hello(token))).error.code == 401
            assert (await client.ask(KILL)).error.code == 401
            assert (await client.ask(hello(house.bot.secret))).HasField("welcome")

    asyncio.run(scene())


def test_guessing_is_stopped_from_loopback_too_and_locks_nobody_out() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house) as address:
            async with peer(address=address) as known:
                assert (await known.ask(hello(house.bot.secret))).HasField("welcome")
            codes = []
            for guess in range(30):
                async with peer(address=address) as client:
                    codes.append((await client.ask(hello(f"moot_{guess}"))).error.code)
            assert codes == [401] * 10 + [429] * 20
            async with peer(address=address) as known:
                assert (await known.ask(hello(house.bot.secret))).HasField("welcome")
            await house.clock.advance(60)
            async with peer(address=address) as client:
                assert (await client.ask(hello("moot_again"))).error.code == 401

    asyncio.run(scene())


def test_whoever_has_not_said_hello_cannot_make_us_hold_much() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house) as address:
            async with peer(address=address) as client:
                client.writer.write((100_000).to_bytes(4, "big"))
                assert (await client.receive()).error.code == 413
                assert await client.ended()
            async with peer(address=address) as client:
                await client.ask(hello(house.bot.secret))
                large = pb.ClientMessage(send=pb.SendMsg(agent="crab", content="x" * 200_000))
                assert (await client.ask(large)).error.message == "nothing set for this"

    asyncio.run(scene())


def test_of_too_many_that_have_not_said_hello_the_oldest_goes() -> None:
    async def scene() -> None:
        house = House(ConnectionLimits(unauthenticated=2))
        async with opened(house) as address, peer(address=address) as known, peer(address=address) as oldest:
            await known.ask(hello(house.bot.secret))
            await oldest.ask(PING)
            async with peer(address=address) as second, peer(address=address) as third:
                await second.ask(PING)
                await third.ask(PING)
                with suppress(ConnectionError):
                    assert await oldest.ended()
                for other in (known, second, third):
                    assert (await other.ask(PING)).HasField("pong")
                assert house.admission.unauthenticated == 2
        assert house.admission.unauthenticated == 0

    asyncio.run(scene())


def test_a_revoked_token_loses_its_open_connections() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house) as address, peer(address=address) as client:
            await client.ask(hello(house.bot.secret))
            house.store.by_digest.clear()
            house.principals.invalidate("bot")
            assert (await client.receive()).error.code == 401
            assert await client.ended()
            async with peer(address=address) as again:
                assert (await again.ask(hello(house.bot.secret))).error.code == 401

    asyncio.run(scene())


@pytest.mark.parametrize(
    "configured", ["0.0.0.0:7787", "192.168.1.5:7787", "[::]:7787", "example.org:7787", ":7787", "7787", "127.0.0.1:x"]
)
def test_an_address_other_machines_could_reach_is_refused(configured: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_listen(configured, default_port=TCP_PORT, setting="listen.tcp")
    assert "listen.tcp" in refused.value.message
    assert refused.value.fix


@pytest.mark.parametrize("configured", ["127.0.0.1:0", "localhost:0", "[::1]:0", "127.0.0.2:0"])
def test_loopback_addresses_are_taken(configured: str) -> None:
    wanted = parse_listen(configured, default_port=TCP_PORT, setting="listen.tcp")
    try:
        bound = bind(wanted, setting="listen.tcp")
    except ConfigError:
        if wanted.host != "::1" or _has_ipv6():
            raise
        pytest.skip("no IPv6 here")
    with bound:
        assert get_bound_address(bound)[0] == wanted.host


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_a_port_that_was_asked_for_and_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = parse_listen(f"127.0.0.1:{port}", default_port=TCP_PORT, setting="listen.tcp")

        with pytest.raises(ConfigError) as refused:
            bind(wanted, setting="listen.tcp")
    assert str(port) in refused.value.message


def test_a_default_port_that_is_taken_is_an_error_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = parse_listen("", default_port=port, setting="listen.tcp")

        with pytest.raises(PortTaken) as refused:
            bind(wanted, setting="listen.tcp")
    assert "listen.tcp" in refused.value.fix


def test_an_idle_stranger_does_not_keep_the_others_out() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house) as address:
            idle = [
                Peer(*await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))) for _ in range(50)
            ]
            async with peer(address=address) as client:
                assert (await client.ask(PING)).HasField("pong")
            for each in idle:
                await each.close()

    asyncio.run(scene())
