"""Reads the credentials with which a daemon identifies itself to a NATS server: what nats.py passes to its client."""

import re

from msgspec import Struct

from moot.domain.errors import ConfigError

# The seed of a user: letters and digits of base32.
_SEED = re.compile(r"SU[A-Z2-7]{56}")


class NatsCredentials(Struct, frozen=True, kw_only=True):
    """One of three kinds: an nkey seed, the text of a .creds file (a JWT and a seed), or a user with a password."""

    seed: str = ""
    creds: str = ""
    user: str = ""
    password: str = ""

    @property
    def secrets(self) -> list[str]:
        """The parts that nobody may see."""
        lines = [line for line in self.creds.splitlines() if line and not line.startswith(("-", "*"))]
        return [secret for secret in (self.seed, self.password, *lines) if secret and " " not in secret]


def parse_credentials(text: str) -> NatsCredentials:
    """Recognise the kind of the credentials. They are never part of an error."""
    text = text.strip()
    has_seed = any(_SEED.fullmatch(line.strip()) for line in text.splitlines())
    if "BEGIN NATS USER JWT" in text and "BEGIN USER NKEY SEED" in text and has_seed:
        return NatsCredentials(creds=text + "\n")
    if _SEED.fullmatch(text):
        return NatsCredentials(seed=text)
    user, colon, password = text.partition(":")
    if user and colon and password and "\n" not in text:
        return NatsCredentials(user=user, password=password)
    raise ConfigError(
        "the credentials of the broker are not valid",
        fix="They are an nkey seed (SU…), the text of a NATS .creds file, or USER:PASSWORD in one line.",
    )
