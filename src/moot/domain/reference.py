"""References in the configuration to values stored elsewhere: `env:VARIABLE` or `keyring:NAME`. Pure."""

from msgspec import Struct

from moot.domain.errors import ConfigError

ENVIRONMENT = "env"
KEYRING = "keyring"


class Reference(Struct, frozen=True):
    kind: str
    name: str

    @property
    def where(self) -> str:
        """A description of the place, for people."""
        return f"the environment variable {self.name}" if self.kind == ENVIRONMENT else f"the keyring's '{self.name}'"


def parse(text: str, *, place: str) -> Reference:
    kind, _, name = text.partition(":")
    if kind in (ENVIRONMENT, KEYRING) and name:
        return Reference(kind, name)
    # The text is not quoted in the error: it may be the secret itself.
    raise ConfigError(
        f"{place} takes a secret as env:VARIABLE or keyring:NAME, never the secret itself.",
        fix='Put it into an environment variable of the daemon and write "env:THAT_VARIABLE".',
    )


def is_reference(text: str) -> bool:
    return text.startswith((f"{ENVIRONMENT}:", f"{KEYRING}:"))
