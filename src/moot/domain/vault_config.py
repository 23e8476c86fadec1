"""What a person can configure of the vault, as values."""

from dataclasses import dataclass

# auto: the keyring of the system where there is one that works, else a file only the owner can read.
KEY_PLACES = ("auto", "keyring", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultConfig:
    """Where the master key is kept when it is first made, and how long a decrypted value can be referred to."""

    key: str = "auto"
    decrypted_seconds: float = 300.0
