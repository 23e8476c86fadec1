"""Says what to do when the completion of `moot init` fails: for options instead of a file, and a proxy of the shell."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.models.proxy import is_loopback_host, list_environment

# The server was not reached, and no proxy was used.
_UNREACHED = re.compile("cannot be reached at|does not exist:|cannot be found from this network|no network connection")


def explain_failure(
    error: ModelError, model: ModelConfig, *, is_configured: bool, environ: Mapping[str, str], is_daemon_older: bool
) -> ModelError:
    """The error with a fix for someone who runs `moot init`. Nothing has been written by then."""
    fix = error.fix if is_configured else _name_options(error.fix, model.name)
    if is_daemon_older and _UNREACHED.search(error.message):
        name = _find_proxy(model.base_url, environ)
        if name:
            fix += (
                f" {name} is set here, but the daemon was started before: restart it here with `moot down` and"
                " `moot up`, or set `proxy` in [network]."
            )
    # A fix may end with a command.
    fix = f"{fix}." if fix and not fix.endswith(".") else fix
    return ModelError(error.message, fix=f"{fix} Nothing was written.".strip())


def explain_unused_key(message: str, environ: Mapping[str, str]) -> str:
    """A sentence for a server with an address of its own that requires a key, while OpenAI's is set."""
    if "requires a key" not in message or not environ.get("OPENAI_API_KEY", "").strip():
        return ""
    return (
        " OPENAI_API_KEY is set, but was not sent: it is for OpenAI's own address. If this server may have it, add"
        " --api-key-env OPENAI_API_KEY."
    )


def _find_proxy(address: str, environ: Mapping[str, str]) -> str:
    """The variable of this shell that names a proxy for the address; empty if there is none."""
    found = urlsplit(address)
    if is_loopback_host(found.hostname or ""):
        return ""
    return next((name for name, _ in list_environment(environ, found.scheme or "https")), "")


def _name_options(fix: str, name: str) -> str:
    """The fix with the options of `moot init` instead of keys of a table that is not there yet."""
    fix = fix.replace(f"`base_url` in [models.{name}]", "the address (--base-url)")
    return fix.replace(
        f"Set `model` in [models.{name}] to a name the server lists", "Use a --model that the server lists"
    )
