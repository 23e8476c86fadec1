"""Stores the API key of a model for `init`: in the daemon's vault, in the system keyring, or not at all; finds it."""

from collections.abc import Mapping

from msgspec.structs import replace

from moot.cli.connect import send_request
from moot.cli.setup.providers import Candidate
from moot.domain.config import ModelConfig
from moot.domain.errors import ConfigError
from moot.domain.reference import KEYRING, SECRET
from moot.wire import moot_pb2 as pb

KEY_STORES = ("vault", "keyring", "env")


def is_stored(reference: str) -> bool:
    """Whether a reference names a key that the daemon finds by itself."""
    return reference.startswith((f"{SECRET}:", f"{KEYRING}:"))


def with_stored_key(candidate: Candidate, existing: ModelConfig | None, environ: Mapping[str, str]) -> Candidate:
    """The candidate with the key that is stored for this server, unless the environment has one."""
    if existing is None or not is_stored(existing.api_key) or environ.get(candidate.variable, "").strip():
        return candidate
    address = candidate.base_url.rstrip("/")
    if (existing.provider, existing.base_url.rstrip("/")) != (candidate.provider, address):
        return candidate
    return replace(candidate, api_key=existing.api_key, variable="")


def store_key(reference: str, key: str, *, store: str) -> str:
    """Store the key of an `env:` reference; return the reference to where it is now."""
    name = reference.partition(":")[2]
    if store == "vault":
        # Agents have no use for it, so no call may.
        scope = pb.SecretScope(configuration_only=True)
        send_request(pb.ClientMessage(set_secret=pb.SetSecretMsg(name=name, value=key, scope=scope)))
        return f"secret:{name}"
    if store == "keyring":
        _store_in_keyring(name, key)
        return f"keyring:{name}"
    return reference


def _store_in_keyring(name: str, key: str) -> None:
    try:
        import keyring  # noqa: PLC0415 - an extra, and slow to import
        import keyring.errors  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "keyring is not installed", fix="Run: pip install 'moot[keyring]', or use --key-store vault."
        ) from error
    try:
        keyring.set_password("moot", name, key)
    except keyring.errors.NoKeyringError as error:
        raise ConfigError("there is no keyring here", fix="Use --key-store vault. Nothing was written.") from error
    except keyring.errors.KeyringError as error:
        raise ConfigError(
            f"the keyring cannot be written: {error}", fix="Unlock it, or use --key-store vault."
        ) from error


def advise_key_place(reference: str) -> str:
    """What to do about a key that the daemon does not find where it was stored."""
    if reference.startswith("keyring:"):
        return "Run `moot init` with --key-store vault, or restart the daemon where it can use the keyring."
    return "Run `moot init` without --key-store env, or restart the daemon where the key is set."


def describe_key_place(reference: str) -> str:
    kind, _, name = reference.partition(":")
    if kind == "secret":
        return f"The key is stored in Moot's vault as {name}, not for agents; `moot secrets set {name}` replaces it."
    if kind == "keyring":
        return f"The key is stored in the keyring as {name}."
    return f"The key stays in {name}; the daemon must always be started with it set."
