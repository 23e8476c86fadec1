"""`moot reload`: reloads configuration and agents. Finds and prints errors in these files, also for `status`."""

import sys
from collections.abc import Collection, Sequence

import click

from moot.cli import output
from moot.cli.connect import find_paths, remote_address, send_request
from moot.cli.exits import Exit
from moot.cli.render import numbers, sanitize, terminal
from moot.domain.errors import ConfigError
from moot.wire import moot_pb2 as pb


@click.command()
@output.json_option
def reload() -> int:
    """Reload the configuration and the agents. Broken files keep their last valid version.

    Changes that need a restart are listed.
    """
    answer = send_request(pb.ClientMessage(reload=pb.ReloadMsg())).reloaded
    data = {"agents": answer.agents, "flaws": list(answer.flaws), "restart": list(answer.restart)}
    data |= {"changed": list(answer.changed), "changed_agents": list(answer.changed_agents)}
    ignored = set(map(sanitize.clean, _find_ignored_keys()))
    broken = [flaw for flaw in answer.flaws if sanitize.clean(flaw) not in ignored]
    stays = ""
    if find_config_flaws():
        stays = "The configuration is broken; the last valid one is still used."
    elif broken:
        stays = "Broken files keep their last valid version."
    elif answer.flaws:
        stays = "The rest of the configuration is used."
    error = files_error(broken, f"{stays} Correct it, then reload again.") if broken else None
    output.emit(data, render=lambda _: _render_reload(answer), error=error)
    if answer.flaws and not output.wants_json():
        print_flaws(answer.flaws, ignored=ignored)
        output.print_prose(stays)
    if answer.restart and not output.wants_json():
        keys = ", ".join(map(sanitize.line, answer.restart))
        output.print_note(output.wrap_prose(f"Needs a restart (moot down, moot up): {keys}."))
    return int(Exit.BAD_CONFIG if broken else Exit.OK)


def _render_reload(answer: pb.Reloaded) -> str:
    lines = [f"{numbers.format_plural(answer.agents, 'agent')} loaded."]
    for what, found in (("Configuration", answer.changed), ("Agents", answer.changed_agents)):
        if found:
            lines.append(f"{what} changed: {', '.join(map(sanitize.line, found))}.")
    if len(lines) == 1 and not answer.flaws:
        lines[0] += " Configuration and agents are unchanged."
    return output.wrap_prose("\n".join(lines), sys.stdout, indent="  ")


def files_error(flaws: Sequence[str], fix: str) -> ConfigError:
    """Return the error of files that cannot be used, with all their flaws."""
    return ConfigError("\n".join(flaws), fix=fix)


def print_flaws(flaws: Sequence[str], *, ignored: Collection[str] = ()) -> None:
    """Print errors in files; those in `ignored` as warnings."""
    for flaw in map(sanitize.clean, flaws):
        label, colour = ("warning: ", "yellow") if flaw in ignored else ("error: ", "red")
        output.print_note(terminal.paint(label, sys.stderr, fg=colour) + flaw)


def find_config_flaws() -> list[str]:
    """Errors in the local configuration; nothing for a remote daemon."""
    from moot.daemon.config.broken_config import BrokenConfig  # noqa: PLC0415 - only this command reads the file
    from moot.daemon.config.config_file import load_config  # noqa: PLC0415 - only this command reads the file

    if remote_address():
        return []
    try:
        load_config(find_paths().config)
    except BrokenConfig as broken:
        return [str(flaw) for flaw in broken.errors]
    return []


def _find_ignored_keys() -> list[str]:
    """Unknown keys in the configuration, which are ignored."""
    from moot.daemon.config.broken_config import BrokenConfig  # noqa: PLC0415 - only this command reads the file
    from moot.daemon.config.config_file import load_config  # noqa: PLC0415 - only this command reads the file

    try:
        return [str(flaw) for flaw in load_config(find_paths().config)[1]]
    except BrokenConfig as broken:
        return [str(flaw) for flaw in broken.warnings]
