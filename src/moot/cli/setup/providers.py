"""Detects model providers on this machine: keys in the environment, model servers on loopback."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from moot.cli.setup.failed_completion import explain_failure
from moot.domain.config import ModelConfig
from moot.domain.errors import BadRequest, ConfigError, ModelError, MootError
from moot.domain.secret import NAME_LENGTH

if TYPE_CHECKING:
    from moot.models.http_client import HttpClient
    from moot.models.server_models import ModelServer

# The table of the first server that is set up by its address.
OWN = "own"


class Candidate(Struct, frozen=True, kw_only=True):
    """A provider that could be set up. `prefer` are patterns for model names, best first."""

    name: str
    title: str
    provider: str
    base_url: str = ""
    variable: str = ""
    model: str = ""
    prefer: tuple[str, ...] = ()
    # A server that was given by its address.
    is_own: bool = False
    # Where its key is, if it is stored already.
    api_key: str = ""

    def config(self) -> ModelConfig:
        return ModelConfig(
            name=self.name,
            provider=self.provider,
            base_url=self.base_url,
            model=self.model,
            api_key=self.api_key or (f"env:{self.variable}" if self.variable else ""),
        )


_GPT = (r"gpt-[\d.]+-mini", r"gpt-[\d.]+", r"gpt-.*")
_CLAUDE = (r".*claude-sonnet.*", r".*claude.*")

BY_KEY = (
    Candidate(name="anthropic", title="Anthropic", provider="anthropic", variable="ANTHROPIC_API_KEY", prefer=_CLAUDE),
    Candidate(name="openai", title="OpenAI", provider="openai", variable="OPENAI_API_KEY", prefer=_GPT),
    Candidate(
        name="openrouter",
        title="OpenRouter",
        provider="openai",
        base_url="https://openrouter.ai/api/v1",
        variable="OPENROUTER_API_KEY",
        prefer=("openrouter/auto", *_CLAUDE),
    ),
    Candidate(
        name="gemini",
        title="Google Gemini",
        provider="openai",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        variable="GEMINI_API_KEY",
        prefer=(r".*gemini-[\d.]+-flash", r".*gemini.*"),
    ),
    Candidate(
        name="mistral",
        title="Mistral",
        provider="openai",
        base_url="https://api.mistral.ai/v1",
        variable="MISTRAL_API_KEY",
        prefer=("mistral-small-latest",),
    ),
    Candidate(
        name="groq",
        title="Groq",
        provider="openai",
        base_url="https://api.groq.com/openai/v1",
        variable="GROQ_API_KEY",
        prefer=(r"llama.*versatile", r"llama.*"),
    ),
    Candidate(
        name="deepseek",
        title="DeepSeek",
        provider="openai",
        base_url="https://api.deepseek.com/v1",
        variable="DEEPSEEK_API_KEY",
        prefer=("deepseek-chat",),
    ),
)

EMBEDDED = Candidate(
    name="smollm2",
    title="SmolLM2, embedded (98 MB, no key; uses no tools)",
    provider="local",
    model="smollm2",
)
WITH_HANDS = Candidate(
    name="qwen", title="Qwen2.5 Coder, embedded (1.1 GB, no key; can use tools)", provider="local", model="qwen"
)
OWN_SERVER = Candidate(name=OWN, title="A server of your own (asks for its address)", provider="openai", is_own=True)


def list_keyed(environ: Mapping[str, str]) -> list[Candidate]:
    """Providers whose API key is in the environment. The key is not read."""
    found = [candidate for candidate in BY_KEY if environ.get(candidate.variable, "").strip()]
    own_url = environ.get("OPENAI_BASE_URL", "").strip()
    return [replace(each, base_url=own_url) if each.name == "openai" and own_url else each for each in found]


def list_servers(environ: Mapping[str, str]) -> list[Candidate]:
    """Local model servers at their default addresses."""
    ollama = _ollama_host(environ.get("OLLAMA_HOST", ""))
    return [
        Candidate(name="ollama", title="Ollama", provider="openai", base_url=f"http://{ollama}/v1"),
        Candidate(name="lmstudio", title="LM Studio", provider="openai", base_url="http://127.0.0.1:1234/v1"),
    ]


def _ollama_host(value: str) -> str:
    """The address in `OLLAMA_HOST`; a wildcard address becomes loopback."""
    value = value.strip().removeprefix("http://").rstrip("/")
    host, _, port = value.partition(":")
    host = "127.0.0.1" if host in ("", "0.0.0.0") else host
    return f"{host}:{port or '11434'}"


async def detect(environ: Mapping[str, str]) -> list[Candidate]:
    """The providers that could be set up, best first: keys, local servers with a model, the embedded model."""
    found = list_keyed(environ)
    servers = list_servers(environ)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(list_models(server, environ)) for server in servers]
    for server, task in zip(servers, tasks, strict=True):
        if names := task.result():
            found.append(replace(server, model=names[0]))
    return [*found, EMBEDDED]


# Lists the models of a server through the daemon.
ListThroughDaemon = Callable[[Candidate, Mapping[str, str]], Awaitable[list[str]]]


async def find_models(
    candidate: Candidate, environ: Mapping[str, str], *, through_daemon: ListThroughDaemon, proxy: str = ""
) -> list[str]:
    """The models to choose from: the one that is set, else those the server lists. `proxy` is that of [network]."""
    if candidate.variable and not environ.get(candidate.variable, "").strip():
        raise BadRequest(
            f"{candidate.title} requires a key, and {candidate.variable} is not set",
            fix=f"Set the key (export {candidate.variable}=…), or name another variable with --api-key-env.",
        )
    if candidate.model:
        return [candidate.model]
    try:
        if proxy.startswith("secret:") or candidate.api_key:
            # Only the daemon can read them, and no request may go around the proxy.
            names = await through_daemon(candidate, environ)
        else:
            names = await _list_names(candidate, environ, proxy=proxy)
    except ModelError as error:
        raise explain_failure(
            error, candidate.config(), is_configured=False, environ=environ, is_daemon_older=False
        ) from error
    except ConfigError as error:
        raise BadRequest(
            f"the models of {candidate.title} cannot be listed: {error.message.rstrip('.')}", fix=error.fix
        ) from error
    if not names:
        raise _unlisted_error(candidate)
    return names


def _unlisted_error(candidate: Candidate) -> BadRequest:
    """The error for a server that lists no models. With a name the daemon asks it, and then says what is wrong."""
    where = f" at {candidate.base_url}" if candidate.base_url and not candidate.is_own else ""
    fix = "Name one with --model NAME; the completion then shows what is wrong."
    if candidate.is_own:
        fix = (
            "Start the server and check its address, which usually ends with /v1. "
            f"If it lists no models: moot init --base-url {candidate.base_url} --model NAME"
        )
    elif not candidate.variable:
        fix = f"Start it. {fix}"
    return BadRequest(f"{candidate.title}{where} does not answer or does not list its models", fix=fix)


def name_own_server(base_url: str, models: Mapping[str, ModelConfig]) -> str:
    """The table for a server of one's own: `own`, or one named by its host if that is another server's."""
    address = base_url.rstrip("/")
    for name, model in models.items():
        if model.provider == "openai" and model.base_url.rstrip("/") == address and _is_own_name(name, address):
            return name
    if OWN not in models or not models[OWN].base_url:
        return OWN
    first = _slug_host(address)
    return next(
        name for count in itertools.count(1) if (name := first if count == 1 else f"{first}-{count}") not in models
    )


def _is_own_name(name: str, address: str) -> bool:
    return name == OWN or re.fullmatch(rf"{re.escape(_slug_host(address))}(-\d+)?", name) is not None


def _slug_host(address: str) -> str:
    """A name for a table out of the host and port of an address: `gpu-lan-8000`."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - only for a second server

    host = urlsplit(address).netloc.rpartition("@")[2].lower()
    return re.sub(r"[^a-z0-9]+", "-", host).strip("-") or "server"


def own_variable(name: str) -> str:
    """The name under which the key of a server of one's own is stored."""
    prefix, suffix = f"{OWN.upper()}_", "_API_KEY"
    # Of a long name the end is kept, since it has the port.
    words = re.sub(r"[^A-Z0-9]+", "_", name.upper())[-(NAME_LENGTH - len(prefix + suffix)) :]
    # The name of a secret begins with a letter; that of a server known by its number does not.
    return f"{words if words[:1].isalpha() else prefix + words}{suffix}"


def pick_name(names: Sequence[str], prefer: Sequence[str]) -> str:
    """The first name that matches the best matching pattern; empty if none does."""
    for pattern in prefer:
        for name in names:
            if re.fullmatch(pattern, name):
                return name
    return ""


async def list_models(candidate: Candidate, environ: Mapping[str, str]) -> list[str]:
    """The names of a server's models, newest first if it reports dates; empty on failure."""
    try:
        return await _list_names(candidate, environ, proxy="")
    except MootError:
        return []


async def _list_names(candidate: Candidate, environ: Mapping[str, str], *, proxy: str) -> list[str]:
    """The names that the server lists; empty if it does not answer."""
    from moot.models import server_models  # noqa: PLC0415 - as above

    try:
        async with _open_http(environ, proxy) as http:
            return await server_models.list_models(http, describe_server(candidate, environ))
    except server_models.NoAnswer:
        return []


@asynccontextmanager
async def _open_http(environ: Mapping[str, str], proxy: str) -> "AsyncIterator[HttpClient]":
    from moot.daemon.clock import SystemClock  # noqa: PLC0415 - as above
    from moot.models.http_client import HttpClient  # noqa: PLC0415
    from moot.models.proxy import ProxyFinder  # noqa: PLC0415

    http = HttpClient(SystemClock(), ProxyFinder(proxy, environ).find)
    try:
        yield http
    finally:
        await http.close()


def describe_server(candidate: Candidate, environ: Mapping[str, str]) -> "ModelServer":
    from moot.models.server_models import ModelServer  # noqa: PLC0415 - as above

    key = environ.get(candidate.variable, "").strip() if candidate.variable else ""
    return ModelServer(
        name=candidate.name,
        provider=candidate.provider,
        base_url=candidate.base_url,
        key=key,
        variable=candidate.variable,
    )
