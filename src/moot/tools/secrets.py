"""The secret tools. A model can store a secret and refer to it; no tool returns its value."""

from typing import Any

import msgspec

from moot.domain.errors import BadRequest
from moot.domain.ports.secrets import Secrets, holder_of
from moot.domain.ports.tool import RunContext, Tool
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.domain.redaction import SECRET_MARK
from moot.domain.secret import SecretInfo, references

_NAME = {"type": "string", "description": "The name of the secret, such as GITHUB_TOKEN."}
_SINKS = frozenset((Sink.SECRETS,))


def tools(*, secrets: Secrets) -> list[Tool]:
    return [SecretsStore(secrets), SecretsGet(secrets), SecretsList(secrets), SecretsDelete(secrets)]


class SecretsStore:
    spec = ToolSpec(
        name="secrets_store",
        safety=Safety.DANGEROUS,
        sinks=_SINKS,
        group="secrets",
        description="Store a secret value, such as a password or an API key, in the vault. It replaces a secret of the "
        "same name. The value is not stored in the conversation and cannot be read back.",
        parameters={
            "type": "object",
            "properties": {
                "name": _NAME,
                "value": {
                    "type": "string",
                    "description": "The value, or a {{decrypt:…}} reference to one.",
                    SECRET_MARK: True,
                },
            },
            "required": ["name", "value"],
        },
    )

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        name, value = str(arguments["name"]), str(arguments["value"])
        holder = holder_of(context, self.spec.name)
        if (found := references(value)) and found[0].token != value:
            raise BadRequest("a value is either plain text or one reference, not both")
        if found:
            value = (await self._secrets.resolve(value, context, tool=self.spec.name))[value]
        replaced = await self._secrets.store(name, value, holder)
        return _to_json(success=True, message=f"The secret {name} is {'replaced' if replaced else 'stored'}.")

    def line(self, arguments: dict[str, Any]) -> str:
        return f"store the secret {arguments.get('name', '')}"

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        name = str(arguments.get("name", ""))
        if await _find_secret(self._secrets, name, context):
            return f"Replaces the value of the secret {name}. The old value is lost."
        return f"Stores a new secret {name}."


class SecretsGet:
    spec = ToolSpec(
        name="secrets_get",
        safety=Safety.DANGEROUS,
        sinks=_SINKS,
        group="secrets",
        description="Get a reference to a stored secret, of the form {{secret:NAME}}. Write the reference where the "
        "value belongs in a command for exec; it is replaced by the value when the command runs. The value itself is "
        "never shown.",
        parameters={"type": "object", "properties": {"name": _NAME}, "required": ["name"]},
    )

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        name = str(arguments["name"])
        token = await self._secrets.reference(name, context, tool=self.spec.name)
        note = "Use value as is in a command; it is replaced by the secret when the command runs."
        return _to_json(success=True, name=name, value=token, note=note)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"refer to the secret {arguments.get('name', '')}"


class SecretsList:
    spec = ToolSpec(
        name="secrets_list",
        safety=Safety.SAFE,
        group="secrets",
        description="List the secrets you can use: their names, when they were stored and how often they were used.",
        parameters={"type": "object", "properties": {}},
    )

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        found = await self._secrets.list_for(holder_of(context, self.spec.name).sender)
        return _to_json(secrets=[_secret_data(info) for info in found], count=len(found))

    def line(self, arguments: dict[str, Any]) -> str:
        return "list the secrets"


class SecretsDelete:
    spec = ToolSpec(
        name="secrets_delete",
        safety=Safety.DANGEROUS,
        sinks=_SINKS,
        group="secrets",
        description="Delete a stored secret permanently.",
        parameters={"type": "object", "properties": {"name": _NAME}, "required": ["name"]},
    )

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        name = str(arguments["name"])
        await self._secrets.delete(name, holder_of(context, self.spec.name))
        return _to_json(success=True, message=f"The secret {name} is deleted.")

    def line(self, arguments: dict[str, Any]) -> str:
        return f"delete the secret {arguments.get('name', '')}"

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        name = str(arguments.get("name", ""))
        info = await _find_secret(self._secrets, name, context)
        return f"Deletes the secret {name}, used {info.uses} times." if info else f"There is no secret {name}."


async def _find_secret(secrets: Secrets, name: str, context: RunContext) -> SecretInfo | None:
    """Return the secret of this name that belongs to the person the run works for."""
    sender = holder_of(context, "").sender
    return next((info for info in await secrets.list_for(sender) if (info.name, info.owner) == (name, sender)), None)


def _secret_data(info: SecretInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "createdAt": info.created_at,
        "updatedAt": info.updated_at,
        "accessCount": info.uses,
    }


def _to_json(**fields: Any) -> str:
    return msgspec.json.encode(fields).decode()
