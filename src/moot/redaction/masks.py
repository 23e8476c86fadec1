"""Masks text for a model and restores its answers: secrets always, personal data if configured."""

from collections.abc import Callable

from moot.domain.ports.masks import UnmaskedText
from moot.redaction.placeholders import PlaceholderRestorer, Placeholders, restore
from moot.redaction.redactor import Redactor


class ModelMasks:
    """`Masks` of the domain, using the redactor's secrets; `wanted` tells whether personal data is hidden too."""

    def __init__(self, redactor: Redactor, *, wanted: Callable[[], bool], key: Callable[[], bytes]) -> None:
        self._redactor = redactor
        self._wanted = wanted
        self._placeholders = Placeholders(key)

    @property
    def edition(self) -> int:
        return 2 * self._redactor.edition + self._wanted()

    def mask_secrets(self, text: str) -> str:
        return self._redactor.mask_secrets(text)

    def mask_personal(self, text: str, known: dict[str, str]) -> str:
        return self._placeholders.hide(text, known) if self._wanted() else text

    def unmask(self, text: str, known: dict[str, str]) -> str:
        return self._redactor.mask_secrets(restore(text, known))

    def unmask_stream(self, known: dict[str, str]) -> UnmaskedText:
        return _IncomingText(known, self._redactor) if known else self._redactor.open_stream()


class _IncomingText:
    """Restores placeholders first, then redacts secrets."""

    __slots__ = ("_redacted", "_restored")

    def __init__(self, known: dict[str, str], redactor: Redactor) -> None:
        self._restored = PlaceholderRestorer(known)
        self._redacted = redactor.open_stream()

    def feed(self, text: str) -> str:
        return self._redacted.feed(self._restored.feed(text))

    def rest(self) -> str:
        return self._redacted.feed(self._restored.rest()) + self._redacted.rest()
