"""Resolves API keys and secrets by reference: `env:VAR` or `keyring:NAME`."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from moot.domain.errors import ConfigError
from moot.domain.reference import KEYRING, Reference, parse

# The service name of our keyring entries.
_OURS = "moot"


async def reveal(reference: str, *, place: str) -> str:
    """Return the referenced value. Raises ConfigError with a fix."""
    found = parse(reference, place=place)
    if found.kind == KEYRING:
        # A keyring talks to another process and may ask the user to unlock it.
        return await asyncio.to_thread(_read_keyring, found, place)
    return _read_environment(found, place, os.environ)


def resolve(reference: str, *, model: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the key of a model; "" for no reference. Raises ConfigError with a fix. May block."""
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


def _read_environment(found: Reference, place: str, environ: Mapping[str, str]) -> str:
    value = environ.get(found.name, "").strip()
    if not value:
        raise ConfigError(
            f"{place} needs {found.where}, which is not set.",
            fix=f"Run: export {found.name}=… in the shell that starts the daemon, then restart it.",
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
        raise ConfigError(
            f"{place} needs {found.where}, which is not there.", fix=f"Run: keyring set {_OURS} {found.name}"
        )
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

    __slots__ = ("_known", "_reference", "_value", "model")

    def __init__(self, reference: str = "", *, model: str, known: Callable[[str, str], None] | None = None) -> None:
        self._known = known
        self._reference = reference
        self._value: str | None = None
        self.model = model

    @classmethod
    def known(cls, value: str, *, model: str) -> "Key":
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
        """Where the key is stored, for people: `the environment variable X`."""
        try:
            return parse(self._reference, place="").where
        except ConfigError:
            return "api_key"

    async def get(self) -> str:
        if self._value is None:
            if self._reference.startswith(f"{KEYRING}:"):
                # A keyring talks to another process and may ask the user to unlock it.
                self._value = await asyncio.to_thread(resolve, self._reference, model=self.model)
            else:
                self._value = resolve(self._reference, model=self.model)
            if self._known is not None and self._value:
                self._known(self._reference.partition(":")[2], self._value)
        return self._value

    def forget(self) -> None:
        if self._reference:
            self._value = None
