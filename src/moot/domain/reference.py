"""References in the configuration to values stored elsewhere: `env:VARIABLE`, `secret:NAME` or `keyring:NAME`. Pure."""

from msgspec import Struct

from moot.domain.errors import ConfigError

ENVIRONMENT = "env"
KEYRING = "keyring"
SECRET = "secret"


class Reference(Struct, frozen=True):
    kind: str
    name: str

    @property
    def where(self) -> str:
        """A description of the place, for people."""
        if self.kind == ENVIRONMENT:
            return f"the environment variable {self.name}"
        return f"the secret '{self.name}'" if self.kind == SECRET else f"the keyring's '{self.name}'"


def parse(text: str, *, place: str) -> Reference:
    kind, _, name = text.partition(":")
    if kind in (ENVIRONMENT, KEYRING, SECRET) and name:
        return Reference(kind, name)
    # The text is not quoted in the error: it may be the secret itself.
    raise ConfigError(
        f"{place} takes a secret as secret:NAME, env:VARIABLE or keyring:NAME, never the secret itself.",
        fix='Store it with `moot secrets set NAME` and write "secret:NAME".',
    )


def is_reference(text: str) -> bool:
    return text.startswith((f"{ENVIRONMENT}:", f"{KEYRING}:", f"{SECRET}:"))
