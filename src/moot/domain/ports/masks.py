"""The Masks port: what is hidden from models. Implemented in redaction/."""

from typing import Protocol


class UnmaskedText(Protocol):
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

    def mask_secrets(self, text: str) -> str: ...
    def mask_personal(self, text: str, known: dict[str, str]) -> str: ...
    def unmask(self, text: str, known: dict[str, str]) -> str:
        """Return complete text from a model as people and tools may see it."""
        ...

    def unmask_stream(self, known: dict[str, str]) -> UnmaskedText: ...
