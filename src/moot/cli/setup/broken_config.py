"""Repairs or replaces a broken config.toml for `init`, and restores it if `init` fails."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from moot.cli import output, prompts
from moot.cli.render import sanitize, terminal
from moot.cli.setup.config_edit import move_aside, try_repair, write_config
from moot.cli.setup.providers import EMBEDDED
from moot.daemon.config.broken_config import BrokenConfig
from moot.daemon.config.config_file import load_config
from moot.domain.config import Config, default_config
from moot.domain.errors import ConfigError


class BrokenFile(Struct, frozen=True):
    """A configuration the daemon cannot start with: the text to use instead, and whether it replaces the file."""

    text: str
    is_replaced: bool


def read_or_repair(path: Path, *, may_ask: bool, yes: bool) -> tuple[Config, BrokenFile | None]:
    """The existing configuration, repaired or replaced if it is broken."""
    try:
        return load_config(path)[0], None
    except BrokenConfig as broken:
        output.print_note(terminal.paint("The configuration is broken:", sys.stderr, fg="yellow"))
        output.print_note(sanitize.clean(broken.message))
        repaired = try_repair(path, EMBEDDED.config())
        if repaired is not None:
            return repaired[0], BrokenFile(repaired[1], is_replaced=False)
        _require_replacement(path, broken, may_ask=may_ask, yes=yes)
        return default_config(), BrokenFile("", is_replaced=True)


@contextmanager
def make_startable(path: Path, broken: BrokenFile | None) -> Iterator[None]:
    """Replace a broken file by one that a daemon can start with. If the work in this context fails, it is restored."""
    if broken is None:
        yield
        return
    kept = move_aside(path)
    try:
        write_config(path, broken.text)
        yield
    except BaseException:
        kept.replace(path)
        raise
    if broken.is_replaced:
        output.print_note(f"The old file is kept as {kept}.")
    else:
        kept.unlink()


def _require_replacement(path: Path, broken: BrokenConfig, *, may_ask: bool, yes: bool) -> None:
    """Ask before a new file replaces a broken one."""
    kept = f"{path.name}.broken"
    if yes:
        return
    if not may_ask:
        raise ConfigError(
            broken.message,
            fix=f"Correct the file, or let `moot init --yes` write a new one; this one is then kept as {kept}.",
        )
    if not prompts.confirm(f"Write a new file, and keep this one as {kept}?", default=True):
        raise ConfigError(broken.message, fix=f"Nothing was written. Correct {path}, then run `moot init` again.")
