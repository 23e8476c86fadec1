"""The seccomp filter of the sandbox (classic BPF): calls that are refused, some by their arguments."""

import errno
import platform
import struct
from functools import cache

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME.
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x80
# Inserting characters into the input of a terminal.
_TERMINAL_TRICKS = (0x5412, 0x541C)
# Unix, IPv4, IPv6, netlink. Others, such as vsock, are not confined by a network namespace.
_FAMILIES = (1, 2, 10, 16)

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None if there is no such call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    # Memory that no limit counts.
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_CLONE, _IOCTL, _SOCKET = (56, 220), (16, 29), (41, 198)
_MEMFD_CREATE, _SHMGET = (319, 279), (29, 194)
# A namespace has at most 4096 segments; databases use a small one as a lock.
_LARGEST_SEGMENT = 65_536
# Their arguments are in memory, which a filter cannot read. The C library falls back to clone and openat.
_BY_POINTER = {"clone3": 435, "openat2": 437}
# The newest call in this table; later calls might do what is refused here.
_NEWEST = 462

_SET_ID = 0o6000
# Set in the type of a character device, a block device and a whiteout, and of nothing else that mknod makes.
_DEVICE = 0o020000
_CREATE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
# The calls with a mode, and the index of that argument.
_MODES: dict[str, tuple[tuple[int | None, int | None], int]] = {
    "chmod": ((90, None), 1),
    "creat": ((85, None), 1),
    "fchmod": ((91, 52), 1),
    "fchmodat": ((268, 53), 2),
    "fchmodat2": ((452, 452), 2),
    "mkdir": ((83, None), 1),
    "mkdirat": ((258, 34), 2),
    "mknod": ((133, None), 1),
    "mknodat": ((259, 33), 2),
}
# The same for calls that use the mode only if the flags before it create a file.
_OPENS: dict[str, tuple[tuple[int | None, int | None], int]] = {
    "mq_open": ((240, 180), 2),
    "open": ((2, None), 2),
    "openat": ((257, 56), 3),
}


@cache
def program(machine: str = "", *, counted: bool = True) -> bytes:
    """Return the filter for this machine; empty if its calls are not known here.

    Where shared memory is not `counted` by a control group, only what can be counted otherwise is left: mappings that
    processes have, and file systems of a bounded size.
    """
    machine = machine or platform.machine()
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        return b""
    column = tuple(_ARCHITECTURES).index(machine)
    code = [_op(_LOAD, _ARCHITECTURE), _op(_EQUAL, architecture, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    # This covers the x32 interface of x86_64 as well, whose numbers have a high bit set.
    code += [_op(_AT_LEAST, _NEWEST + 1, 0, 1), _refuse(errno.ENOSYS)]
    for numbers in _DENIED.values():
        number = numbers[column]
        if number is not None:
            code += [_op(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    for number in _BY_POINTER.values():
        code += [_op(_EQUAL, number, 0, 1), _refuse(errno.ENOSYS)]
    code += _refuse_modes(column)
    code += [] if counted else _refuse_uncounted_memory(column)
    code += _when(_CLONE[column], [_load(0), _op(_ANY_BIT, _NAMESPACES, 0, 1), _refuse(errno.EPERM)])
    tricks = [step for trick in _TERMINAL_TRICKS for step in (_op(_EQUAL, trick, 0, 1), _refuse(errno.EPERM))]
    code += _when(_IOCTL[column], [_load(1), *tricks])
    families = [step for family in _FAMILIES for step in (_op(_EQUAL, family, 0, 1), _op(_RETURN, _ALLOW))]
    code += _when(_SOCKET[column], [_load(0), *families, _refuse(errno.EAFNOSUPPORT)])
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _refuse_modes(column: int) -> list[bytes]:
    """Refuse set-id bits and devices: such files would remain and take effect outside the sandbox."""
    code: list[bytes] = []
    for name, (numbers, position) in _MODES.items():
        mask = _SET_ID | _DEVICE if name.startswith("mknod") else _SET_ID
        code += _when(numbers[column], [_load(position), _op(_ANY_BIT, mask, 0, 1), _refuse(errno.EPERM)])
    for numbers, position in _OPENS.values():
        # Without a new file the mode is ignored, and some programs pass arbitrary values.
        asks = [_load(position - 1), _op(_ANY_BIT, _CREATE, 0, 3)]
        code += _when(numbers[column], [*asks, _load(position), _op(_ANY_BIT, _SET_ID, 0, 1), _refuse(errno.EPERM)])
    return code


def _refuse_uncounted_memory(column: int) -> list[bytes]:
    """Refuse anonymous files, and System V segments except small ones: no limit counts their memory."""
    code = [_op(_EQUAL, _MEMFD_CREATE[column], 0, 1), _refuse(errno.ENOSYS)]
    is_large = [_load(1, upper=True), _op(_AT_LEAST, 1, 2, 0), _load(1), _op(_AT_LEAST, _LARGEST_SEGMENT + 1, 0, 1)]
    return [*code, *_when(_SHMGET[column], [*is_large, _refuse(errno.ENOSPC)])]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(position: int, *, upper: bool = False) -> bytes:
    """Load half of an argument. Of modes, flags and types the kernel uses only the lower half."""
    return _op(_LOAD, 16 + 8 * position + (4 if upper else 0))


def _refuse(error: int) -> bytes:
    return _op(_RETURN, _ERROR | error)


def _when(number: int | None, body: list[bytes]) -> list[bytes]:
    """Return the steps that check the arguments of one call, if this machine has it; the rest is allowed."""
    if number is None:
        return []
    steps = [*body, _op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, 0, len(steps)), *steps]
