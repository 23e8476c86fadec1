"""A vault over a real store, and a run context to use it from."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.daemon.clock import ManualClock, SystemClock
from moot.daemon.vault.keychain import Keychain
from moot.daemon.vault.master_key import MasterKey
from moot.daemon.vault.vault import Vault
from moot.domain.conversation import ConversationKey
from moot.domain.ports.tool import RunContext, Tool
from moot.redaction.redactor import Redactor
from moot.store.keys import SqliteKeys
from moot.store.secrets import SqliteSecrets
from moot.store.sqlite import open_store
from moot.tools import crypto, secrets


@dataclass(kw_only=True)
class Kit:
    path: Path
    vault: Vault
    keychain: Keychain
    master: MasterKey
    redactor: Redactor
    clock: ManualClock
    tools: dict[str, Tool]

    async def call(self, tool: str, context: RunContext | None = None, **arguments: Any) -> str:
        said = await self.tools[tool](arguments, context or run())
        return said if isinstance(said, str) else said.content


def run(agent: str = "ada", sender: str = "user") -> RunContext:
    async def nobody(_questions: object) -> str:
        raise AssertionError("nobody is asked here")

    return RunContext(
        run_id="run-1",
        key=ConversationKey(agent, sender),
        speaker=agent,
        cwd="/",
        emit=lambda _event: None,
        ask=nobody,
    )


@asynccontextmanager
async def vault_at(folder: Path, *, place: str = "file") -> AsyncIterator[Kit]:
    """A started vault with its files in `folder`; entering again is a restart."""
    store = await open_store(folder / "moot.db", SystemClock())
    try:
        clock, redactor = ManualClock(1_000.0), Redactor()
        master = MasterKey(folder / "vault.key", place=place)
        vault = Vault(secrets=SqliteSecrets(store), master=master, known=redactor, clock=clock)
        keychain = Keychain(keys=SqliteKeys(store), vault=vault, clock=clock)
        made = [*secrets.tools(secrets=vault), *crypto.tools(keys=keychain, secrets=vault)]
        await vault.start()
        yield Kit(
            path=folder,
            vault=vault,
            keychain=keychain,
            master=master,
            redactor=redactor,
            clock=clock,
            tools={tool.spec.name: tool for tool in made},
        )
    finally:
        await store.close()
