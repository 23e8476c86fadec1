"""Searches a long text in a child process, so that a slow pattern can be killed.

It is run by its path with nothing but the standard library: the first line of its input is a JSON object with the
pattern and the bounds, the rest is the text. It answers with one JSON object.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

_CPU_SECONDS = 2


def search(lines: Iterable[str], pattern: "re.Pattern[str]", bounds: dict[str, Any]) -> dict[str, Any]:
    """The lines that match, of a long one the part around its first match.

    Numbers count from 0 and fit those of a range, where a line longer than line_length is several.
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
    # Time on a processor is what a pattern costs, however busy the machine is. Not everywhere is there such a limit:
    # the parent kills what takes much longer.
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        pass
    else:
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        # A search may take all the time there is and that nobody else wants.
        os.nice(10)
    # Lines end with \n and nothing else, as they are counted when a range is read.
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
