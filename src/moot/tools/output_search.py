"""Searches a long text in a child process, so that a slow pattern can be killed. Started by `outputs`.

Runs as a script with only the standard library. Input: a JSON line with the pattern and the limits, then the text.
Output: one JSON object.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

_CPU_SECONDS = 2


def search(lines: Iterable[str], pattern: "re.Pattern[str]", bounds: dict[str, Any]) -> dict[str, Any]:
    """The matching lines, long ones cut to the part around the first match.

    Line numbers are 0-based and match those of a range, where a line longer than line_length counts as several.
    """
    matches: list[dict[str, Any]] = []
    number = 0
    for raw in lines:
        line = raw.rstrip("\n")
        found = pattern.search(line)
        if found is not None:
            if len(matches) >= bounds["limit"]:
                return {"matches": matches, "more": True}
            start = max(0, found.start() - bounds["excerpt"] // 4)
            at = number + found.start() // bounds["line_length"]
            matches.append({"line": at, "text": line[start : start + bounds["excerpt"]]})
        number += max(1, -(-len(line) // bounds["line_length"]))
    return {"matches": matches, "more": False}


def main() -> None:
    # Limit CPU time, which does not depend on how busy the machine is. Where there is no such limit,
    # the parent kills the process after a longer time.
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        pass
    else:
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        # Run with the lowest priority.
        os.nice(10)
    # Split at \n only, as for reading a range.
    sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # type: ignore[union-attr]
    bounds = json.loads(sys.stdin.readline())
    try:
        pattern = re.compile(bounds["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        answer: dict[str, Any] = {"error": str(error) or type(error).__name__}
    else:
        answer = search(sys.stdin, pattern, bounds)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
