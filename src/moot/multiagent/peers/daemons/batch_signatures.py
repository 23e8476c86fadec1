"""Signatures of messages that are sent together: one signature for all, and for each a proof that it belongs to them.

A signature takes longer than everything else that is done for a message. So the digests of a batch are the leaves of a
tree of hashes, and its root is signed. The proof of a message contains the neighbours on the way from its leaf to the
root; who has the message and the proof computes the root, and checks the signature of each root once. Everything on
the way to a root whose signature is right belongs to the tree, and so do the neighbours: a message whose way leads to
one of these needs no further check. A message that is sent alone is signed itself and needs no proof. Used by relay.py
and arrivals.py; signatures.py has the keys.
"""

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from moot.multiagent.peers.daemons.signatures import Identity, verify

# Leaves, nodes and roots begin differently, and no message begins like a root, so that none is taken for another.
_LEAF, _NODE, _ROOT = b"\x00", b"\x01", b"moot-mail-batch-1:"
_DIGEST_BYTES = 32
# Enough for the largest batch: each level of the tree doubles it.
_MOST_LEVELS = 16
# How many digests of one tree are remembered.
_MOST_KNOWN = 4096


def sign_all(identity: Identity, messages: Sequence[bytes]) -> list[tuple[str, str]]:
    """Return the signature and the proof of each message. The proof of a message that is alone is empty."""
    if len(messages) == 1:
        return [(identity.sign(messages[0]), "")]
    root, proofs = _build_tree([sha256(_LEAF + message).digest() for message in messages])
    signature = identity.sign(_ROOT + root)
    return [(signature, b64encode(proof).decode()) for proof in proofs]


def verify_message(key: str, signature: str, proof: str, message: bytes) -> bool:
    """Whether the owner of the public key signed the message, alone or in a batch."""
    if not proof:
        return verify(key, signature, message)
    digest, known = sha256(_LEAF + message).digest(), _list_known(key, signature)
    if digest in known:
        return True
    path = _follow(digest, _read_proof(proof), known)
    if path[-1] not in known and not verify(key, signature, _ROOT + path[-1]):
        return False
    if len(known) > _MOST_KNOWN:
        known.clear()
    known.update(path)
    return True


def _read_proof(proof: str) -> bytes:
    """Return the neighbours in a proof, one after the other; none, which proves nothing, if it is not valid."""
    try:
        neighbours = b64decode(proof, validate=True)
    except (Error, ValueError):
        return b""
    size = len(neighbours)
    return b"" if size % _DIGEST_BYTES or size > _MOST_LEVELS * _DIGEST_BYTES else neighbours


def _follow(leaf: bytes, neighbours: bytes, known: set[bytes]) -> list[bytes]:
    """Return what is on the way from a leaf to the first digest that is known, or to the root, which is last."""
    path, last = [leaf], leaf
    for at in range(0, len(neighbours), _DIGEST_BYTES):
        neighbour = neighbours[at : at + _DIGEST_BYTES]
        last = _join(last, neighbour)
        path += (neighbour, last)
        if last in known:
            break
    return path


@lru_cache(maxsize=256)
def _list_known(key: str, signature: str) -> set[bytes]:
    """Return the set of digests that are known to be in the tree with this signature. It is filled by the caller."""
    return set()


def _build_tree(leaves: list[bytes]) -> tuple[bytes, list[bytes]]:
    """Return the root of the tree, and for each leaf the neighbours on its way there."""
    levels = [leaves]
    while len(below := levels[-1]) > 1:
        above = [_join(left, right) for left, right in zip(below[::2], below[1::2], strict=False)]
        # The last node of a level that has none beside it moves up.
        levels.append(above if len(below) % 2 == 0 else [*above, below[-1]])
    # From the root down: a node's proof is its neighbour and then the proof of the node above both.
    proofs = [b""]
    for level in levels[-2::-1]:
        last = len(level) - 1
        proofs = [
            proofs[place // 2] if place == last and place % 2 == 0 else level[place ^ 1] + proofs[place // 2]
            for place in range(len(level))
        ]
    return levels[-1][0], proofs


def _join(one: bytes, other: bytes) -> bytes:
    # In the order of their values, so that a proof need not say which is left.
    return sha256(_NODE + one + other if one < other else _NODE + other + one).digest()
