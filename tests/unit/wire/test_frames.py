"""Frames: cut anywhere, bounded, and refused with a reason."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.domain.errors import BadRequest, TooLarge
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME
from moot.wire.codec import (
    FrameDecoder,
    check_client,
    decode_client,
    decode_server,
    encode_frame,
    join_frame,
    request_id_field,
)


@settings(deadline=None)
@given(
    contents=st.lists(st.text(max_size=200), max_size=5),
    cuts=st.lists(st.integers(min_value=0, max_value=2000), max_size=10),
)
def test_frames_come_out_whole_however_the_stream_is_cut(contents: list[str], cuts: list[int]) -> None:
    sent = [pb.ClientMessage(request_id=7, send=pb.SendMsg(agent="a", content=text)) for text in contents]
    stream = b"".join(encode_frame(message) for message in sent)
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})

    decoder = FrameDecoder()
    received = []
    for start, end in zip(edges, edges[1:], strict=False):
        decoder.feed(stream[start:end])
        while (payload := decoder.take()) is not None:
            received.append(decode_client(payload))

    assert received == sent
    assert decoder.pending == 0


def test_a_frame_that_has_begun_is_pending() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"\0\0\0\x05ab")

    assert decoder.take() is None
    assert decoder.pending == 6


def test_a_length_over_the_limit_is_refused_before_its_bytes_arrive() -> None:
    decoder = FrameDecoder()
    decoder.feed(struct.pack(">I", MAX_FRAME + 1))

    with pytest.raises(TooLarge) as refused:
        decoder.take()
    assert refused.value.code == 413
    assert refused.value.fix


def test_a_frame_of_exactly_the_limit_passes_both_ways() -> None:
    message = pb.ServerMessage(exported=pb.Exported(jsonl="x" * (MAX_FRAME - 20)))
    while message.ByteSize() < MAX_FRAME:
        message.exported.jsonl += "x"
    decoder = FrameDecoder()
    decoder.feed(encode_frame(message))

    payload = decoder.take()

    assert payload is not None
    assert decode_server(payload) == message
    message.exported.jsonl += "x"
    with pytest.raises(TooLarge):
        encode_frame(message)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_a_request_id_appended_to_encoded_bytes_is_part_of_the_message(request_id: int) -> None:
    payload = pb.ServerMessage(stream=pb.StreamEvent(chunk=pb.StreamChunk(content="hi"))).SerializeToString()

    frame = join_frame(payload, request_id_field(request_id))

    decoder = FrameDecoder()
    decoder.feed(frame)
    joined = decode_server(decoder.take() or b"")
    assert joined.request_id == request_id
    assert joined.stream.chunk.content == "hi"


@pytest.mark.parametrize("payload", [b"\xff\xff\xff", b"\x0a\x05\x12\x03\xed\xa0\x80", b"\x0a\x7f"])
def test_garbage_and_half_surrogates_are_not_client_messages(payload: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_client(payload)
    assert refused.value.fix


@pytest.mark.parametrize("payload", [b"", b"\xba\x3e\x00"])
def test_an_empty_or_unknown_message_is_refused(payload: bytes) -> None:
    with pytest.raises(BadRequest):
        check_client(decode_client(payload))


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (pb.ClientMessage(send=pb.SendMsg(agent="a", content="x\0y")), "send.content"),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="a", sender="\0")), "stream.sender"),
        (pb.ClientMessage(new_token=pb.NewTokenMsg(name="a", senders=["ok", "b\0"])), "new_token.senders"),
    ],
)
def test_a_nul_is_refused_by_the_name_of_its_field(message: pb.ClientMessage, named: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_client(message)
    assert named in refused.value.message


def test_a_good_message_is_named() -> None:
    limits = pb.RunLimits(steps=0, seconds=1.5)
    message = pb.ClientMessage(stream=pb.StreamMsg(agent="a", content="ok", limits=limits))

    assert check_client(message) == "stream"
