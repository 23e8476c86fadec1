"""Whatever bytes arrive, the decoder gives whole frames or one clear refusal, and holds no more than it was fed."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from moot.domain.errors import BadRequest
from moot.wire import json_form
from moot.wire.codec import FrameDecoder, check_client, decode_client


def _check(refused: BadRequest) -> None:
    assert refused.message
    assert refused.fix


@settings(max_examples=120, deadline=None)
@given(st.lists(st.binary(max_size=64), max_size=20), st.integers(min_value=0, max_value=4096))
def test_any_bytes_are_frames_or_a_refusal(pieces: list[bytes], limit: int) -> None:
    decoder = FrameDecoder(limit)
    fed = taken = 0
    for piece in pieces:
        decoder.feed(piece)
        fed += len(piece)
        try:
            while (payload := decoder.take()) is not None:
                taken += 4 + len(payload)
                assert len(payload) <= limit
                check_client(decode_client(payload))
        except BadRequest as refused:
            _check(refused)
            return
        assert decoder.pending == fed - taken
        assert decoder.pending < 4 + limit


@settings(max_examples=120, deadline=None)
@given(st.binary(max_size=300))
def test_any_payload_is_a_message_or_a_refusal(payload: bytes) -> None:
    try:
        check_client(decode_client(payload))
    except BadRequest as refused:
        _check(refused)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["send", "stream", "kill", "agent", "content", "request_id", "limits", "steps", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60) | _json.map(repr) | _json.map(json.dumps))
def test_any_text_is_a_request_or_a_refusal(text: str) -> None:
    try:
        check_client(json_form.decode_client(text))
    except BadRequest as refused:
        _check(refused)
