"""`moot init`: sets up a model provider; the daemon makes one real completion before anything is written."""

import asyncio
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from moot.cli import output, prompts
from moot.cli.connect import daemon_client, ensure_running, find_paths, send_request
from moot.cli.program import program_name
from moot.cli.render import sanitize
from moot.cli.setup import providers
from moot.cli.setup.api_keys import (
    KEY_STORES,
    advise_key_place,
    describe_key_place,
    is_stored,
    store_key,
    with_stored_key,
)
from moot.cli.setup.broken_config import make_startable, read_or_repair
from moot.cli.setup.config_edit import set_default_model, set_default_name, write_config
from moot.cli.setup.failed_completion import explain_failure, explain_unused_key
from moot.cli.setup.model_choice import choose_model, list_through_daemon
from moot.cli.setup.provider_menu import choose_provider
from moot.cli.setup.providers import BY_KEY, EMBEDDED, OWN, OWN_SERVER, Candidate
from moot.cli.setup.pull import pull_for_use
from moot.client import daemon_process
from moot.daemon.paths import Paths
from moot.domain.config import PROVIDERS, Config, ModelConfig
from moot.domain.errors import BadRequest, ModelError, MootError
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
    key_store: str
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
@click.option(
    "--key-store",
    type=click.Choice(KEY_STORES),
    default="vault",
    show_default=True,
    help="Where the key is stored; `env` leaves it in the environment, which the daemon must have too.",
)
@click.option("--yes", is_flag=True, help="Use the first provider found and confirm everything.")
@click.option("--no-input", is_flag=True, help="Never prompt; fail if a provider or a model has to be chosen.")
@output.json_option
def init(provider: str | None, yes: bool, no_input: bool, **texts: str) -> None:
    """Set up a model provider.

    Looks for keys in the environment and for Ollama and LM Studio on this machine, or prompts for a key. Lets the
    daemon make one real completion, and only then stores the key and writes config.toml. Running it again verifies and
    repairs the configuration.
    """
    options = InitOptions(
        provider=provider or "",
        **texts,
        may_ask=not (yes or no_input or output.wants_json()) and sys.stdin.isatty(),
        yes=yes,
    )
    output.emit(_init(find_paths(), options), render=_render_result)


def _init(home: Paths, options: InitOptions) -> dict[str, Any]:
    """Not a coroutine, because a prompt inside a running event loop would not end at the first Ctrl-C."""
    text = _read_text(home.config)
    config, broken = read_or_repair(home.config, may_ask=options.may_ask, yes=options.yes)
    if broken is None:
        asyncio.run(_reload_if_running(home))
    with make_startable(home.config, broken):
        if not options.are_explicit and text and (broken is None or not broken.is_replaced):
            found = _use_existing(home, config, text, options)
            if found is not None:
                return found
        return _set_up_candidate(home, config, options)


def _set_up_candidate(home: Paths, config: Config, options: InitOptions) -> dict[str, Any]:
    candidate = _name_server(_choose_candidate(options), config)
    if not options.api_key_env:
        candidate = with_stored_key(candidate, config.models.get(candidate.name), os.environ)
    candidate, environ = _with_key(candidate, options)
    proxy = config.network.proxy
    names = asyncio.run(providers.find_models(candidate, environ, through_daemon=list_through_daemon, proxy=proxy))
    candidate = choose_model(
        candidate,
        names,
        may_ask=options.may_ask and (options.are_explicit or candidate.is_own),
        # A person who was asked for a model has left the choice to Moot.
        may_pick=options.yes or options.may_ask,
    )
    model = _merge_table(config.models.get(candidate.name), candidate.config())
    key = _find_key(model, environ)
    tested = _complete_explained(home, model, candidate, environ, key=key)
    model = _with_window(config.models.get(candidate.name), model, tested["window"])
    return _write_model(home, model, tested, key=key, store=options.key_store)


def _complete_explained(
    home: Paths, model: ModelConfig, candidate: Candidate, environ: Mapping[str, str], *, key: str
) -> dict[str, Any]:
    """Make the completion. If an own server requires a key, say why that of the provider was not sent to it."""
    try:
        return _complete_once(home, model, key=key)
    except ModelError as error:
        if candidate.is_own and not candidate.variable:
            error.fix += explain_unused_key(error.message, environ)
        raise


def _write_model(home: Paths, model: ModelConfig, tested: dict[str, Any], *, key: str, store: str) -> dict[str, Any]:
    """Store the key, make the model the default, and let the daemon use both."""
    if key:
        model = replace(model, api_key=store_key(model.api_key, key, store=store))
    write_config(home.config, set_default_model(_read_text(home.config), model))
    asyncio.run(_reload_daemon())
    _require_ready(home, model)
    return _init_data(home, model, tested, written=True)


def _require_ready(home: Paths, model: ModelConfig) -> None:
    """Raise if the daemon cannot use the model it was told to use."""
    listed = send_request(pb.ClientMessage(list_models=pb.ListModelsMsg())).model_list.models
    problem = next((each.problem for each in listed if each.name == model.name), "it did not read the configuration")
    if problem:
        raise ModelError(
            f"{home.config} was written, but the daemon cannot use {model.name}: {problem}",
            fix=advise_key_place(model.api_key),
        )


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig", errors="replace") if path.exists() else ""


def _use_existing(home: Paths, config: Config, text: str, options: InitOptions) -> dict[str, Any] | None:
    """The default model if it works, else another configured one; None if none works."""
    document = tomllib.loads(text)
    own = [config.models[name] for name in document.get("models", {}) if name in config.models]
    default = document.get("default_model", "" if own else config.default_model)
    asyncio.run(_reload_daemon())
    if isinstance(default, str) and default in config.models:
        found = _try_configured(home, config.models[default], options)
        if found is not None:
            return found
        output.print_prose(f"The default model {sanitize.line(default)} does not work; looking for another.")
    for model in own:
        tested = _try_model(home, model) if model.name != default and _is_available(home, model) else None
        if tested is not None and _may_use(model, options):
            write_config(home.config, set_default_name(text, model.name))
            asyncio.run(_reload_daemon())
            return _init_data(home, model, tested, written=True)
    return None


def _try_configured(home: Paths, model: ModelConfig, options: InitOptions) -> dict[str, Any] | None:
    """Test the default model. A key that is set here and missing in the daemon is stored, if it works."""
    try:
        return _init_data(home, model, _complete_once(home, model, key="", is_configured=True), written=False)
    except MootError as error:
        key = _find_key(model, os.environ)
        # With the key of this shell it may be repaired, and was no error then.
        if not key or options.key_store == "env":
            output.print_error(error)
            return None
    output.print_prose(f"Testing it with the key in {model.api_key.removeprefix('env:')} of this shell.")
    tested = _try_model(home, model, key=key)
    return _write_model(home, model, tested, key=key, store=options.key_store) if tested is not None else None


def _is_available(home: Paths, model: ModelConfig) -> bool:
    """Whether a model can be tested without pulling it."""
    return model.provider != "local" or model.model not in MODELS or is_pulled(model.model, home.models)


def _may_use(model: ModelConfig, options: InitOptions) -> bool:
    text = f"{sanitize.name(model.name)}, which the configuration has already, works."
    if options.may_ask:
        return prompts.confirm(f"{text} Make it the default?", default=True)
    output.print_prose(f"{text} It becomes the default.")
    return True


def _try_model(home: Paths, model: ModelConfig, *, key: str = "") -> dict[str, Any] | None:
    """The model's answer, or None with the reason on stderr."""
    try:
        return _complete_once(home, model, key=key, is_configured=not key)
    except MootError as error:
        output.print_error(error)
        return None


# ---- choosing -----------------------------------------------------------------------------------


def _choose_candidate(options: InitOptions) -> Candidate:
    if options.are_explicit:
        return _explicit_candidate(options)
    with output.progress("Looking for keys in the environment and model servers on this machine"):
        found = asyncio.run(providers.detect(os.environ))
    if options.may_ask:
        return choose_provider(found)
    if not options.yes:
        names = ", ".join(each.name for each in found)
        raise BadRequest(
            f"cannot prompt for the provider; found: {names}",
            fix="Use --provider NAME, or --yes for the first one.",
        )
    return found[0]


def _explicit_candidate(options: InitOptions) -> Candidate:
    """The candidate described by the options, completed with the provider's known defaults."""
    known = {
        each.name: each for each in (*providers.list_servers(os.environ), *BY_KEY, *providers.list_keyed(os.environ))
    }
    name = options.provider or "openai"
    candidate = EMBEDDED if name == "local" else known[name]
    if options.base_url and name == "openai":
        # A custom server must not receive OpenAI's key or model names.
        candidate = replace(OWN_SERVER, title=options.base_url)
    if candidate is EMBEDDED and options.model in MODELS:
        candidate = replace(candidate, name=options.model)
    return replace(
        candidate,
        base_url=options.base_url or candidate.base_url,
        variable=options.api_key_env or candidate.variable,
        model=options.model or candidate.model,
    )


def _name_server(candidate: Candidate, config: Config) -> Candidate:
    """The candidate under a name of its own, so that the table of another server is kept."""
    if not candidate.is_own:
        return candidate
    name = providers.name_own_server(candidate.base_url, config.models)
    if name != OWN and name not in config.models:
        other = sanitize.line(config.models[OWN].base_url)
        output.print_note(output.wrap_prose(f"[models.{OWN}] ({other}) is kept; this server becomes [models.{name}]."))
    return replace(candidate, name=name)


def _with_key(candidate: Candidate, options: InitOptions) -> tuple[Candidate, Mapping[str, str]]:
    """The candidate, and the environment with its key, which a person is asked for if it is not set."""
    if options.may_ask and candidate.provider != "local" and not os.environ.get(candidate.variable, "").strip():
        is_optional = not candidate.variable
        if is_optional and not (options.base_url or candidate.is_own or candidate.api_key):
            return candidate, os.environ
        empty = "empty keeps the stored one" if candidate.api_key else "empty for none"
        text = f"{empty}, not shown" if is_optional else "not shown"
        key = prompts.ask_hidden(f"API key of {sanitize.line(candidate.title)} ({text})")
        if key:
            stored = candidate.api_key.partition(":")[2]
            variable = candidate.variable or stored or providers.own_variable(candidate.name)
            candidate = replace(candidate, variable=variable, api_key="")
            return candidate, {**os.environ, candidate.variable: key}
    return candidate, os.environ


def _find_key(model: ModelConfig, environ: Mapping[str, str]) -> str:
    """The key that the model's reference names in this environment, or ""."""
    kind, _, variable = model.api_key.partition(":")
    return environ.get(variable, "").strip() if kind == "env" else ""


def _merge_table(existing: ModelConfig | None, model: ModelConfig) -> ModelConfig:
    """The new table merged over an existing one of that name, keeping prices, window and the like."""
    if existing is None or existing.provider != model.provider:
        return model
    return replace(existing, base_url=model.base_url, model=model.model, api_key=model.api_key)


def _with_window(existing: ModelConfig | None, model: ModelConfig, reported: int) -> ModelConfig:
    """The model with the context window its server reports; a configured window is kept."""
    is_kept = model.window and existing is not None and existing.model == model.model
    return model if is_kept or not _is_self_hosted(model) else replace(model, window=reported)


def _is_self_hosted(model: ModelConfig) -> bool:
    """Whether the server reports the window; those of models of known providers are in the catalog."""
    return model.provider == "openai" and model.base_url not in {each.base_url for each in BY_KEY}


# ---- testing and writing ------------------------------------------------------------------------


def _complete_once(home: Paths, model: ModelConfig, *, key: str, is_configured: bool = False) -> dict[str, Any]:
    """Let the daemon make one real completion. Raises ModelError; nothing has been written by then."""
    if not _is_available(home, model):
        pull_for_use(model.model, home.models)
    # Before the progress line of the completion, which would alternate with that of the start.
    is_older = not asyncio.run(ensure_running(home))
    request = pb.TestModelMsg(name=model.name)
    if not is_configured:
        request.candidate.CopyFrom(
            pb.ModelCandidate(
                provider=model.provider,
                base_url=model.base_url,
                model=model.model,
                key=key,
                api_key=model.api_key if is_stored(model.api_key) else "",
            )
        )
    with output.progress(f"Asking {sanitize.line(model.model or model.name)} to say hello"):
        try:
            tested = send_request(pb.ClientMessage(test_model=request)).model_tested
        except ModelError as error:
            raise explain_failure(
                error, model, is_configured=is_configured, environ=os.environ, is_daemon_older=is_older
            ) from error
    return {"content": tested.content, "seconds": round(tested.total_ms / 1000, 3), "window": tested.window}


async def _reload_if_running(home: Paths) -> None:
    """Let the daemon read a file that was edited since, such as its proxy: the test must use what is in it."""
    if await daemon_process.is_answering(home):
        await _reload_daemon()


async def _reload_daemon() -> None:
    async with daemon_client(notify=False) as connection:
        await connection.request(pb.ClientMessage(reload=pb.ReloadMsg()))


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
        "tested": {"content": tested["content"], "seconds": tested["seconds"]},
    }


def _render_result(data: dict[str, Any]) -> str:
    reply = sanitize.line(data["tested"]["content"], 100)
    state = f"Wrote {data['config']}." if data["written"] else f"{data['config']} is valid and unchanged."
    lines = [f"{sanitize.line(data['name'])} answered: {reply}", state]
    if data["written"] and data["api_key"]:
        lines.append(describe_key_place(data["api_key"]))
    if data["written"] and (reply := _render_window(data)):
        lines.append(reply)
    lines.append(f"Next: {program_name()} chat moot")
    return "\n".join(output.wrap_prose(line, sys.stdout, indent="  ") for line in lines)


def _render_window(data: dict[str, Any]) -> str:
    """The context window, if the server reported it."""
    from moot.models.catalog import default_window  # noqa: PLC0415 - the adapters, after they were used

    name = sanitize.line(data["name"])
    if not _is_self_hosted(ModelConfig(name=name, provider=data["provider"], base_url=data["base_url"])):
        return ""
    if data["window"]:
        return f"Context window: {data['window']} tokens (`window` in [models.{name}])."
    assumed = default_window(data["provider"], data["base_url"])
    return (
        f"Its server does not report a context window; {assumed} tokens are assumed. If it is larger, set `window` in "
        f"[models.{name}]: more tools and a longer history fit then."
    )
