"""The environment variables of a command in the sandbox. Used by `sandbox`; the toolchain is found by `toolchain`."""

import os
import shutil

from moot.tools.sandbox.plan import Command
from moot.tools.sandbox.toolchain import Toolchain

PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PASSED_ON = ("LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME")


def find_program(name: str) -> str | None:
    """Return a program that runs outside the sandbox: the system's before any other on the PATH.

    The PATH may begin with a virtual environment in a project, in which agents write.
    """
    return shutil.which(name, path=os.pathsep.join(PATH)) or shutil.which(name)


def build_environment(command: Command, toolchain: Toolchain, *, confined: bool) -> dict[str, str]:
    """Return the variables: few of the daemon's own, and those of the command. `confined` is whether in a sandbox."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    passed |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    # Without a sandbox, a program that an agent put on the path must not stand in for one of the system.
    places = (*toolchain.path, *PATH) if confined else (*PATH, *toolchain.path)
    passed |= toolchain.environment
    passed |= {
        "PATH": os.pathsep.join(dict.fromkeys(places)),
        "HOME": "/tmp/home" if confined else os.environ.get("HOME", "/tmp"),
        "TMPDIR": "/tmp",
        "SHELL": "/bin/sh",
        "PWD": command.cwd,
    }
    return {**passed, **command.environment}
