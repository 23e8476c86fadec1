"""What is written to and read from a NATS connection without nats-py: nothing can end a line before its end."""

import nats.errors
import pytest

from moot.broker.nats_client import make_publish_command, read_header_block


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
