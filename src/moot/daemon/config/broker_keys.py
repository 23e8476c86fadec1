"""The keys of [broker]."""

import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from moot.daemon.config.agent_keys import make_absolute
from moot.daemon.config.keys import Key, check_above_zero, check_between
from moot.domain.config import MEMORY_BROKER, BrokerConfig

_URL = re.compile(r"(?:nats|tls)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?/?")
_PORTS = range(1, 65_536)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CREDENTIALS = re.compile(r"file:[^\0]+|secret:[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_FILE = "file:"


def _check_url(value: str) -> str:
    found = _URL.fullmatch(value)
    if value == MEMORY_BROKER or (found is not None and int(found[1] or _PORTS[0]) in _PORTS):
        return ""
    return 'must be "memory:", "nats://HOST:PORT" or "tls://HOST:PORT", without a password'


def _check_name(value: str) -> str:
    return "" if not value or is_broker_name(value) else "must be at most 63 of a-z, 0-9 and -, such as laptop"


def is_broker_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _check_credentials(value: str) -> str:
    if not value or _CREDENTIALS.fullmatch(value):
        return ""
    return 'must be "file:PATH" or "secret:NAME", never the credentials themselves; `moot secrets set NAME` stores them'


def _check_path(value: str) -> str:
    return "must be a path, without a NUL character" if "\0" in value else ""


BROKER_KEYS = (
    Key(
        "url",
        str,
        "What carries messages to other daemons: `memory:` (none), `nats://HOST:PORT`, or `tls://HOST:PORT`.",
        "memory:",
        _check_url,
    ),
    Key("name", str, "Name of this daemon for the others; empty is the name of the machine.", "", _check_name),
    Key(
        "credentials",
        str,
        'Where the credentials are: "file:PATH" or "secret:NAME". An nkey seed, a NATS .creds file, or USER:PASSWORD.',
        "",
        _check_credentials,
    ),
    Key(
        "ca_file", str, "Certificate of the authority that signed the server's; empty is the system's.", "", _check_path
    ),
    Key(
        "accept_unsigned",
        bool,
        "Deliver messages that no known daemon has signed, marked as unverified.",
        "false",
    ),
    Key(
        "max_outbox",
        int,
        "Maximum number of messages to other daemons that wait to be delivered.",
        "10000",
        check_between(1, 10_000_000),
    ),
    Key(
        "outbox_days",
        float,
        "After how many days a message that the other daemon has not received is returned to its sender.",
        "30",
        check_above_zero,
    ),
    Key(
        "max_stream_bytes",
        int,
        "Maximum size of the broker's stream, if this daemon creates it.",
        "1073741824",
        check_between(65_536, 1 << 50),
    ),
)


def read_broker_config(values: dict[str, Any], *, folder: Path) -> BrokerConfig:
    """Return [broker] with absolute paths: `~` is the home folder, others are relative to that of the file."""
    config = BrokerConfig(**values)
    if config.credentials.startswith(_FILE):
        path = make_absolute(config.credentials.removeprefix(_FILE), folder)
        config = replace(config, credentials=f"{_FILE}{path}")
    return replace(config, ca_file=make_absolute(config.ca_file, folder)) if config.ca_file else config
