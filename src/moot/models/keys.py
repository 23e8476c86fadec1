"""API keys by reference: `env:VAR` or `keyring:NAME`. The key itself is never shown."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from moot.domain.errors import ConfigError

KEYRING = "moot"


def resolve(reference: str, *, model: str, environ: Mapping[str, str] | None = None) -> str:
    """The key a reference stands for, "" for no reference. Raises ConfigError with the way out. May block."""
    kind, _, name = reference.partition(":")
    if not reference:
        return ""
    if kind == "env" and name:
        return _from_environment(name, model, os.environ if environ is None else environ)
    if kind == "keyring" and name:
        return _from_keyring(name, model)
    # The text is not repeated: it may well be the key itself.
    raise ConfigError(
        f"api_key of model '{model}' must be env:VAR or keyring:NAME, never the key itself.",
        fix='Put the key into an environment variable and write api_key = "env:THAT_VARIABLE".',
    )


def _from_environment(name: str, model: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise ConfigError(
            f"Model '{model}' needs the environment variable {name}, which is not set.",
            fix=f"Run: export {name}=… in the shell that starts the daemon, then restart it.",
        )
    return _printable(value, f"the environment variable {name}")


def _from_keyring(name: str, model: str) -> str:
    keyring = _keyring(model)
    try:
        value = keyring.get_password(KEYRING, name)
    except keyring.errors.KeyringError as error:
        raise ConfigError(
            f"The keyring could not be read for model '{model}': {error}",
            fix='Unlock the keyring, or use api_key = "env:VAR".',
        ) from error
    if not value:
        raise ConfigError(
            f"Model '{model}' needs the key '{name}' in the keyring, which is not there.",
            fix=f"Run: keyring set {KEYRING} {name}",
        )
    return _printable(str(value).strip(), f"the keyring's '{name}'")


def _keyring(model: str) -> Any:
    try:
        import keyring  # noqa: PLC0415  an extra, and slow to import
        import keyring.errors  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"Model '{model}' takes its key from the keyring, and keyring is not installed.",
            fix="Run: pip install 'moot[keyring]'",
        ) from error
    return keyring


def _printable(value: str, place: str) -> str:
    """A key goes into a header: anything but plain characters there is a mistake in copying it."""
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(
            f"The key in {place} has characters that cannot be part of a key.",
            fix="Copy the key again, without line breaks or quotes.",
        )
    return value


class Key:
    """A key that is looked up when first needed, and again after it was refused."""

    __slots__ = ("_reference", "_value", "model")

    def __init__(self, reference: str = "", *, model: str) -> None:
        self._reference = reference
        self._value: str | None = None
        self.model = model

    @classmethod
    def known(cls, value: str, *, model: str) -> "Key":
        """A key that needs no looking up, such as that of our own child process."""
        key = cls(model=model)
        key._value = value
        return key

    def __repr__(self) -> str:
        return f"Key({self._reference or 'none'!r})"

    @property
    def place(self) -> str:
        """Where a person has to look: `the environment variable X`."""
        kind, _, name = self._reference.partition(":")
        if kind == "env":
            return f"the environment variable {name}"
        return f"the keyring's '{name}'" if kind == "keyring" else "api_key"

    async def get(self) -> str:
        if self._value is None:
            if self._reference.startswith("keyring:"):
                # A keyring talks to another process and may ask the person to unlock it.
                self._value = await asyncio.to_thread(resolve, self._reference, model=self.model)
            else:
                self._value = resolve(self._reference, model=self.model)
        return self._value

    def forget(self) -> None:
        if self._reference:
            self._value = None
