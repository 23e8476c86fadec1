"""Addresses of agents on other daemons, and the patterns that allow them."""

import pytest

from moot.domain.peer_address import is_allowed, is_daemon_name, is_peer_pattern, split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("bob", ("bob", "")),
        ("bob@laptop", ("bob", "laptop")),
        ("@user", ("@user", "")),
        ("@user@laptop", ("@user", "laptop")),
        ("bob@Laptop", ("bob@Laptop", "")),
        ("bob@", ("bob@", "")),
        ("bob@laptop (unverified)", ("bob@laptop (unverified)", "")),
    ],
)
def test_an_address_is_a_name_and_a_daemon(address: str, parts: tuple[str, str]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    ("patterns", "address", "allowed"),
    [
        (None, "bob", True),
        (None, "bob@laptop", False),
        ((), "bob", False),
        (("*",), "bob@laptop", True),
        (("bob",), "bob@laptop", True),
        (("bo*",), "bob", True),
        (("bob@laptop",), "bob@laptop", True),
        (("bob@laptop",), "bob@desk", False),
        (("bob@laptop",), "bob", False),
        (("*@lap*",), "ann@laptop", True),
        (("ann@*",), "bob@laptop", False),
    ],
)
def test_patterns_allow_names_and_whole_addresses(
    patterns: tuple[str, ...] | None, address: str, allowed: bool
) -> None:
    assert is_allowed(patterns, address) is allowed


def test_a_daemon_has_a_name_that_fits_into_a_subject() -> None:
    assert all(map(is_daemon_name, ("a", "anns-laptop", "x" * 63)))
    assert not any(map(is_daemon_name, ("", "-a", "a.b", "A", "a*", "a b", "x" * 64)))


def test_only_names_and_endings_are_patterns() -> None:
    assert all(map(is_peer_pattern, ("*", "bob", "bo*", "bob@laptop", "*@*", "bo*@lap*")))
    assert not any(map(is_peer_pattern, ("", "@laptop", "b*b", "bob@", "bob@l.a", "bob@a@b")))
