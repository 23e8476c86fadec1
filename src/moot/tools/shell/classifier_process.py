"""Classifies a long command in a child process, since parsing can take long.

What it needs grows with the square of the length, and nothing can stop it but the end of its process.
"""

import json
import resource
import subprocess
import sys

from moot.domain.shell import Level, Verdict

_CPU_SECONDS = 2
_WALL_SECONDS = 10.0
_ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
_TOO_LONG = Verdict(Level.DANGEROUS, "it takes too long to be judged")


def judge_in_process(command: str) -> Verdict:
    """Blocks until it is judged; no verdict in time is one."""
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-m", "moot.tools.shell.classifier_process"],
            input=json.dumps(command).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            timeout=_WALL_SECONDS,
            check=False,
            start_new_session=True,
        )
        level, reason = json.loads(child.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return _TOO_LONG
    return Verdict(Level(level), reason)


def main() -> None:
    """The child: a command in, its level and the reason out."""
    from moot.tools.shell.grammar import judge  # noqa: PLC0415  which asks for this file where a command is long

    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    verdict = judge(json.loads(sys.stdin.buffer.read()))
    sys.stdout.write(json.dumps([verdict.level.value, verdict.reason]))


if __name__ == "__main__":
    main()
