"""Errors of `http_client`, and what an error of connecting means."""

import errno
import socket
from enum import StrEnum


class HttpError(Exception):
    """A request that failed. The text says what happened."""


class ConnectFailure(StrEnum):
    """Why no connection could be made."""

    UNKNOWN_HOST = "unknown host"
    NO_NETWORK = "no network"
    REFUSED = "refused"
    SILENT = "silent"
    OTHER = "other"


class ConnectError(HttpError):
    """No connection could be made."""

    def __init__(self, message: str, failure: ConnectFailure = ConnectFailure.OTHER) -> None:
        super().__init__(message)
        self.failure = failure


class ProxyError(HttpError):
    """The proxy cannot be reached, or refuses the request. `needs_login` if it requires a user and password."""

    def __init__(self, message: str, *, needs_login: bool = False) -> None:
        super().__init__(message)
        self.needs_login = needs_login


class TlsError(HttpError):
    """The server's certificate is invalid, or it does not support TLS."""


class LostError(HttpError):
    """The connection broke, or the response was not valid HTTP."""


class UnansweredError(LostError):
    """The connection broke before any part of the response arrived."""


def classify_connect_error(error: Exception) -> ConnectFailure:
    """Return what an error of connecting means. Errors of several addresses arrive as one text."""
    if isinstance(error, socket.gaierror):
        offline = error.errno == socket.EAI_AGAIN
        return ConnectFailure.NO_NETWORK if offline else ConnectFailure.UNKNOWN_HOST
    if isinstance(error, UnicodeError):
        return ConnectFailure.UNKNOWN_HOST
    codes = {error.errno} if isinstance(error, OSError) and error.errno else set()
    codes |= {code for code in _CONNECT_CODES if f"[Errno {code}]" in str(error)}
    return next((_CONNECT_CODES[code] for code in _CONNECT_CODES if code in codes), ConnectFailure.OTHER)


_CONNECT_CODES = {
    errno.ECONNREFUSED: ConnectFailure.REFUSED,
    errno.ENETUNREACH: ConnectFailure.NO_NETWORK,
    errno.ENETDOWN: ConnectFailure.NO_NETWORK,
    errno.EHOSTUNREACH: ConnectFailure.NO_NETWORK,
}
