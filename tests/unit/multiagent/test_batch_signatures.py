"""One signature for many messages: each is verified on its own, in any order, and nothing else is."""

from base64 import b64decode, b64encode
from itertools import permutations

import pytest

from moot.multiagent.peers.daemons import batch_signatures
from moot.multiagent.peers.daemons.batch_signatures import sign_all, verify_message
from moot.multiagent.peers.daemons.signatures import Identity, verify

DESK, EVE = Identity(b"d" * 32), Identity(b"e" * 32)
SIZES = (1, 2, 3, 5, 64, 100)


@pytest.fixture(autouse=True)
def forget() -> None:
    batch_signatures._list_known.cache_clear()


def make_messages(count: int, what: str = "message") -> list[bytes]:
    return [f"{what} {number}".encode() for number in range(count)]


def list_neighbours(proof: str) -> list[bytes]:
    joined = b64decode(proof)
    return [joined[at : at + 32] for at in range(0, len(joined), 32)]


@pytest.mark.parametrize("count", SIZES)
def test_each_message_is_verified_on_its_own_and_its_signature_once(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = make_messages(count)
    signed = sign_all(DESK, messages)
    assert len({signature for signature, _ in signed}) == 1
    checks: list[str] = []

    def note_check(key: str, signature: str, data: bytes) -> bool:
        checks.append(key)
        return verify(key, signature, data)

    monkeypatch.setattr(batch_signatures, "verify", note_check)
    # The last ones first and some twice, as when a part of them is delivered again.
    for message, (signature, proof) in [*reversed([*zip(messages, signed, strict=True)]), (messages[0], signed[0])]:
        assert verify_message(DESK.key, signature, proof, message)
        assert not verify_message(EVE.key, signature, proof, message)
    assert checks.count(DESK.key) == (1 if count > 1 else 2)


def test_a_message_alone_is_signed_itself() -> None:
    ((signature, proof),) = sign_all(DESK, [b"alone"])
    assert (signature, proof) == (DESK.sign(b"alone"), "")


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("count", SIZES[1:])
def test_nothing_else_is_verified(count: int, is_known: bool) -> None:
    messages = make_messages(count)
    signed = sign_all(DESK, messages)
    other = sign_all(DESK, make_messages(count, "other"))
    if is_known:
        assert all(verify_message(DESK.key, *each, message) for each, message in zip(signed, messages, strict=True))
    signature, proof = signed[0]
    first, *rest = list_neighbours(proof)
    alone = DESK.sign(messages[0])
    wrong = [
        # Another text, with the proof of the one it replaces, or with none.
        (signature, proof, b"forged"),
        (signature, "", messages[0]),
        # The signature of another batch, of another daemon, or of the message alone.
        (other[0][0], proof, messages[0]),
        (EVE.sign(b"x"), proof, messages[0]),
        (alone, proof, messages[0]),
        ("", proof, messages[0]),
        # Inner nodes and roots are no messages.
        (signature, b64encode(b"".join(rest)).decode(), first + messages[0]),
        (signature, "", b"moot-mail-batch-1:" + first),
    ]
    for each in wrong:
        assert not verify_message(DESK.key, *each), each


@pytest.mark.parametrize("count", SIZES[1:])
def test_a_proof_that_is_not_valid_proves_nothing(count: int) -> None:
    messages = make_messages(count)
    (signature, proof), (_, another) = sign_all(DESK, messages)[:2]
    neighbours = list_neighbours(proof)
    invalid = [
        "no base64!",
        "A",
        proof[:-4],
        b64encode(b"".join(neighbours[:-1])).decode() or "AAAA",
        b64encode(b"".join([*neighbours, b"\x00" * 32])).decode(),
        b64encode(b"".join(neighbours) + b"\x00").decode(),
        b64encode(b"\x00" * 32 * 17).decode(),
        b64encode(b"\x00" * 32).decode(),
        another,
        *(b64encode(b"".join(order)).decode() for order in [*permutations(neighbours[:3])][1:] if len(neighbours) > 2),
    ]
    for each in invalid:
        batch_signatures._list_known.cache_clear()
        assert not verify_message(DESK.key, signature, each, messages[0]), each


def test_what_is_remembered_is_bounded() -> None:
    messages = make_messages(5_000)
    signed = sign_all(DESK, messages)
    for message, (signature, proof) in zip(messages, signed, strict=True):
        assert verify_message(DESK.key, signature, proof, message)
    assert len(batch_signatures._list_known(DESK.key, signed[0][0])) < 5_000
