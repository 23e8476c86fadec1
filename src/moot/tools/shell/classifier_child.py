"""The child process that classifies a long command: the command on stdin, its verdict on stdout.

Started by classifier_process.py. Its processor time is limited: what parsing needs grows with the square of the length.
"""

import json
import resource
import sys

from moot.tools.shell.grammar import judge

_CPU_SECONDS = 2


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    verdict = judge(json.loads(sys.stdin.buffer.read()))
    sys.stdout.write(json.dumps([verdict.level.value, verdict.reason, verdict.lost_files]))


if __name__ == "__main__":
    main()
