"""What is written to and read from a NATS connection without nats-py: nothing can end a line before its end."""

import contextlib

import nats.errors
import pytest

from moot.broker.nats_client import NatsClient, PlainMessages, make_publish_command, read_header_block


def test_a_command_publishes_a_message_with_its_headers() -> None:
    command = make_publish_command("agent.inbox.a", b"_INBOX.b.1", {"Nats-Msg-Id": "m", "Moot-Taint": "ü"}, b"a\r\nbc")
    block = "NATS/1.0\r\nNats-Msg-Id: m\r\nMoot-Taint: ü\r\n\r\n".encode()
    size = len(block)
    assert command == b"HPUB agent.inbox.a _INBOX.b.1 %d %d\r\n%ba\r\nbc\r\n" % (size, size + 5, block)
    assert read_header_block(block) == {"Nats-Msg-Id": "m", "Moot-Taint": "ü"}


@pytest.mark.parametrize("subject", ["", " ", "a b", "a\tb", "a\r\nPUB b 0\r\n", "a\u2028b"])
def test_a_subject_is_one_word(subject: str) -> None:
    with pytest.raises(nats.errors.BadSubjectError):
        make_publish_command(subject, b"reply", {}, b"")


@pytest.mark.parametrize("text", ["a\r\nMoot-Signature: b", "a\nb", "a\rb", "\n"])
@pytest.mark.parametrize("is_name", [False, True])
def test_a_header_is_one_line(text: str, is_name: bool) -> None:
    with pytest.raises(nats.errors.BadHeaderError):
        make_publish_command("a", b"reply", {text: "x"} if is_name else {"Moot-Thread": text}, b"")


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


STORED = rb'\{"stream":"MOOT","seq":([0-9]+)\}'
ANSWERS = b"".join(
    (
        b'MSG in.7 1 26\r\n{"stream":"MOOT","seq":41}\r\n',
        b'MSG in.8 1 26\r\n{"stream":"MOOT","seq":42}\r\n',
        b'MSG in.9 1 43\r\n{"stream":"MOOT","seq":42,"duplicate":true}\r\n',
        b'MSG in.10 1 26\r\n{"stream":"MOOT","seq":43}\r\n',
        b"MSG agent.a 2 2\r\nab\r\n",
        b'MSG in.11 1 26\r\n{"stream":"MOOT","seq":44}\r\n',
        b"PING\r\n",
        b'MSG in.12 1 26\r\n{"stream":"MOOT","seq":45}\r\n',
        b"HMSG in.13 1 %d %d\r\n%b\r\n" % (len(HEADERS), len(HEADERS), HEADERS),
        b'MSG in.x 1 26\r\n{"stream":"MOOT","seq":46}\r\n',
    )
)


@pytest.mark.parametrize("size", [*range(1, 48), len(ANSWERS)])
async def test_each_answer_is_read_once_together_with_others_or_alone(size: int) -> None:
    client = NatsClient()
    found: dict[bytes, bytes] = {}
    count = 0

    def receive(subject: bytes, _reply: bytes, data: bytes, _headers: bytes) -> None:
        nonlocal count
        count += 1
        found[subject] = data

    def receive_found(answers: list[tuple[bytes, ...]]) -> None:
        nonlocal count
        count += len(answers)
        found.update({b"in." + token: b'{"stream":"MOOT","seq":%b}' % sequence for token, sequence in answers})

    async def answer_ping() -> None:
        return

    client._process_ping = answer_ping  # type: ignore[method-assign]
    client._receivers |= {1: receive, 2: receive}
    client._ps.plain = PlainMessages(b"MSG in.", STORED, receive, receive_found)
    for at in range(0, len(ANSWERS), size):
        await client._ps.parse(ANSWERS[at : at + size])
    assert count == len(found) == 9
    assert found.pop(b"in.9") == b'{"stream":"MOOT","seq":42,"duplicate":true}'
    assert (found.pop(b"agent.a"), found.pop(b"in.13")) == (b"ab", b"")
    assert [(token, data[-3:-1]) for token, data in sorted(found.items())] == [
        (b"in.10", b"43"), (b"in.11", b"44"), (b"in.12", b"45"), (b"in.7", b"41"), (b"in.8", b"42"), (b"in.x", b"46"),
    ]  # fmt: skip


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
