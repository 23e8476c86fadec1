"""Reads the credentials with which a daemon identifies itself to a NATS server: what nats.py passes to its client."""

from msgspec import Struct

from moot.domain.errors import ConfigError

_SEED_LENGTH = 58


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
    if "BEGIN NATS USER JWT" in text and "BEGIN USER NKEY SEED" in text:
        return NatsCredentials(creds=text + "\n")
    if text.startswith("SU") and len(text) == _SEED_LENGTH and text.isalnum():
        return NatsCredentials(seed=text)
    user, colon, password = text.partition(":")
    if user and colon and password and "\n" not in text:
        return NatsCredentials(user=user, password=password)
    raise ConfigError(
        "the credentials of the broker are not valid",
        fix="They are an nkey seed (SU…), the text of a NATS .creds file, or USER:PASSWORD in one line.",
    )
