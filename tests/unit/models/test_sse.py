"""Events out of bytes, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.domain.errors import ModelError
from moot.models.sse import SseDecoder

STREAM = b": hello\n\nevent: x\ndata: one\n\ndata: two\ndata:three\nid: 7\n\nretry: 5\n\ndata\n\ndata: four\n\n"
EVENTS = [b"one", b"two\nthree", b"", b"four"]


def read(*chunks: bytes) -> list[bytes]:
    stream = SseDecoder()
    found = [event for chunk in chunks for event in stream.feed(chunk)]
    return found + stream.close()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_stream_cut_in_two_anywhere_reads_the_same(ending: bytes, mark: bytes) -> None:
    stream = mark + STREAM.replace(b"\n", ending)

    for cut in range(len(stream) + 1):
        assert read(stream[:cut], stream[cut:]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12), st.sampled_from([b"\n", b"\r\n"]))
def test_a_stream_cut_in_many_places_reads_the_same(cuts: list[int], ending: bytes) -> None:
    stream = STREAM.replace(b"\n", ending)
    places = [0, *sorted(cuts), len(stream)]

    assert read(*(stream[a:b] for a, b in zip(places, places[1:], strict=False))) == EVENTS


def test_byte_by_byte_reads_the_same() -> None:
    assert read(*(STREAM[n : n + 1] for n in range(len(STREAM)))) == EVENTS


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_long_event_in_tiny_pieces_reads_the_same(ending: bytes, size: int) -> None:
    start = b"data: " + b"x" * 100_000
    rest = (b"y\ndata: z\n\n" + STREAM + start + b"\ndata: z\n").replace(b"\n", ending)
    pieces = [rest[n : n + size] for n in range(0, len(rest), size)]

    assert read(start, *pieces) == [start[6:] + b"y\nz", *EVENTS, start[6:] + b"\nz"]


def test_a_last_event_without_its_blank_line_is_read_at_the_end() -> None:
    assert read(b"data: one\n\ndata: [DONE]") == [b"one", b"[DONE]"]
    assert read(b"data: one\n\ndata: [DONE]\n") == [b"one", b"[DONE]"]


def test_a_failure_in_a_field_of_its_own_is_read() -> None:
    assert read(b'error: {"code":500}\n\n') == [b'{"code":500}']


@pytest.mark.parametrize("document", [b'{"error": 1}', b" \n{}", b"<html>\n\n</html>", b"plain words", b"[]"])
def test_a_document_instead_of_a_stream_comes_whole(document: bytes) -> None:
    stream = SseDecoder()

    assert stream.feed(document[:3]) + stream.feed(document[3:]) == []
    assert stream.close() == [document]
    assert stream.is_document


def test_an_event_without_end_is_refused() -> None:
    stream = SseDecoder(limit=1000)

    for _ in range(10):
        stream.feed(b"x" * 100)

    with pytest.raises(ModelError):
        stream.feed(b"x")
