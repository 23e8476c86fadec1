"""Resolves API keys and secrets by reference: `env:VAR`, `secret:NAME` (the vault) or `keyring:NAME`."""

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from moot.domain.errors import ConfigError, Forbidden, MootError
from moot.domain.reference import KEYRING, SECRET, Reference, parse

# The `place` of a key that does not exist.
NO_KEY = "no key"

# The service name of our keyring entries.
_OURS = "moot"


# Returns the value of a secret of the vault by its name.
ReadSecret = Callable[[str], Awaitable[str]]


async def reveal(reference: str, *, place: str, read_secret: ReadSecret | None = None) -> str:
    """Return the referenced value. Raises ConfigError with a fix."""
    found = parse(reference, place=place)
    if found.kind == SECRET:
        return await _read_vault(found, place, read_secret)
    if found.kind == KEYRING:
        # A keyring talks to another process and may ask the user to unlock it.
        return await asyncio.to_thread(_read_keyring, found, place)
    return _read_environment(found, place, os.environ)


def resolve(reference: str, *, model: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the key of a model; "" for no reference. Raises ConfigError with a fix. May block.

    Secrets of the vault are read by `Key`, since only the daemon has it open.
    """
    if not reference:
        return ""
    place = _describe_place(model)
    found = parse(reference, place=place)
    if found.kind == KEYRING:
        value = _read_keyring(found, place)
    else:
        value = _read_environment(found, place, os.environ if environ is None else environ)
    # The key goes into a header.
    return _check_value(value, found, good=value.isascii())


def _describe_place(model: str) -> str:
    return f"Model '{model}'"


async def _read_vault(found: Reference, place: str, read_secret: ReadSecret | None) -> str:
    if read_secret is None:
        raise ConfigError(
            f"{place} takes its key from {found.where}, which only the daemon can read.", fix="Start it: moot up"
        )
    try:
        value = await read_secret(found.name)
    except MootError as error:
        # A secret that may not be used here is not stored again, but given another scope.
        fix = f"Run: moot secrets {'scope' if isinstance(error, Forbidden) else 'set'} {found.name}"
        raise ConfigError(f"{place} needs {found.where}: {error.message}.", fix=fix) from error
    return _check_value(value.strip(), found, good=value.strip().isprintable())


def _read_environment(found: Reference, place: str, environ: Mapping[str, str]) -> str:
    value = environ.get(found.name, "").strip()
    if not value:
        raise ConfigError(
            f"{place} needs {found.where}, which is not set for the daemon.",
            fix=f"Run `moot init` where {found.name} is set; it stores the key for the daemon.",
        )
    return _check_value(value, found, good=value.isprintable())


def _read_keyring(found: Reference, place: str) -> str:
    keyring = _import_keyring(place)
    try:
        value = keyring.get_password(_OURS, found.name)
    except keyring.errors.KeyringError as error:
        raise ConfigError(
            f"The keyring could not be read for {place}: {error}", fix='Unlock the keyring, or use "env:VARIABLE".'
        ) from error
    if not value:
        # The program `keyring` is on the PATH only where the environment of Moot is.
        command = f"{shlex.quote(sys.executable)} -m keyring set {_OURS} {found.name}"
        raise ConfigError(f"{place} needs {found.where}, which is not there.", fix=f"Run: {command}")
    text = str(value).strip()
    return _check_value(text, found, good=text.isprintable())


def _import_keyring(place: str) -> Any:
    try:
        import keyring  # noqa: PLC0415  an extra, and slow to import
        import keyring.errors  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"{place} takes a secret from the keyring, and keyring is not installed.",
            fix="Run: pip install 'moot[keyring]'",
        ) from error
    return keyring


def _check_value(value: str, found: Reference, *, good: bool) -> str:
    """Raise for unexpected characters: they are copying mistakes, or attempts to inject a header."""
    if not good:
        raise ConfigError(
            f"What is in {found.where} has characters that cannot be part of a key.",
            fix="Copy it again, without line breaks or quotes.",
        )
    return value


class Key:
    """A key that is looked up on first use, and again after it was refused."""

    __slots__ = ("_on_lookup", "_read_secret", "_reference", "_value", "model")

    def __init__(
        self,
        reference: str = "",
        *,
        model: str,
        on_lookup: Callable[[str, str], None] | None = None,
        read_secret: ReadSecret | None = None,
    ) -> None:
        self._on_lookup = on_lookup
        self._read_secret = read_secret
        self._reference = reference
        self._value: str | None = None
        self.model = model

    @classmethod
    def with_value(cls, value: str, *, model: str) -> "Key":
        """Return a key that needs no lookup, such as that of our own child process."""
        key = cls(model=model)
        key._value = value
        return key

    def __repr__(self) -> str:
        return f"Key({self._reference or 'none'!r})"

    @property
    def is_set(self) -> bool:
        """Whether there is a key at all."""
        return bool(self._reference or self._value)

    @property
    def place(self) -> str:
        """The key for people, by where it is stored: `the key in the environment variable X`."""
        try:
            return f"the key in {parse(self._reference, place='').where}"
        except ConfigError:
            return "the given key" if self._value else NO_KEY

    async def get(self) -> str:
        if self._reference.startswith(f"{SECRET}:"):
            return await self._get_from_vault()
        if self._value is None:
            if self._reference.startswith(f"{KEYRING}:"):
                # A keyring talks to another process and may ask the user to unlock it.
                self._value = await asyncio.to_thread(resolve, self._reference, model=self.model)
            else:
                self._value = resolve(self._reference, model=self.model)
            if self._on_lookup is not None and self._value:
                self._on_lookup(self._reference.partition(":")[2], self._value)
        return self._value

    async def _get_from_vault(self) -> str:
        """Read the vault each time: it has the values in memory, and a replaced secret must be used at once."""
        place = _describe_place(self.model)
        value = await reveal(self._reference, place=place, read_secret=self._read_secret)
        return _check_value(value, parse(self._reference, place=place), good=value.isascii())

    def forget(self) -> None:
        if self._reference:
            self._value = None


class KeySource(Struct, frozen=True, kw_only=True):
    """Where the keys of a catalog come from.

    `on_lookup` is called with each key that is looked up and its name, so that it is redacted everywhere. `value` is
    used instead of the keys that the configuration refers to.
    """

    on_lookup: Callable[[str, str], None] | None = None
    read_secret: ReadSecret | None = None
    value: str = ""

    def build_key(self, reference: str, *, model: str) -> Key:
        if self.value:
            return Key.with_value(self.value, model=model)
        return Key(reference, model=model, on_lookup=self.on_lookup, read_secret=self.read_secret)
