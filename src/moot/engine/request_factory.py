"""RequestFactory: builds and checks a RunRequest for a client's request. Used by the handlers in daemon/requests."""

import asyncio
import os
import stat
from collections.abc import Callable, Iterable
from random import Random
from weakref import WeakValueDictionary

from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.domain.config import Config
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, ConfigError, MootError, NotFound, TooLarge
from moot.domain.ids import make_id
from moot.domain.near_names import suggest_name
from moot.domain.ports.clock import Clock
from moot.domain.run import Limits, RunRequest
from moot.domain.scope import ALL_TOOLS, NO_TOOLS
from moot.engine.redact_text import LONG_TEXT, redact_text

NAME_LENGTH = 256


class RequestFactory:
    def __init__(  # noqa: PLR0913 - what it looks up, each by name
        self,
        *,
        agents: Callable[[str], Agent | None],
        names: Callable[[], Iterable[str]],
        flaw: Callable[[str], str],
        hidden: Callable[[str], MootError | None],
        config: Callable[[], Config],
        clock: Clock,
        rng: Random,
        redact: Callable[[str], str],
    ) -> None:
        self._agents = agents
        self._names = names
        self._flaw = flaw
        self._hidden = hidden
        self._config = config
        self._clock = clock
        self._rng = rng
        self._redact = redact
        # Messages of one conversation keep their order, although a long one is redacted in a thread.
        self._turns: WeakValueDictionary[ConversationKey, asyncio.Lock] = WeakValueDictionary()

    async def turn(
        self,
        key: ConversationKey,
        content: str,
        *,
        guest: str = "",
        cwd: str = "",
        limits: Limits | None = None,
        client_message_id: str = "",
    ) -> RunRequest:
        """Return the request for a user's message, answered by the primary, or by a guest without tools."""
        self.resolve_agent(key.agent)
        if guest:
            self._check_guest(key.agent, guest)
        self.check_content(content)
        if client_message_id:
            _check_name("client message id", client_message_id)
        directory = self.directory(cwd) if cwd else ""
        # Known secrets are never stored, not even in a user's message.
        if len(content) <= LONG_TEXT and key not in self._turns:
            content = self._redact(content)
        else:
            async with self._turns.setdefault(key, asyncio.Lock()):
                content = await redact_text(self._redact, content)
        return RunRequest(
            id=make_id("run", now=self._clock.now(), rng=self._rng),
            key=key,
            speaker=guest or key.agent,
            content=content,
            scope=NO_TOOLS if guest else ALL_TOOLS,
            cwd=directory,
            limits=limits or Limits(),
            client_message_id=client_message_id,
        )

    def with_search_path(self, request: RunRequest, search_path: str) -> RunRequest:
        """Return the request with the client's PATH; without it if it cannot be stored."""
        if not search_path or "\x00" in search_path or not _is_encodable(search_path):
            return request
        return replace(request, search_path=search_path)

    def resolve_agent(self, name: str) -> Agent:
        agent = self._agents(name) if name else None
        if agent is None:
            raise self._make_no_agent_error(name)
        return agent

    def _make_no_agent_error(self, name: str, *, role: str = "") -> MootError:
        flaw = self._flaw(name)
        if flaw:
            fix = "Correct the file (see `moot agents validate`), then try again."
            return ConfigError(f"the agent {name!r} cannot be used: {flaw}", fix=fix)
        if hidden := self._hidden(name):
            return hidden
        near = suggest_name(name, self._names())
        return NotFound(f"there is no agent {name!r}{role}", fix=f"{near}`moot agents` lists them.")

    def directory(self, cwd: str) -> str:
        """Return a working directory in the form it is stored in; empty if none is given."""
        if not cwd:
            return ""
        if "\x00" in cwd or not _is_encodable(cwd) or not os.path.isabs(cwd):
            fix = "Give one that begins with /."
            raise BadRequest(f"the working directory {cwd!r} is not an absolute path", fix=fix)
        try:
            if stat.S_ISDIR(os.stat(cwd).st_mode):
                return os.path.normpath(cwd)
            reason = "is not a folder"
        except OSError as error:
            reason = f"cannot be used: {error.strerror}"
        raise BadRequest(f"the working directory {cwd!r} {reason}", fix="Give a folder that exists.")

    def _check_guest(self, primary: str, guest: str) -> None:
        if guest == primary:
            raise BadRequest(
                f"{guest} is the agent of this conversation and cannot be its guest",
                fix="Leave the guest out, or name another agent.",
            )
        if self._agents(guest) is None:
            raise self._make_no_agent_error(guest, role=" to be a guest")

    def check_content(self, content: str, what: str = "message") -> None:
        """Raise if the text of a message, or of a reply to a question, is not acceptable."""
        if not content.strip():
            raise BadRequest(f"the {what} is empty", fix="Write something.")
        if "\x00" in content:
            raise BadRequest(f"the {what} contains a NUL character", fix="Remove it, or send the data as a file.")
        bound = self._config().max_content_bytes
        # Ascii has one byte for each character, and no half of a surrogate pair.
        size = len(content) if content.isascii() else len(content.encode(errors="surrogatepass"))
        if size > bound:
            raise TooLarge(
                f"the {what} has {size} bytes; at most {bound} are taken",
                fix="Put it in a file and name the file, or raise max_content_bytes in config.toml.",
            )
        if not (content.isascii() or _is_encodable(content)):
            raise BadRequest(f"the {what} is not valid Unicode: it has half of a surrogate pair", fix="Send UTF-8.")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_name(what: str, name: str) -> None:
    if len(name) > NAME_LENGTH or not name.isprintable() or not _is_encodable(name):
        raise BadRequest(f"the {what} must be at most {NAME_LENGTH} printable characters")
