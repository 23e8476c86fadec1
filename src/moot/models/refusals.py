"""Interprets failed connections and error responses of providers: whether to retry, and what to do about it. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from moot.domain.errors import ModelError
from moot.models.http_errors import ConnectError, ConnectFailure, ProxyError, TlsError
from moot.models.http_url import Url
from moot.models.keys import NO_KEY
from moot.models.scrub import one_line

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_A_LIFETIME = 1e9
_RATE_LIMIT = re.compile(r"rate_?limit|throttl", re.IGNORECASE)
_PASSING = re.compile(
    r"overload|rate_?limit|throttl|server_error|internal|unavailable|timeout|api_error", re.IGNORECASE
)
# How servers say that a request does not fit the context window: OpenAI and compatible servers, Anthropic, llama.cpp,
# vLLM, LM Studio, TGI, Gemini, Mistral, Bedrock.
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size|limit)|maximum context|maximum model length|prompt is too long"
    r"|input is too long|too many tokens|exceed_context_size|reduce the length|request_too_large"
    r"|input token count .{0,40}exceeds|inputs` tokens",
    re.IGNORECASE,
)
# How servers say that they have no model of that name.
_MODEL_UNKNOWN = re.compile(
    r"model_not_found|not_found_error|model.{0,120}(?:not (?:be )?found|does not exist|unknown)|no such model",
    re.IGNORECASE,
)
# Where the size of the window is in such a message.
_WINDOW = re.compile(
    r"(?:maximum (?:context|model) length|context (?:length|window|size))(?: of this model)? (?:is|of)(?: only)?"
    r"\D{0,3}(\d+)"
    r"|> (\d+)|must be <= (\d+)|tokens allowed \((\d+)\)|with (\d+) maximum context",
    re.IGNORECASE,
)
# Hosts that exist: if one is not found, the network is the reason.
_PROVIDER_HOSTS = frozenset(
    {
        "api.openai.com",
        "api.anthropic.com",
        "openrouter.ai",
        "generativelanguage.googleapis.com",
        "api.mistral.ai",
        "api.groq.com",
        "api.deepseek.com",
    }
)
_PROXY_FIX = "If this network requires a proxy, set `proxy` in [network]."
_EMBEDDED_FIX = "An embedded model needs no network: `moot init --provider local`."
# Numbers outside this range are not a window.
_LEAST_WINDOW, _MOST_WINDOW = 256, 100_000_000


class ProviderRefusal(msgspec.Struct, kw_only=True):
    """What can be read from an error body of any provider."""

    message: str = ""
    kind: str = ""
    code: str = ""
    # The size of the context window, if the server names it.
    window: int = 0


def read_refusal(body: bytes) -> ProviderRefusal:
    """Parse the error in a body: both APIs' formats, common variations, or the first words of anything else."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ProviderRefusal(message=one_line(body[:2000].decode("utf-8", "replace")))
    return to_refusal(value.get("error", value) if isinstance(value, dict) else value)


def to_refusal(error: Any) -> ProviderRefusal:
    if not isinstance(error, dict):
        message = str(error)[:2000]
        return ProviderRefusal(message=one_line(message), window=_parse_window(message))
    message = next((error[key] for key in ("message", "detail", "msg") if error.get(key)), "")
    return ProviderRefusal(
        message=one_line(str(message)[:2000]),
        kind=one_line(str(error.get("type") or ""), 60),
        code=one_line(str(error.get("code") or ""), 60),
        window=_plausible_window(error.get("n_ctx")) or _parse_window(str(message)),
    )


def _parse_window(message: str) -> int:
    found = _WINDOW.search(message) if _TOO_LONG.search(message) else None
    return _plausible_window(int(next(filter(None, found.groups())))) if found else 0


def _plausible_window(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if _LEAST_WINDOW <= value <= _MOST_WINDOW else 0


def error_from_status(
    status: int, refusal: ProviderRefusal, *, model: str, place: str, after: float | None
) -> ModelError:
    """Return the error for a status other than 200; `place` names the key."""
    text = f": {refusal.message}" if refusal.message else ""
    if status in {401, 403, 407, 511}:
        return _login_error(status, text, model=model, place=place)
    # A rate limit may count "too many tokens" too.
    if (is_too_long(refusal) and status != 429) or status == 413:
        return too_long_error(model, text, window=refusal.window)
    if status == 404:
        return _not_found_error(refusal, text, model=model)
    if refusal.code == "insufficient_quota" or status == 402:
        return ModelError(
            f"Model '{model}' has no credit left ({status}){text}", fix="Check billing with the provider."
        )
    if status in _AGAIN or 520 <= status <= 599:
        reason = "is rate limited" if status == 429 else "failed on its server"
        return ModelError(
            f"Model '{model}' {reason} ({status}){text}", fix="Try again later.", retryable=True, after=after
        )
    if 300 <= status < 400:
        return ModelError(
            f"Model '{model}' redirects elsewhere ({status}), which is not followed.",
            fix=f"Set `base_url` in [models.{model}] to the address it redirects to, if you trust it.",
        )
    return ModelError(f"Model '{model}' did not accept the request ({status}){text}", fix=f"Check [models.{model}].")


def _login_error(status: int, detail: str, *, model: str, place: str) -> ModelError:
    if status == 401 and place == NO_KEY:
        return ModelError(
            f"The server of model '{model}' requires a key (401){detail}",
            fix="Name the variable that has it: `moot init --api-key-env VAR`. On a terminal `moot init` asks for it.",
        )
    if status == 401:
        return ModelError(
            f"The server of model '{model}' does not accept {place} (401){detail}",
            fix="Check the key; `moot init` stores another one.",
        )
    if status == 403:
        return ModelError(
            f"Model '{model}' may not be used with {place} (403){detail}",
            fix="Check with the provider what the key allows, or use another model.",
        )
    return _proxy_login_error(model, f"it answered {status}{detail}")


def _not_found_error(refusal: ProviderRefusal, detail: str, *, model: str) -> ModelError:
    if _MODEL_UNKNOWN.search(f"{refusal.code} {refusal.kind} {refusal.message}"):
        return ModelError(
            f"The server of model '{model}' does not have it (404){detail}",
            fix=f"Set `model` in [models.{model}] to a name the server lists;"
            " `moot init` with --base-url or --provider shows them.",
        )
    return ModelError(
        f"The address of model '{model}' was not found on its server (404){detail}",
        fix=f"Check `base_url` in [models.{model}], which usually ends in /v1, and `model`.",
    )


def describe_connect_error(error: Exception, *, model: str, url: Url) -> ModelError:
    """Return the error for a connection that could not be made: a wrong host, no network, a proxy, or TLS."""
    detail = one_line(str(error)) or type(error).__name__
    where = f"{url.scheme}://{url.authority}"
    check = f"Check `base_url` in [models.{model}]."
    if isinstance(error, ProxyError):
        if error.needs_login:
            return _proxy_login_error(model, f"{detail}")
        return ModelError(
            f"Model '{model}' cannot be reached through the proxy: {detail}",
            fix="Check `proxy` in [network], or HTTPS_PROXY and NO_PROXY where the daemon was started.",
            retryable=True,
        )
    if isinstance(error, TlsError):
        return ModelError(f"Model '{model}' cannot be reached securely at {where}: {detail}", fix=check)
    failure = error.failure if isinstance(error, ConnectError) else ConnectFailure.OTHER
    if failure is ConnectFailure.UNKNOWN_HOST and url.host in _PROVIDER_HOSTS:
        return ModelError(
            f"The host {url.host} of model '{model}' cannot be found from this network: {detail}",
            fix=f"Check the network and its name server. {_PROXY_FIX} {_EMBEDDED_FIX}",
        )
    if failure is ConnectFailure.UNKNOWN_HOST:
        return ModelError(f"The host {url.host} of model '{model}' does not exist: {detail}", fix=check)
    if failure is ConnectFailure.NO_NETWORK:
        return ModelError(
            f"There is no network connection to {url.host} for model '{model}': {detail}",
            fix=f"Check the network. {_EMBEDDED_FIX}",
            retryable=True,
        )
    if failure is ConnectFailure.SILENT:
        return ModelError(
            f"Model '{model}' cannot be reached at {where}: {detail}",
            fix=f"{check} {_PROXY_FIX}",
            retryable=True,
        )
    return ModelError(
        f"Model '{model}' cannot be reached at {where}: {detail}",
        fix=f"{check[:-1]} and that its server is running.",
        retryable=True,
    )


def _proxy_login_error(model: str, detail: str) -> ModelError:
    return ModelError(
        f"Model '{model}' cannot be reached: the proxy needs a login: {detail}",
        fix='Run `moot secrets set NAME` with http://USER:PASSWORD@HOST:PORT, and set [network] proxy = "secret:NAME".',
    )


def error_from_stream(error: Any, *, model: str) -> ModelError:
    """Return the error for a failure reported inside a stream."""
    refusal = to_refusal(error)
    text = f": {refusal.message}" if refusal.message else ""
    code = int(refusal.code) if refusal.code.isdecimal() and len(refusal.code) == 3 else 0
    if is_too_long(refusal) and code != 429 and not _RATE_LIMIT.search(f"{refusal.kind} {refusal.code}"):
        return too_long_error(model, text, window=refusal.window)
    passing = code in _AGAIN or code >= 500 or bool(_PASSING.search(f"{refusal.kind} {refusal.code}"))
    return ModelError(f"Model '{model}' failed while answering{text}", fix="Try again.", retryable=passing)


def is_too_long(refusal: ProviderRefusal) -> bool:
    return bool(_TOO_LONG.search(f"{refusal.code} {refusal.kind} {refusal.message}"))


def too_long_error(model: str, detail: str, *, window: int = 0) -> ModelError:
    error = ModelError(
        f"The conversation is longer than model '{model}' can read{detail}",
        fix=f"Compact the conversation (moot compact), and set `window` in [models.{model}] to the model's true size.",
    )
    error.is_too_long, error.window = True, window
    return error


def parse_retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds a server asks to wait, from either form of the header; None if it is invalid.

    Header names are in lower case.
    """
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        until = _seconds_until(text)
        if until is None:
            return None
        # The date was made by the server's clock, so it is compared with the server's Date header.
        sent = _seconds_until(headers.get("date", ""))
        seconds = max(0.0, until - (now if sent is None else sent))
    return min(seconds, _A_LIFETIME) if seconds >= 0 else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
