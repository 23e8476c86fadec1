"""What is written to and read from a NATS connection without nats-py: nothing can end a line before its end."""

import contextlib

import nats.errors
import pytest

from moot.broker.nats_client import NatsClient, make_publish_command, read_header_block


def test_a_command_publishes_a_message_with_its_headers() -> None:
    command = make_publish_command("agent.inbox.a", "_INBOX.b.1", {"Nats-Msg-Id": "m", "Moot-Taint": "ü"}, b"a\r\nbc")
    block = "NATS/1.0\r\nNats-Msg-Id: m\r\nMoot-Taint: ü\r\n\r\n".encode()
    size = len(block)
    assert command == b"HPUB agent.inbox.a _INBOX.b.1 %d %d\r\n%ba\r\nbc\r\n" % (size, size + 5, block)
    assert read_header_block(block) == {"Nats-Msg-Id": "m", "Moot-Taint": "ü"}


@pytest.mark.parametrize("subject", ["", " ", "a b", "a\tb", "a\r\nPUB b 0\r\n", "a\u2028b"])
def test_a_subject_is_one_word(subject: str) -> None:
    with pytest.raises(nats.errors.BadSubjectError):
        make_publish_command(subject, "reply", {}, b"")


@pytest.mark.parametrize("text", ["a\r\nMoot-Signature: b", "a\nb", "a\rb", "\n"])
@pytest.mark.parametrize("is_name", [False, True])
def test_a_header_is_one_line(text: str, is_name: bool) -> None:
    with pytest.raises(nats.errors.BadHeaderError):
        make_publish_command("a", "reply", {text: "x"} if is_name else {"Moot-Thread": text}, b"")


def test_whatever_is_a_header_block_is_read() -> None:
    assert read_header_block(b"") == {}
    assert read_header_block(b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n") == {
        "Nats-Last-Consumer": "7"
    }
    block = b"NATS/1.0\r\nno colon\r\nA:1\r\nB:\t 2 \r\nA: 3\r\nC: x:y\r\n\xff: \xff\r\n\r\n"
    assert read_header_block(block) == {"A": "3", "B": "2", "C": "x:y", "\ufffd": "\ufffd"}


HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"
READ = b"".join(
    (
        b"MSG agent.a 1 3\r\nabc\r\n",
        b"MSG agent.b 1 reply 5\r\nd\r\ne\n\r\n",
        b"PING\r\n",
        b"HMSG agent.c 1 reply %d %d\r\n%bfg\r\n" % (len(HEADERS), len(HEADERS) + 2, HEADERS),
        b"+OK\r\n",
        b"HMSG agent.d 1 %d %d\r\n%b\r\n" % (len(HEADERS), len(HEADERS), HEADERS),
        b"MSG agent.e 2 0\r\n\r\n",
        b"MSG agent.f 1 0\r\n\r\n",
    )
)


@pytest.mark.parametrize("size", [*range(1, 24), len(READ)])
async def test_messages_are_read_whole_wherever_the_connection_divides_them(size: int) -> None:
    client = NatsClient()
    received: list[tuple[bytes, ...]] = []
    pings: list[int] = []

    async def answer_ping() -> None:
        pings.append(len(received))

    client._process_ping = answer_ping  # type: ignore[method-assign]
    client._receivers[1] = lambda *message: received.append(message)
    for at in range(0, len(READ), size):
        await client._ps.parse(READ[at : at + size])
    assert received == [
        (b"agent.a", b"", b"abc", b""),
        (b"agent.b", b"reply", b"d\r\ne\n", b""),
        (b"agent.c", b"reply", b"fg", HEADERS),
        (b"agent.d", b"", b"", HEADERS),
        (b"agent.f", b"", b"", b""),
    ]
    assert pings == [2]


@pytest.mark.parametrize(
    "line",
    [b"MSG a 1 -5\r\n\r\n", b"MSG 1 5\r\nabcde\r\n", b"MSG a 1 x\r\n", b"what\r\n"],
)
async def test_what_is_no_message_is_given_to_nobody(line: bytes) -> None:
    client = NatsClient()
    received: list[tuple[bytes, ...]] = []
    client._receivers[1] = lambda *message: received.append(message)
    with contextlib.suppress(nats.errors.ProtocolError):
        await client._ps.parse(line)
    assert received == []
