"""Classifies a long command in a child process (classifier_child.py), since parsing can take long.

Parsing time grows with the square of the length, and only ending the process can stop it.
"""

import json
import subprocess
import sys

from moot.domain.shell import Level, Verdict

_WALL_SECONDS = 10.0
_ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
_TOO_LONG = Verdict(Level.DANGEROUS, "it takes too long to be checked")


def judge_in_process(command: str) -> Verdict:
    """Block until there is a verdict; running out of time gives one as well."""
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-m", "moot.tools.shell.classifier_child"],
            input=json.dumps(command).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            timeout=_WALL_SECONDS,
            check=False,
            start_new_session=True,
        )
        level, reason, lost = json.loads(child.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return _TOO_LONG
    return Verdict(Level(level), reason, tuple(lost))
