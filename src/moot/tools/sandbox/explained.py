"""Explains failures caused by the sandbox: pinned repository settings, no network. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

# Error messages about a path that is a mount point or read-only.
_REFUSED = ("Device or resource busy", "Read-only file system")
_MOST_LINES = 200
_MOST_NAMES = 3
# Error messages of programs that cannot resolve or reach a host.
_OUT_OF_REACH = re.compile(
    r"could not resolve (?:host|proxy)|unable to resolve host|temporary failure (?:in name resolution|resolving)"
    r"|name or service not known|no address associated with hostname|network is unreachable|bad address '"
    r"|failed to lookup address information|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|\bENETUNREACH\b"
    r"|dial (?:tcp|udp)[^\n]{0,200}(?:lookup|connect: network)",
    re.IGNORECASE,
)
# Their exit codes, because they may have been run with --quiet.
_SILENT = (("curl", (6, 7)), ("wget", (4,)))
_HERE = re.compile(r"localhost|\b127\.|\[?::1\b|0\.0\.0\.0")
_NO_NETWORK = (
    "(Commands have no network here, so nothing outside the sandbox can be reached; a retry does not help. "
    "web_fetch and web_search read pages where you have them. The person can give commands network access with "
    "`network = true` under [sandbox] in config.toml.)"
)


class HeldBack(Struct, frozen=True, kw_only=True):
    """The restrictions of a command: fixed repository settings, and possibly no network."""

    place: str = ""
    paths: Sequence[str] = ()
    # The command, if it has no network.
    offline: str = ""

    def explain(self, printed: str, code: int) -> str:
        """Return why it failed, if its output and exit code show it; otherwise ""."""
        return "\n".join(
            filter(None, (self._explain_pinned(printed), self._explain_network(printed, code) if code else ""))
        )

    def _explain_network(self, printed: str, code: int) -> str:
        if not self.offline:
            return ""
        return _NO_NETWORK if _OUT_OF_REACH.search(printed) or self._is_silent_network_failure(code) else ""

    def _is_silent_network_failure(self, code: int) -> bool:
        """Return whether a download program ended as it does without a network; it may have used a local server."""
        named = any(code in codes and re.search(rf"\b{name}\b", self.offline) for name, codes in _SILENT)
        return named and not _HERE.search(self.offline)

    def _explain_pinned(self, printed: str) -> str:
        """Return why a file could not be changed that a line of the output names."""
        if not self.paths:
            return ""
        lines = [line for line in printed.splitlines() if any(each in line for each in _REFUSED)][:_MOST_LINES]
        found = list(dict.fromkeys(name for line in lines if (name := self._find_name(line))))
        if not found:
            return ""
        named = ", ".join(found[:_MOST_NAMES]) + (" and more" if len(found) > _MOST_NAMES else "")
        return (
            f"(The sandbox keeps commands from changing {named}: git reads it, and would later run commands from it "
            "outside the sandbox. A setting for one command can be given with `git -c name=value …`; for anything else "
            "tell the person which command to run.)"
        )

    def _find_name(self, line: str) -> str:
        """Return the path in the line, or its protected parent, relative to the working directory."""
        start = f"{self.place.rstrip('/')}/"
        names = (path.removeprefix(start) for path in self.paths)
        before = rf"(?<![\w./-])(?:\./|{re.escape(start)})?"
        named = (name for name in names if re.search(rf"{before}{re.escape(name)}(?![\w.-])", line))
        return max(named, key=len, default="")
