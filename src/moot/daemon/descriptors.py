"""The limit of open file descriptors of this process. Used at the start of the daemon, by app.py."""

import resource
from contextlib import suppress

# Where the system has no limit of its own.
_UNLIMITED = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems have a lower limit than they report.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def get_descriptor_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft
