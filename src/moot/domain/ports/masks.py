"""The Masks port: what is hidden from models. Implemented in redaction/."""

from typing import Protocol


class HeardText(Protocol):
    """Text from a model that arrives in chunks. A possible beginning of a mask is held back."""

    def feed(self, text: str) -> str: ...
    def rest(self) -> str: ...


class Masks(Protocol):
    """Secrets are masked permanently. Personal data, if configured, is replaced by placeholders that can be restored.

    `known` maps each placeholder of one prompt to its value: `personal` adds to it, the others read it.
    """

    @property
    def edition(self) -> int:
        """0 while nothing is hidden from models; changes whenever the masks change."""
        ...

    def secrets(self, text: str) -> str: ...
    def personal(self, text: str, known: dict[str, str]) -> str: ...
    def heard(self, text: str, known: dict[str, str]) -> str:
        """Return complete text from a model as people and tools may see it."""
        ...

    def hearing(self, known: dict[str, str]) -> HeardText: ...
