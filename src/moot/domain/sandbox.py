"""The state of the sandbox, as doctor and the tools report it. Pure."""

from msgspec import Struct


class SandboxReport(Struct, frozen=True, kw_only=True):
    """The active mechanism. `mechanism` is bubblewrap, none (chosen by the owner) or missing (no command runs)."""

    mechanism: str
    version: str = ""
    path: str = ""
    # The version of the kernel's Landlock interface in use; 0 if it is not active.
    landlock: int = 0
    seccomp: bool = False
    network: bool = False
    # What limits the number of processes (a control group, rlimit, watcher) and memory (a control group, watcher).
    process_limit: str = ""
    memory_limit: str = ""
    missing: tuple[str, ...] = ()
    fix: str = ""

    @property
    def usable(self) -> bool:
        return self.mechanism != "missing"

    @property
    def confined(self) -> bool:
        return self.mechanism == "bubblewrap"

    def sentence(self) -> str:
        """One line for people."""
        if not self.usable:
            return f"no sandbox: {'; '.join(self.missing)}"
        if not self.confined:
            return "no sandbox, as configured: commands run with everything the daemon may do"
        parts = [
            f"bubblewrap {self.version}",
            f"Landlock {self.landlock}" if self.landlock else "no Landlock",
            "seccomp" if self.seccomp else "no seccomp",
            "network allowed" if self.network else "no network",
            f"processes limited by {self.process_limit}",
            f"memory limited by {self.memory_limit}",
        ]
        return ", ".join(parts)
