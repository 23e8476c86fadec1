"""The rows of tokens and secrets in memory. Used by database.py, accounts.py and secrets.py."""

from msgspec import Struct

from moot.domain.secret import SealedSecret, SecretInfo
from moot.domain.token import Token


class TokenRow(Struct, frozen=True, kw_only=True):
    token: Token
    digest: str


class SecretRow(Struct, frozen=True, kw_only=True):
    secret: SealedSecret
    info: SecretInfo
