"""Values that a configuration only refers to, `env:VARIABLE` or `keyring:NAME`, never the value itself. Pure."""

from msgspec import Struct

from moot.domain.errors import ConfigError

ENVIRONMENT = "env"
KEYRING = "keyring"


class Reference(Struct, frozen=True):
    kind: str
    name: str

    @property
    def where(self) -> str:
        """Where a person has to look."""
        return f"the environment variable {self.name}" if self.kind == ENVIRONMENT else f"the keyring's '{self.name}'"


def parse(text: str, *, place: str) -> Reference:
    kind, _, name = text.partition(":")
    if kind in (ENVIRONMENT, KEYRING) and name:
        return Reference(kind, name)
    # The text is not repeated: it may well be the secret itself.
    raise ConfigError(
        f"{place} takes a secret as env:VARIABLE or keyring:NAME, never the secret itself.",
        fix='Put it into an environment variable of the daemon and write "env:THAT_VARIABLE".',
    )


def is_reference(text: str) -> bool:
    return text.startswith((f"{ENVIRONMENT}:", f"{KEYRING}:"))
