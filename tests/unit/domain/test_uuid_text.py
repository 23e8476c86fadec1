"""UUIDs are read and written as the standard library does it."""

from random import Random
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest

from moot.domain.uuid_text import hash_to_uuid, read_uuid, write_uuid


def test_uuids_are_those_of_the_standard_library() -> None:
    rng = Random(7)
    for value in (0, 1, (1 << 128) - 1, *(rng.getrandbits(128) for _ in range(100))):
        text = str(UUID(int=value))
        assert write_uuid(value) == text
        for form in (text, text.upper(), text.replace("-", ""), f"{{{text}}}", f"urn:uuid:{text}"):
            assert read_uuid(form) == value
        assert hash_to_uuid(f"é/{value}") == str(uuid5(NAMESPACE_OID, f"é/{value}"))


@pytest.mark.parametrize("text", ["", "x", "0" * 31, "0" * 33, f"{UUID(int=5)}\n0", "g" * 32])
def test_what_is_no_uuid_is_not_read(text: str) -> None:
    assert read_uuid(text) is None
