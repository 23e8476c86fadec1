"""The crypto tools: encrypt, decrypt into a reference, sign, hash. They never return a key or decrypted text."""

import hashlib
from typing import Any

import msgspec

from moot.domain.errors import BadRequest
from moot.domain.ports.secrets import Keys, Secrets
from moot.domain.ports.tool import RunContext, Tool
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.domain.redaction import SECRET_MARK
from moot.domain.secret import KeyInfo

ALGORITHMS = ("sha256", "sha512")
_SINKS = frozenset((Sink.SECRETS,))


def tools(*, keys: Keys, secrets: Secrets) -> list[Tool]:
    return [
        CryptoEncrypt(keys, secrets),
        CryptoDecrypt(keys),
        CryptoSign(keys),
        CryptoHash(),
        CryptoKeys(keys),
    ]


class CryptoEncrypt:
    spec = ToolSpec(
        name="crypto_encrypt",
        safety=Safety.DANGEROUS,
        sinks=_SINKS,
        group="crypto",
        description="Encrypt text with a key of the vault. References such as {{secret:NAME}} in it are replaced by "
        "their values first. The text is not stored in the conversation.",
        parameters={
            "type": "object",
            "properties": {
                "data": {"type": "string", "description": "The text to encrypt.", SECRET_MARK: True},
                "keyId": {"type": "string", "description": "The key to use; default: the default key."},
            },
            "required": ["data"],
        },
    )

    def __init__(self, keys: Keys, secrets: Secrets) -> None:
        self._keys = keys
        self._secrets = secrets

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        data = str(arguments["data"])
        for token, value in (await self._secrets.resolve(data, context, tool=self.spec.name)).items():
            data = data.replace(token, value)
        return _to_json(success=True, ciphertext=await self._keys.encrypt(data, _parse_key_id(arguments)))

    def line(self, arguments: dict[str, Any]) -> str:
        return f"encrypt with the key {_parse_key_id(arguments) or 'default'}"


class CryptoDecrypt:
    spec = ToolSpec(
        name="crypto_decrypt",
        safety=Safety.DANGEROUS,
        sinks=_SINKS,
        group="crypto",
        description="Decrypt a result of crypto_encrypt. Returns a reference, {{decrypt:ID}}, which is replaced by the "
        "text when a command runs. It is valid in this conversation for a few minutes. The text itself is never shown.",
        parameters={
            "type": "object",
            "properties": {
                "ciphertext": {"type": "string", "description": "The base64 text that crypto_encrypt returned."},
                "keyId": {"type": "string", "description": "The key to use; default: the default key."},
            },
            "required": ["ciphertext"],
        },
    )

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        token = await self._keys.decrypt(str(arguments["ciphertext"]), _parse_key_id(arguments), context)
        note = "Use data as is in a command; it is replaced by the decrypted text when the command runs."
        return _to_json(success=True, data=token, note=note)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"decrypt with the key {_parse_key_id(arguments) or 'default'}"


class CryptoSign:
    spec = ToolSpec(
        name="crypto_sign",
        safety=Safety.DANGEROUS,
        sinks=_SINKS,
        group="crypto",
        description="Sign text with a signing key of the vault (Ed25519).",
        parameters={
            "type": "object",
            "properties": {
                "data": {"type": "string", "description": "The exact text to sign."},
                "keyId": {"type": "string", "description": "The key to use; default: the daemon's own."},
            },
            "required": ["data"],
        },
    )

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        # References are signed as text: a signature of the secret would allow testing guesses of it.
        return _to_json(success=True, signature=await self._keys.sign(str(arguments["data"]), _parse_key_id(arguments)))

    def line(self, arguments: dict[str, Any]) -> str:
        return f"sign with the key {_parse_key_id(arguments) or 'local'}"

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        return f"Signs this text:\n{arguments.get('data', '')}"


class CryptoHash:
    spec = ToolSpec(
        name="crypto_hash",
        safety=Safety.SAFE,
        group="crypto",
        description="Compute the hash of a text, in hexadecimal.",
        parameters={
            "type": "object",
            "properties": {
                "data": {"type": "string", "description": "The text."},
                "algorithm": {"type": "string", "enum": list(ALGORITHMS), "description": "Default: sha256."},
            },
            "required": ["data"],
        },
    )

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        algorithm = str(arguments.get("algorithm") or ALGORITHMS[0])
        if algorithm not in ALGORITHMS:
            raise BadRequest(f"unsupported algorithm: {algorithm[:40]} (supported: {', '.join(ALGORITHMS)})")
        digest = hashlib.new(algorithm, str(arguments["data"]).encode()).hexdigest()
        return _to_json(success=True, hash=digest, algorithm=algorithm)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"hash {len(str(arguments.get('data', '')))} characters"


class CryptoKeys:
    spec = ToolSpec(
        name="crypto_keys",
        safety=Safety.SAFE,
        group="crypto",
        description="List the keys of the vault with ids and types.",
        parameters={"type": "object", "properties": {}},
    )

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        found = await self._keys.list_all()
        return _to_json(keys=[_key_data(info) for info in found], count=len(found))

    def line(self, arguments: dict[str, Any]) -> str:
        return "list the keys"


def _parse_key_id(arguments: dict[str, Any]) -> str:
    return str(arguments.get("keyId") or "")


def _key_data(info: KeyInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "name": info.name,
        "type": info.type,
        "createdAt": info.created_at,
        "lastUsedAt": info.used_at,
    }


def _to_json(**fields: Any) -> str:
    return msgspec.json.encode(fields).decode()
