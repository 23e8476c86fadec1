"""The Masks port: what models are not told. Implemented in redaction/."""

from typing import Protocol


class HeardText(Protocol):
    """Text from a model that comes in pieces. What may be the beginning of a mask waits for more."""

    def feed(self, text: str) -> str: ...
    def rest(self) -> str: ...


class Masks(Protocol):
    """Secrets Moot holds are masked for good. Personal data, where that is wanted, has placeholders with a way back.

    `known` is what each placeholder of one prompt stands for: `personal` adds to it, the others read it.
    """

    @property
    def edition(self) -> int:
        """0 while nothing is kept from models; another number whenever the masks are others."""
        ...

    def secrets(self, text: str) -> str: ...
    def personal(self, text: str, known: dict[str, str]) -> str: ...
    def heard(self, text: str, known: dict[str, str]) -> str:
        """Whole text from a model as people and tools may have it."""
        ...

    def hearing(self, known: dict[str, str]) -> HeardText: ...
