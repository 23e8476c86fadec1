"""`moot init`: sets up a model provider and tests it with one real completion before writing anything."""

import asyncio
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from moot.cli import output, prompts
from moot.cli.connect import find_paths, is_answering
from moot.cli.options import program_name
from moot.cli.render import sanitize, terminal
from moot.cli.setup import context_window, providers
from moot.cli.setup.config_edit import move_aside, set_default_model, set_default_name, try_repair, write_config
from moot.cli.setup.providers import BY_KEY, EMBEDDED, WITH_HANDS, Candidate
from moot.cli.setup.pull import pull_model
from moot.client.connection import connect
from moot.daemon.config.config_file import BrokenConfig, load_config
from moot.daemon.paths import Paths
from moot.domain.config import PROVIDERS, Config, ModelConfig, default_config
from moot.domain.errors import BadRequest, ConfigError, ModelError, MootError
from moot.models.pull import is_pulled
from moot.models.pullable import MODELS
from moot.wire import moot_pb2 as pb

_NAMES = sorted({*PROVIDERS, "ollama", "lmstudio", *(each.name for each in BY_KEY)} - {"scripted"})


class InitOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

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
@click.option("--yes", is_flag=True, help="Use the first provider found and confirm everything.")
@click.option("--no-input", is_flag=True, help="Never prompt; fail if a choice is needed.")
@output.json_option
def init(provider: str | None, model: str, base_url: str, api_key_env: str, yes: bool, no_input: bool) -> None:
    """Set up a model provider.

    Looks for keys in the environment and for Ollama and LM Studio on this machine, makes one real completion, and
    only then writes config.toml. Running it again verifies and repairs the configuration.
    """
    wishes = InitOptions(
        provider=provider or "",
        model=model,
        base_url=base_url,
        api_key_env=api_key_env,
        may_ask=not (yes or no_input or output.wants_json()) and sys.stdin.isatty(),
        yes=yes,
    )
    output.emit(_init(find_paths(), wishes), render=_render_result)


def _init(home: Paths, wishes: InitOptions) -> dict[str, Any]:
    """Not a coroutine, because a prompt inside a running event loop would not end at the first Ctrl-C."""
    config, replacing = _read_config(home.config, wishes)
    if not replacing and not wishes.are_explicit and home.config.exists():
        found = _use_existing(home, config, wishes)
        if found is not None:
            return found
    candidate = asyncio.run(providers.choose_model(_choose_candidate(wishes), os.environ))
    model = _merge_table(config.models.get(candidate.name), candidate.config())
    tested = _complete_once(home, config, model)
    # Queried after the completion, since some servers only report a loaded model.
    model = _with_window(config.models.get(candidate.name), model, candidate)
    if replacing:
        output.print_note(f"The old file is kept as {move_aside(home.config)}.")
    write_config(home.config, set_default_model(_read_text(home.config), model))
    return _init_data(home, model, tested, written=True) | {"reloaded": asyncio.run(_reload_daemon(home))}


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig", errors="replace") if path.exists() else ""


def _read_config(path: Path, wishes: InitOptions) -> tuple[Config, bool]:
    """The existing configuration, and whether a new file must replace one that cannot be repaired."""
    try:
        return load_config(path)[0], False
    except BrokenConfig as broken:
        output.print_note(terminal.paint("The configuration is broken:", sys.stderr, fg="yellow"))
        output.print_note(sanitize.clean(broken.message))
        mended = try_repair(path, EMBEDDED.config())
        if mended is not None:
            return mended, False
        _require_replacement(path, broken, wishes)
        return default_config(), True


def _require_replacement(path: Path, broken: BrokenConfig, wishes: InitOptions) -> None:
    """Ask before a new file replaces a broken one."""
    kept = f"{path.name}.broken"
    if wishes.yes:
        return
    if not wishes.may_ask:
        raise ConfigError(
            broken.message,
            fix=f"Correct the file, or let `moot init --yes` write a new one; this one is then kept as {kept}.",
        )
    if not prompts.confirm(f"Write a new file, and keep this one as {kept}?", default=True):
        raise ConfigError(broken.message, fix=f"Nothing was written. Correct {path}, then run `moot init` again.")


def _use_existing(home: Paths, config: Config, wishes: InitOptions) -> dict[str, Any] | None:
    """The default model if it works, else another configured one; None if none works."""
    text = _read_text(home.config)
    document = tomllib.loads(text)
    own = [config.models[name] for name in document.get("models", {}) if name in config.models]
    default = document.get("default_model", "" if own else config.default_model)
    if isinstance(default, str) and default in config.models:
        tested = _try_model(home, config, config.models[default])
        if tested is not None:
            return _init_data(home, config.models[default], tested, written=False) | {"reloaded": False}
        output.print_note(f"The default model {sanitize.line(default)} does not work; looking for another.")
    for model in own:
        tested = _try_model(home, config, model) if model.name != default and _is_available(home, model) else None
        if tested is not None and _may_use(model, wishes):
            write_config(home.config, set_default_name(text, model.name))
            return _init_data(home, model, tested, written=True) | {"reloaded": asyncio.run(_reload_daemon(home))}
    return None


def _is_available(home: Paths, model: ModelConfig) -> bool:
    """Whether a model can be tested without pulling it."""
    return model.provider != "local" or model.model not in MODELS or is_pulled(model.model, home.models)


def _may_use(model: ModelConfig, wishes: InitOptions) -> bool:
    said = f"{sanitize.line(model.name)}, which the configuration has already, works."
    if wishes.may_ask:
        return prompts.confirm(f"{said} Make it the default?", default=True)
    output.print_note(f"{said} It becomes the default.")
    return True


def _try_model(home: Paths, config: Config, model: ModelConfig) -> dict[str, Any] | None:
    """The model's answer, or None with the reason on stderr."""
    try:
        return _complete_once(home, config, model)
    except MootError as error:
        output.print_error(error)
        return None


# ---- choosing -----------------------------------------------------------------------------------


def _choose_candidate(wishes: InitOptions) -> Candidate:
    if wishes.are_explicit:
        return _explicit_candidate(wishes)
    with output.progress("Looking for keys in the environment and model servers on this machine"):
        found = asyncio.run(providers.detect(os.environ))
    if wishes.may_ask:
        return _ask_candidate(found)
    if not wishes.yes:
        names = ", ".join(each.name for each in found)
        raise BadRequest(
            f"cannot prompt for the provider; found: {names}",
            fix="Use --provider NAME, or --yes for the first one.",
        )
    return found[0]


def _explicit_candidate(wishes: InitOptions) -> Candidate:
    """The candidate described by the options, completed with the provider's known defaults."""
    known = {
        each.name: each for each in (*providers.list_servers(os.environ), *BY_KEY, *providers.list_keyed(os.environ))
    }
    name = wishes.provider or "openai"
    candidate = EMBEDDED if name == "local" else known[name]
    if wishes.base_url and name == "openai":
        # A custom server must not receive OpenAI's key or model names.
        candidate = Candidate(name="own", title=wishes.base_url, provider="openai")
    if candidate is EMBEDDED and wishes.model in MODELS:
        candidate = replace(candidate, name=wishes.model)
    return replace(
        candidate,
        base_url=wishes.base_url or candidate.base_url,
        variable=wishes.api_key_env or candidate.variable,
        model=wishes.model or candidate.model,
    )


def _ask_candidate(detected: list[Candidate]) -> Candidate:
    found = [*detected, WITH_HANDS]
    for number, each in enumerate(found, 1):
        source = f" ({each.variable} is set)" if each.variable else ""
        model = f", {sanitize.line(each.model)}" if each.model and each.provider != "local" else ""
        output.print_note(f"  {number}. {each.title}{source}{model}")
    if not any(each.variable for each in found):
        keys = ", ".join(f"{each.title} ({each.variable})" for each in BY_KEY)
        output.print_note(output.wrap_prose(f"With a key in the environment there would also be: {keys}."))
    chosen = found[prompts.ask_number("Which one", default=1, most=len(found)) - 1]
    if chosen.provider == "local":
        return chosen
    return replace(chosen, model=prompts.ask_line("Model (empty lets Moot choose)", default=chosen.model))


def _merge_table(existing: ModelConfig | None, model: ModelConfig) -> ModelConfig:
    """The new table merged over an existing one of that name, keeping prices, window and the like."""
    if existing is None or existing.provider != model.provider:
        return model
    return replace(existing, base_url=model.base_url, model=model.model, api_key=model.api_key)


def _with_window(existing: ModelConfig | None, model: ModelConfig, candidate: Candidate) -> ModelConfig:
    """The model with the context window its server reports; a configured window is kept."""
    if not context_window.is_queried(model) or (
        model.window and existing is not None and existing.model == model.model
    ):
        return model
    with output.progress("Querying the context window"):
        told = asyncio.run(context_window.query_window(candidate, os.environ))
    return replace(model, window=told or model.window)


# ---- testing and writing ------------------------------------------------------------------------


def _complete_once(home: Paths, config: Config, model: ModelConfig) -> dict[str, Any]:
    """Make one real completion. Raises ModelError; nothing has been written by then."""
    if not _is_available(home, model):
        pull_model(model.model, home.models)
    only = replace(config, models={model.name: model}, default_model=model.name)
    try:
        with output.progress(f"Asking {sanitize.line(model.model or model.name)} to say hello"):
            return asyncio.run(_probe(home, only))
    except ModelError as error:
        raise ModelError(error.message, fix=f"{error.fix} Nothing was written.".strip()) from error


async def _probe(home: Paths, config: Config) -> dict[str, Any]:
    from moot.daemon.clock import SystemClock  # noqa: PLC0415 - the engine and the adapters, for this step alone
    from moot.engine.probe import probe  # noqa: PLC0415
    from moot.models.catalog import Catalog  # noqa: PLC0415

    catalog = Catalog(config, data_dir=home.data)
    try:
        probed = await probe(catalog.get(), clock=SystemClock())
    finally:
        await catalog.close()
    return {"content": probed.content, "seconds": round(probed.seconds, 3)}


async def _reload_daemon(home: Paths) -> bool:
    """Tell the daemon to reload the configuration, if it is running."""
    if not await is_answering(home):
        return False
    async with connect(home.socket) as connection:
        await connection.request(pb.ClientMessage(reload=pb.ReloadMsg()))
    return True


def _init_data(home: Paths, model: ModelConfig, tested: dict[str, Any], *, written: bool) -> dict[str, Any]:
    return {
        "name": model.name,
        "provider": model.provider,
        "model": model.model,
        "base_url": model.base_url,
        "api_key": model.api_key,
        "window": model.window,
        "config": str(home.config),
        "written": written,
        "tested": tested,
    }


def _render_result(data: dict[str, Any]) -> str:
    said = sanitize.line(data["tested"]["content"], 100)
    state = f"Wrote {data['config']}." if data["written"] else f"{data['config']} is valid and unchanged."
    lines = [f"{sanitize.line(data['name'])} answered: {said}", state]
    if data["written"] and data["api_key"]:
        variable = data["api_key"].removeprefix("env:")
        lines.append(f"The key stays in {variable}; the daemon must be started with it set.")
    if data["written"] and (said := _render_window(data)):
        lines.append(said)
    lines.append(f"Next: {program_name()} chat moot")
    return "\n".join(lines)


def _render_window(data: dict[str, Any]) -> str:
    """The context window, if the server reported it."""
    from moot.models.catalog import default_window  # noqa: PLC0415 - the adapters, after they were used

    name = sanitize.line(data["name"])
    if not context_window.is_queried(ModelConfig(name=name, provider=data["provider"], base_url=data["base_url"])):
        return ""
    if data["window"]:
        return f"Context window: {data['window']} tokens (`window` in [models.{name}])."
    assumed = default_window(data["provider"], data["base_url"])
    return (
        f"Its server does not report a context window; {assumed} tokens are assumed. If it is larger, set `window` in "
        f"[models.{name}]: more tools and a longer history fit then."
    )
