"""The seccomp filter, run by a small interpreter: it is the same on a machine that this one is not."""

import errno
import struct

import pytest

from moot.tools.sandbox import seccomp

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED, KILLED = "allowed", "killed"
CREATE, TEMPORARY, TRUNCATE = 0o100, 0o20200000, 0o1000
FIFO, CHARACTER, BLOCK, REGULAR, SOCKET = 0o010000, 0o020000, 0o060000, 0o100000, 0o140000

# Calls with a mode: numbers by machine, and which argument it is.
MODE_CALLS = {
    "x86_64": [(90, 1), (91, 1), (268, 2), (452, 2), (83, 1), (258, 2), (133, 1), (259, 2), (85, 1)],
    "aarch64": [(52, 1), (53, 2), (452, 2), (34, 2), (33, 2)],
}
OPEN_CALLS = {"x86_64": [(2, 1), (257, 2), (240, 1)], "aarch64": [(56, 2), (180, 1)]}
MKNOD_CALLS = {"x86_64": [(133, 1), (259, 2)], "aarch64": [(33, 2)]}


def run(
    machine: str, number: int, arguments: dict[int, int], *, architecture: int | None = None, counted: bool = True
) -> str | int:
    """What the filter makes of a call: allowed, killed or an error number."""
    filter_ = seccomp.program(machine, counted=counted)
    words = [arguments.get(position, 0) for position in range(6)]
    data = struct.pack("=IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *words)
    code = [struct.unpack_from("=HBBI", filter_, at) for at in range(0, len(filter_), 8)]
    value = at = 0
    while True:
        kind, if_true, if_false, operand = code[at]
        at += 1
        if kind == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif kind == 0x06:
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(operand) or operand & 0xFFFF
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[kind]
            at += if_true if holds else if_false


machines = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


@machines
def test_a_set_id_bit_is_refused_in_every_call_that_is_given_a_mode(machine: str) -> None:
    for number, position in MODE_CALLS[machine]:
        for mode in (0o4755, 0o2755, 0o6000, 0o7777, 1 << 40 | 0o4000, REGULAR | 0o4755):
            assert run(machine, number, {position: mode}) == errno.EPERM, (number, oct(mode))
        for mode in (0o755, 0o1777, 0, 0o644 | REGULAR, 1 << 40 | 0o600):
            assert run(machine, number, {position: mode}) == ALLOWED, (number, oct(mode))


@machines
def test_opening_is_refused_a_set_id_bit_only_where_it_makes_a_file(machine: str) -> None:
    for number, position in OPEN_CALLS[machine]:
        for flags in (CREATE, CREATE | TRUNCATE, TEMPORARY):
            assert run(machine, number, {position: flags, position + 1: 0o4755}) == errno.EPERM
            assert run(machine, number, {position: flags, position + 1: 0o2644}) == errno.EPERM
            assert run(machine, number, {position: flags, position + 1: 0o644}) == ALLOWED
        assert run(machine, number, {position: TRUNCATE, position + 1: 0o177777}) == ALLOWED


@machines
def test_no_device_is_made_and_other_nodes_are(machine: str) -> None:
    for number, position in MKNOD_CALLS[machine]:
        for kind in (CHARACTER, BLOCK):
            assert run(machine, number, {position: kind | 0o600}) == errno.EPERM
        for kind in (FIFO, REGULAR, SOCKET, 0):
            assert run(machine, number, {position: kind | 0o600}) == ALLOWED


@machines
def test_calls_whose_arguments_cannot_be_seen_seem_not_to_be_there(machine: str) -> None:
    for number in (435, 437):
        assert run(machine, number, {}) == errno.ENOSYS


@machines
def test_calls_newer_than_the_filter_seem_not_to_be_there(machine: str) -> None:
    for number in (463, 467, 469, 512, 547, 2**31):
        assert run(machine, number, {}) == errno.ENOSYS
    # mseal, the newest that is known, and the calls of Landlock, which are needed.
    for number in (462, 444, 445, 446):
        assert run(machine, number, {}) == ALLOWED


@machines
def test_other_interfaces_of_the_processor_are_closed(machine: str) -> None:
    others = {0x40000003, 0x40000028, 0xC000003E, 0xC00000B7} - {ARCHITECTURES[machine]}
    for other in others:
        assert run(machine, 0, {}, architecture=other) == KILLED


def test_the_x32_interface_is_closed() -> None:
    for number in (0, 90, 268, 514):
        assert run("x86_64", 0x40000000 | number, {}) == errno.ENOSYS


@machines
def test_a_new_ring_or_secret_memory_is_refused(machine: str) -> None:
    for number in (425, 426, 427, 447):
        assert run(machine, number, {}) == errno.EPERM


@machines
def test_namespaces_foreign_sockets_and_terminal_tricks_are_refused_by_their_arguments(machine: str) -> None:
    clone, ioctl, socket = {"x86_64": (56, 16, 41), "aarch64": (220, 29, 198)}[machine]
    assert run(machine, clone, {0: 0x10000000}) == errno.EPERM
    assert run(machine, clone, {0: 0x11}) == ALLOWED
    assert run(machine, ioctl, {1: 0x5412}) == errno.EPERM
    assert run(machine, ioctl, {1: 0x5401}) == ALLOWED
    assert run(machine, socket, {0: 40}) == errno.EAFNOSUPPORT
    assert run(machine, socket, {0: 1}) == ALLOWED


@machines
def test_memory_that_nobody_would_count_is_refused_where_no_control_group_counts(machine: str) -> None:
    memfd, segment = {"x86_64": (319, 29), "aarch64": (279, 194)}[machine]
    assert run(machine, memfd, {}) == ALLOWED
    assert run(machine, memfd, {}, counted=False) == errno.ENOSYS
    for size in (65_537, 1 << 30, 1 << 32, 1 << 40 | 1):
        assert run(machine, segment, {1: size}) == ALLOWED
        assert run(machine, segment, {1: size}, counted=False) == errno.ENOSPC
    for size in (56, 65_536):
        assert run(machine, segment, {1: size}, counted=False) == ALLOWED
