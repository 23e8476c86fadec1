"""Explains errors of a NATS server or of the connection to it, with what a person can do. Used by nats.py."""

import re
import socket
import ssl

import nats.errors
import nats.js.errors

from moot.domain.errors import MootError

# Numbers of JetStream errors (err_code).
STREAM_DIFFERS = 10058
FILTER_NOT_UNIQUE = 10100
_STREAM_NOT_FOUND = 10059
# The server has no room for a stream of that size; for another message of any stream (its disk, or max_file_store).
NO_ROOM_FOR_STREAM = frozenset({10028, 10047})
_STORAGE_IS_FULL = 10023
# A message was not stored: a limit of the stream, or whatever the server's file system has said.
_STORE_FAILED = frozenset({10077, 10122})
_NOT_ENABLED = frozenset({10039, 10076})
_UNUSABLE_STREAM = (
    "the stream of Moot on the NATS server has a configuration that cannot be used. Remove it "
    "(nats stream rm MOOT); no message is lost."
)
# The client reports subjects in small letters.
_UPDATE_STREAM = "$js.api.stream.update."
_INBOX = re.compile(r"^(_inbox\.[^.]+)\..*", re.IGNORECASE)


class PermissionViolation(Exception):
    """The server does not allow this connection to publish or subscribe to a subject."""

    def __init__(self, operation: str, subject: str) -> None:
        super().__init__(f"{operation} {subject}")
        self.operation = operation
        self.subject = subject


def find_violation(error: Exception) -> PermissionViolation | None:
    """Recognise the server's report that it refused a publish or a subscription."""
    found = re.search(r'permissions violation for (publish|subscription) to "([^"]*)"', str(error), re.IGNORECASE)
    if found is None:
        return None
    return PermissionViolation("publish" if found[1].lower() == "publish" else "subscribe", found[2])


def is_stream_missing(error: BaseException) -> bool:
    return isinstance(error, nats.js.errors.APIError) and error.err_code == _STREAM_NOT_FOUND


def describe(error: BaseException, url: str) -> str:
    """Return what is wrong. The text contains no credentials: those are never part of an address."""
    if isinstance(error, MootError):
        return error.sentence
    if isinstance(error, PermissionViolation):
        if error.subject.lower().startswith(_UPDATE_STREAM):
            return _UNUSABLE_STREAM
        # The rest of an inbox is another at each attempt, and the same problem is to be logged once.
        subject = _INBOX.sub(r"\1.>", error.subject)
        return f"the NATS server does not allow this daemon to {error.operation} to {subject}"
    if isinstance(error, nats.js.errors.APIError):
        return _describe_jetstream(error)
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return _describe_connection(error, url)
    return _describe_client(error, url)


def _describe_connection(error: OSError, url: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {url} is not trusted: {error.verify_message}. "
            "Set [broker] ca_file to the certificate of its authority."
        )
    if isinstance(error, ssl.SSLError):
        return f"TLS with {url} failed: {getattr(error, 'reason', '') or error}"
    if isinstance(error, socket.gaierror):
        return f"the host of {url} is unknown"
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return f"no NATS server answers at {url}"
    return f"the connection to {url} failed: {error.strerror or error}"


def _describe_client(error: BaseException, url: str) -> str:
    if isinstance(error, nats.errors.SecureConnWantedError):
        return f"the NATS server at {url} does not offer TLS"
    if isinstance(error, TimeoutError):
        return f"the NATS server at {url} does not answer"
    if isinstance(error, nats.errors.MaxPayloadError):
        return "the message is larger than the NATS server allows (max_payload)"
    if isinstance(error, nats.errors.NoRespondersError | nats.js.errors.NoStreamResponseError):
        return _NO_JETSTREAM
    if isinstance(error, nats.errors.ConnectionClosedError | nats.errors.UnexpectedEOF):
        return f"the connection to {url} was lost"
    text = str(error).removeprefix("nats: ").strip("' \r\n")
    if "authorization violation" in text.lower() or isinstance(error, nats.errors.AuthorizationError):
        return f"the NATS server at {url} refused the credentials. Check [broker] credentials."
    return f"the NATS server at {url} reported: {text or type(error).__name__}"


def explain_max_payload(size: int) -> str:
    """Return why the announcement of this daemon cannot be sent."""
    return (
        f"the NATS server does not take the announcement of this daemon, which has {size} bytes. Set a larger"
        " max_payload in its configuration."
    )


_NO_JETSTREAM = "the NATS server has no JetStream. Start it with -js, or with jetstream {} in its configuration."


def _describe_jetstream(error: nats.js.errors.APIError) -> str:
    text = error.description or ""
    if error.err_code in _NOT_ENABLED or (isinstance(error, nats.js.errors.ServiceUnavailableError) and not text):
        return _NO_JETSTREAM
    if error.err_code == _STORAGE_IS_FULL:
        return (
            "the storage of the NATS server is full: it takes no more messages. Give it more space on its disk, or a "
            "larger max_file_store."
        )
    if error.err_code in NO_ROOM_FOR_STREAM:
        return (
            f"the NATS server has too little storage for the stream: {text}. "
            "Give it more (max_file_store), or set a smaller [broker] max_stream_bytes."
        )
    if error.err_code in _STORE_FAILED:
        return _describe_failed_store(text)
    if error.err_code == FILTER_NOT_UNIQUE:
        return (
            "another daemon receives the messages of this store: a copy of this home is running, "
            "or this daemon had another name a minute ago"
        )
    if error.err_code == STREAM_DIFFERS:
        return _UNUSABLE_STREAM
    return f"the NATS server reported: {text or 'an error without a text'}"


def _describe_failed_store(text: str) -> str:
    # Only the text tells a limit of the stream from an error of the disk.
    if "maximum" in text:
        return "the broker's stream is full: the daemons that should receive its messages are not connected"
    return f"the NATS server cannot write to its disk: {text or 'it does not say why'}. Look whether the disk is full."
