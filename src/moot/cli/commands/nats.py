"""`moot nats`: a NATS server for this machine, and the configuration of one for several machines."""

import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import find_paths
from moot.cli.setup.config_edit import write_config
from moot.daemon.config.broker_keys import is_broker_name
from moot.domain.errors import BadRequest, Unavailable

if TYPE_CHECKING:
    from moot.broker.server_config import NatsUser

_DEFAULT_PORT = 4222


@click.group(cls=CommandGroup)
def nats() -> None:
    """The NATS server that carries messages between daemons: dev, config."""


@nats.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=_DEFAULT_PORT,
    show_default=True,
    help="Port; 0 chooses a free one.",
)
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Where it keeps its data.")
@output.json_option
def dev(port: int, folder: Path | None) -> int:
    """Run a NATS server for the daemons of this machine until Ctrl-C. Other machines cannot reach it."""
    from moot.broker.nats_server import LocalServer  # noqa: PLC0415 - only this command starts one

    server = LocalServer((folder or find_paths().data / "nats").absolute(), port=port)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        server.start()
        assert server.process is not None
        data = {"url": server.url, "pid": server.process.pid, "log": str(server.log)}
        output.emit(data | {"config": _make_config_lines(server.url)}, render=_render_dev)
        sys.stdout.flush()
        return server.process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()


@nats.command()
@click.argument("daemons", nargs=-1, required=True, metavar="DAEMON...")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=Path("nats"), show_default=True, help="Where to write."
)
@click.option(
    "--listen", default="0.0.0.0:4222", show_default=True, metavar="HOST:PORT", help="Where the server listens."
)
@output.json_option
def config(daemons: Sequence[str], folder: Path, listen: str) -> None:
    """Write the configuration of a server on which each DAEMON can act only under its own name.

    Beside it are the credentials of each daemon. Those that exist are kept, so that a daemon can be added later: name
    all daemons again. The earlier configuration is kept as nats-server.conf.old.
    """
    _check(daemons, listen)
    try:
        from moot.broker.server_config import make_server_config, make_user  # noqa: PLC0415 - needs the extra

        folder = folder.absolute()
        users = {name: _make_user(folder / f"{name}.nk", make_user) for name in daemons}
    except ImportError as error:
        raise Unavailable("nats-py is not installed", fix="Run: pip install 'moot[nats]'") from error
    file = folder / "nats-server.conf"
    text = make_server_config(users, listen=listen, folder=folder)
    earlier = _keep_earlier(file, text)
    write_config(file, text)
    for name, user in users.items():
        write_config(folder / f"{name}.nk", f"{user.seed}\n")
    host, _, port = listen.rpartition(":")
    url = f"nats://{'HOST' if host in ('0.0.0.0', '[::]') else host}:{port}"
    written = [
        {
            "name": name,
            "credentials": str(folder / f"{name}.nk"),
            "config": [*_make_config_lines(url), f'name = "{name}"', f'credentials = "file:{folder / name}.nk"'],
        }
        for name in users
    ]
    start = f"{_find_program()} -c {shlex.quote(str(file))}"
    output.emit({"file": str(file), "earlier": earlier, "start": start, "daemons": written}, render=_render_config)


def _check(daemons: Sequence[str], listen: str) -> None:
    for name in daemons:
        if not is_broker_name(name):
            raise BadRequest(f"{ascii(name)} cannot be the name of a daemon", fix="Use a-z, 0-9 and -, such as laptop.")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535 or any(character in host for character in ' "\\\n'):
        raise BadRequest("--listen needs HOST:PORT", fix="For example --listen 0.0.0.0:4222.")


def _make_user(file: Path, make: Callable[[str], "NatsUser"]) -> "NatsUser":
    """Return the user whose seed is in the file, or a new one."""
    try:
        return make(_read_seed(file))
    except ValueError as error:
        raise BadRequest(f"{file} has no credentials", fix="Remove it; then new ones are made.") from error


def _keep_earlier(file: Path, text: str) -> str:
    """Keep a configuration that is about to be replaced by another one, and return its new path; empty without one."""
    kept = file.with_name(f"{file.name}.old")
    try:
        if file.read_bytes() == text.encode():
            return ""
        file.replace(kept)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise BadRequest(f"{file} cannot be kept as {kept}", fix="Correct its permissions, or remove it.") from error
    return str(kept)


def _read_seed(file: Path) -> str:
    """Return the seed of a daemon that has one already."""
    try:
        return file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} cannot be read", fix="Correct its permissions, or remove it.") from error


def _find_program() -> str:
    """Return how the server is called here; its name if it is yet to be installed."""
    from moot.broker.nats_server import find_server  # noqa: PLC0415 - not for the other commands

    try:
        found = str(find_server())
    except Unavailable:
        return "nats-server"
    return "nats-server" if shutil.which("nats-server") == found else shlex.quote(found)


def _make_config_lines(url: str) -> list[str]:
    return ["[broker]", f'url = "{url}"']


def _render_dev(data: dict[str, Any]) -> str:
    lines = "\n".join(f"  {line}" for line in data["config"])
    started = f"NATS is running at {data['url']} (pid {data['pid']}). Ctrl-C stops it; its log is {data['log']}."
    return f"{output.wrap_prose(started, sys.stdout)}\nIn config.toml of each daemon:\n{lines}"


def _render_config(data: dict[str, Any]) -> str:
    parts = [f"Start the server: {data['start']}"]
    for daemon in data["daemons"]:
        lines = "\n".join(f"  {line}" for line in daemon["config"])
        text = f"{daemon['name']}: copy {daemon['credentials']} to it. In its config.toml:"
        parts.append(f"{output.wrap_prose(text, sys.stdout)}\n{lines}")
    notes = ["Messages are not encrypted until the file names a certificate (tls)."]
    if data["earlier"]:
        notes.append(f"The earlier configuration is {data['earlier']}: repeat what you have changed in it by hand.")
    return "\n\n".join([*parts, *(output.wrap_prose(note, sys.stdout) for note in notes)])
