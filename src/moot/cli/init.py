"""moot init: set up a model provider, with one real completion before anything is written."""

import asyncio
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from moot.cli import output, safe, setup
from moot.cli.config_edit import set_aside, with_default_model, write_config
from moot.cli.connect import answers, paths
from moot.cli.models import fetch
from moot.cli.setup import BY_KEY, EMBEDDED, Candidate
from moot.client.connection import connect
from moot.daemon.config import BrokenConfig, load_config
from moot.daemon.paths import Paths
from moot.domain.config import PROVIDERS, Config, ModelConfig, default_config
from moot.domain.errors import BadRequest, ConfigError, ModelError, MootError
from moot.models.pullable import MODELS
from moot.wire import moot_pb2 as pb

_NAMES = sorted({*PROVIDERS, "ollama", "lmstudio", *(each.name for each in BY_KEY)} - {"scripted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line asks for."""

    provider: str
    model: str
    base_url: str
    api_key_env: str
    may_ask: bool
    yes: bool

    @property
    def are_explicit(self) -> bool:
        return bool(self.provider or self.model or self.base_url or self.api_key_env)


@click.command()
@click.option("--provider", type=click.Choice(_NAMES), help="Which provider to use.")
@click.option("--model", default="", help="The provider's name of the model.")
@click.option("--base-url", default="", help="Address of an OpenAI-compatible server.")
@click.option("--api-key-env", default="", metavar="VAR", help="Environment variable with the key.")
@click.option("--yes", is_flag=True, help="Take the first provider that is found, and confirm everything.")
@click.option("--no-input", is_flag=True, help="Never ask; fail where a choice is missing.")
@output.json_option
def init(provider: str | None, model: str, base_url: str, api_key_env: str, yes: bool, no_input: bool) -> None:
    """Set up a model provider.

    Looks for keys in the environment and for Ollama and LM Studio on this machine, makes one real completion, and
    only then writes config.toml. Running it again verifies what is there and repairs it.
    """
    wishes = Wishes(
        provider=provider or "",
        model=model,
        base_url=base_url,
        api_key_env=api_key_env,
        may_ask=not (yes or no_input or output.wants_json()) and sys.stdin.isatty(),
        yes=yes,
    )
    home = paths()
    document = asyncio.run(_init(home, wishes))
    output.emit(document, render=_render)


async def _init(home: Paths, wishes: Wishes) -> dict[str, Any]:
    config, broken = _read(home.config)
    if broken is None and not wishes.are_explicit and home.config.exists():
        verified = await _verify(home, config)
        if verified is not None:
            return verified
    candidate = await setup.complete(await _choose(wishes), os.environ)
    model = _over(config.models.get(candidate.name), candidate.config())
    tested = await _test(home, config, model)
    _write(home.config, model, broken, wishes)
    return _document(home, model, tested, written=True) | {"reloaded": await _tell_daemon(home)}


def _read(path: Path) -> tuple[Config, BrokenConfig | None]:
    try:
        return load_config(path)[0], None
    except BrokenConfig as broken:
        output.note(output.paint("The configuration is broken:", sys.stderr, fg="yellow"))
        output.note(safe.clean(broken.message))
        return default_config(), broken


async def _verify(home: Paths, config: Config) -> dict[str, Any] | None:
    """What is already set up, if it works; None, with the reason on stderr, when it does not."""
    model = config.models[config.default_model]
    try:
        tested = await _test(home, config, model)
    except MootError as error:
        output.complain(error)
        output.note(f"The default model {safe.line(model.name)} does not work; looking for another.")
        return None
    return _document(home, model, tested, written=False) | {"reloaded": False}


# ---- choosing -----------------------------------------------------------------------------------


async def _choose(wishes: Wishes) -> Candidate:
    if wishes.are_explicit:
        return _explicit(wishes)
    with output.progress("Looking for keys in the environment and model servers on this machine"):
        found = await setup.detect(os.environ)
    if wishes.may_ask:
        return _ask(found)
    if not wishes.yes:
        names = ", ".join(each.name for each in found)
        raise BadRequest(
            f"there is nobody to ask which provider to use; found: {names}",
            fix="Say --provider NAME, or --yes for the first one.",
        )
    return found[0]


def _explicit(wishes: Wishes) -> Candidate:
    """The candidate the options describe; what they leave out comes from what is known of the provider."""
    known = {each.name: each for each in (*setup.servers(os.environ), *BY_KEY, *setup.with_keys(os.environ))}
    name = wishes.provider or "openai"
    candidate = EMBEDDED if name == "local" else known[name]
    if wishes.base_url and name == "openai":
        # Somebody else's server: OpenAI's key and models have no business there.
        candidate = Candidate(name="own", title=wishes.base_url, provider="openai")
    if candidate is EMBEDDED and wishes.model in MODELS:
        candidate = replace(candidate, name=wishes.model)
    return replace(
        candidate,
        base_url=wishes.base_url or candidate.base_url,
        variable=wishes.api_key_env or candidate.variable,
        model=wishes.model or candidate.model,
    )


def _ask(found: list[Candidate]) -> Candidate:
    for number, each in enumerate(found, 1):
        source = f" ({each.variable} is set)" if each.variable else ""
        model = f", {safe.line(each.model)}" if each.model and each.provider != "local" else ""
        output.note(f"  {number}. {each.title}{source}{model}")
    number = click.prompt("Which one", default=1, type=click.IntRange(1, len(found)), err=True)
    chosen = found[int(number) - 1]
    if chosen.provider == "local":
        return chosen
    model = click.prompt(
        "Model (empty lets Moot choose)", default=chosen.model, show_default=bool(chosen.model), err=True
    )
    return replace(chosen, model=str(model).strip())


def _over(existing: ModelConfig | None, model: ModelConfig) -> ModelConfig:
    """The new table over an existing one of that name: prices, window and the like stay."""
    if existing is None or existing.provider != model.provider:
        return model
    return replace(existing, base_url=model.base_url, model=model.model, api_key=model.api_key)


# ---- testing and writing ------------------------------------------------------------------------


async def _test(home: Paths, config: Config, model: ModelConfig) -> dict[str, Any]:
    """One real completion. Raises ModelError, and then nothing has been written."""
    from moot.daemon.app import SystemClock  # noqa: PLC0415 - the engine and the adapters, for this step alone
    from moot.engine.probe import probe  # noqa: PLC0415
    from moot.models.catalog import Catalog  # noqa: PLC0415
    from moot.models.pull import is_pulled  # noqa: PLC0415

    if model.provider == "local" and model.model in MODELS and not is_pulled(model.model, home.models):
        await asyncio.to_thread(fetch, model.model, home.models)
    catalog = Catalog(replace(config, models={model.name: model}, default_model=model.name), data_dir=home.data)
    try:
        with output.progress(f"Asking {safe.line(model.model or model.name)} to say hello"):
            probed = await probe(catalog.get(), clock=SystemClock())
    except ModelError as error:
        raise ModelError(error.message, fix=f"{error.fix} Nothing was written.".strip()) from error
    finally:
        await catalog.close()
    return {"content": probed.content, "seconds": round(probed.seconds, 3)}


def _write(path: Path, model: ModelConfig, broken: BrokenConfig | None, wishes: Wishes) -> None:
    text = path.read_text(encoding="utf-8-sig", errors="replace") if path.exists() else ""
    try:
        changed = with_default_model(text, model)
    except ConfigError as error:
        if broken is None or not _may_replace(path, wishes):
            raise
        kept = set_aside(path)
        output.note(f"The old file is kept as {kept}.")
        output.note(safe.clean(error.message))
        changed = with_default_model("", model)
    write_config(path, changed)


def _may_replace(path: Path, wishes: Wishes) -> bool:
    if wishes.may_ask:
        return click.confirm(f"{path} cannot be read. Put it aside and begin a new one?", err=True)
    return wishes.yes


async def _tell_daemon(home: Paths) -> bool:
    """Let a running daemon read the new configuration; none running is fine too."""
    if not await answers(home):
        return False
    async with connect(home.socket) as connection:
        await connection.request(pb.ClientMessage(reload=pb.ReloadMsg()))
    return True


def _document(home: Paths, model: ModelConfig, tested: dict[str, Any], *, written: bool) -> dict[str, Any]:
    return {
        "name": model.name,
        "provider": model.provider,
        "model": model.model,
        "base_url": model.base_url,
        "api_key": model.api_key,
        "config": str(home.config),
        "written": written,
        "tested": tested,
    }


def _render(data: dict[str, Any]) -> str:
    said = safe.line(data["tested"]["content"], 100)
    state = f"Wrote {data['config']}." if data["written"] else f"{data['config']} is good as it is."
    lines = [f"{safe.line(data['name'])} answered: {said}", state]
    if data["written"] and data["api_key"]:
        variable = data["api_key"].removeprefix("env:")
        lines.append(f"The key stays in {variable}; the daemon must be started with it set.")
    lines.append("Next: moot chat moot")
    return "\n".join(lines)
