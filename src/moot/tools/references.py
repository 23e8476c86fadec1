"""Values that a configuration only refers to, `env:VAR` or `keyring:NAME`, looked up when they are needed."""

import asyncio
import os

from moot.domain.errors import ConfigError

KEYRING = "moot"


async def reveal(reference: str, *, place: str) -> str:
    """What the reference stands for. `place` is where it is written, for the error; the value is in no error."""
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        value = os.environ.get(name, "").strip()
        fix = f"Run: export {name}=… in the shell that starts the daemon, then restart it."
        where = f"the environment variable {name}"
    elif kind == "keyring" and name:
        # A keyring talks to another process and may ask the person to unlock it.
        value = await asyncio.to_thread(_from_keyring, name, place)
        fix = f"Run: keyring set {KEYRING} {name}"
        where = f"the keyring's '{name}'"
    else:
        # The text is not repeated: it may well be the secret itself.
        raise ConfigError(f"{place} must be env:VARIABLE or keyring:NAME, never the value itself")
    if not value:
        raise ConfigError(f"{place} needs {where}, which is not set", fix=fix)
    if not value.isprintable():
        raise ConfigError(f"{where} has characters that cannot be part of a key", fix="Copy it again, on one line.")
    return value


def is_reference(value: str) -> bool:
    return value.startswith(("env:", "keyring:"))


def _from_keyring(name: str, place: str) -> str:
    try:
        import keyring  # noqa: PLC0415  an extra, and slow to import
        import keyring.errors  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"{place} is in the keyring, and keyring is not installed", fix="Run: pip install 'moot[keyring]'"
        ) from error
    try:
        return (keyring.get_password(KEYRING, name) or "").strip()
    except keyring.errors.KeyringError as error:
        raise ConfigError(
            f"the keyring could not be read for {place}", fix="Unlock it, or use env:VARIABLE."
        ) from error
