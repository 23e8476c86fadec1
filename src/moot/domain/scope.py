"""Which tools a run may use. A scope can be narrowed and never widened. Pure."""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Scope:
    """A name is allowed when every layer has a pattern for it; no layers allow everything."""

    layers: tuple[tuple[str, ...], ...] = ()

    def __and__(self, other: "Scope") -> "Scope":
        return Scope(self.layers + other.layers)

    def allows(self, name: str) -> bool:
        return all(any(fnmatchcase(name, pattern) for pattern in layer) for layer in self.layers)


ALL_TOOLS = Scope()
NO_TOOLS = Scope(((),))


def only(*patterns: str) -> Scope:
    return Scope((patterns,))
