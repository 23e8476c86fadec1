"""Lists the models of a server that is not configured yet. Used by `moot init`, and by the daemon for it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from moot.models.catalog import BASE_URLS
from moot.models.http_client import HttpClient
from moot.models.http_errors import ConnectError, ConnectFailure, HttpError, LostError
from moot.models.http_url import Url, parse_url
from moot.models.keys import NO_KEY
from moot.models.refusals import ProviderRefusal, describe_connect_error, error_from_status

# A server without a key is on this machine or near it; others get more time.
PROBE_SECONDS = 1.5
_KEYED_SECONDS = 10.0
_LONGEST_ANSWER = 4 * 1024 * 1024
# Statuses that are about the key, or the login of a proxy or network.
_LOGIN = (401, 403, 407, 511)


class ModelServer(Struct, frozen=True, kw_only=True):
    """A server with its key. `variable` is where the key is, for errors; empty if the server needs none."""

    name: str
    provider: str
    base_url: str = ""
    key: str = ""
    variable: str = ""


class NoAnswer(Exception):
    """The server is not there, or has no such list: nothing that a person would look for in the network or the key."""


async def list_models(http: HttpClient, server: ModelServer) -> list[str]:
    """Return the names of its models, newest first if it reports dates. Raises ModelError or NoAnswer."""
    seconds = _KEYED_SECONDS if server.variable else PROBE_SECONDS
    return _read_names(await _fetch_list(http, server, seconds=seconds))


async def _fetch_list(http: HttpClient, server: ModelServer, *, seconds: float) -> Mapping[str, Any]:
    """GET the list of the server's models.

    Raises ModelError for a network, a proxy or a key that does not work, NoAnswer for anything else.
    """
    base = (server.base_url or BASE_URLS.get(server.provider, "")).rstrip("/")
    try:
        parsed = parse_url(f"{base}/v1/models" if server.provider == "anthropic" else f"{base}/models")
        status, body = await http.get(
            parsed, headers=_request_headers(server), seconds=seconds, max_bytes=_LONGEST_ANSWER
        )
        if status != 200:
            raise _explain_status(status, server)
        answer = msgspec.json.decode(body)
    except HttpError as error:
        raise _explain_connection(error, server, parsed) from error
    except (OSError, ValueError) as error:
        raise NoAnswer from error
    return answer if isinstance(answer, dict) else {}


def _explain_status(status: int, server: ModelServer) -> Exception:
    """The error for a status. What the server says is left out, as it may repeat the key or the login of a proxy."""
    if status not in _LOGIN:
        return NoAnswer()
    place = f"the key in {server.variable}" if server.variable else NO_KEY
    return error_from_status(status, ProviderRefusal(), model=server.name, place=place, after=None)


def _explain_connection(error: HttpError, server: ModelServer, url: Url) -> Exception:
    is_stopped = isinstance(error, ConnectError) and error.failure is ConnectFailure.REFUSED
    if isinstance(error, LostError) or (is_stopped and not server.variable):
        return NoAnswer()
    return describe_connect_error(error, model=server.name, url=url)


def _request_headers(server: ModelServer) -> dict[str, str]:
    if not server.key:
        return {}
    if server.provider == "anthropic":
        return {"x-api-key": server.key, "anthropic-version": "2023-06-01"}
    return {"Authorization": f"Bearer {server.key}"}


def _read_names(answer: Mapping[str, Any]) -> list[str]:
    listed = answer.get("data")
    rows = listed if isinstance(listed, list) else []
    entries = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
    entries.sort(key=lambda row: -row["created"] if isinstance(row.get("created"), int) else 0)
    return [row["id"] for row in entries]
