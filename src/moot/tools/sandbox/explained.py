"""Says why, where a command failed at something of a repository that the sandbox holds. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# What the system says of a name that is mounted on itself, or can only be read.
_REFUSED = ("Device or resource busy", "Read-only file system")
_MOST_LINES = 200
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What commands in a working directory cannot change of the repository there, by their paths."""

    place: str = ""
    paths: Sequence[str] = ()

    def why(self, printed: str) -> str:
        """Why something could not be changed that a line of this says so of; empty where none does."""
        if not self.paths:
            return ""
        lines = [line for line in printed.splitlines() if any(each in line for each in _REFUSED)][:_MOST_LINES]
        found = list(dict.fromkeys(name for line in lines if (name := self._name_in(line))))
        if not found:
            return ""
        named = ", ".join(found[:_MOST_NAMES]) + (" and more" if len(found) > _MOST_NAMES else "")
        return (
            f"(The sandbox keeps commands from changing {named}: git obeys what stands there, and would run it later, "
            "outside the sandbox. A setting for one command can be given with `git -c name=value …`; anything else the "
            "person has to do themselves, so tell them which command.)"
        )

    def _name_in(self, line: str) -> str:
        """What the line is about, or what that lies in, named from the working directory."""
        start = f"{self.place.rstrip('/')}/"
        names = (path.removeprefix(start) for path in self.paths)
        before = rf"(?<![\w./-])(?:\./|{re.escape(start)})?"
        named = (name for name in names if re.search(rf"{before}{re.escape(name)}(?![\w.-])", line))
        return max(named, key=len, default="")
