"""An embedded model: a child process of our own behind the same port as any other model."""

import asyncio
import importlib.util
import json
import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.ports import Model, ModelEvent, Retrying, ToolSupport
from moot.domain.prompt import Prompt
from moot.domain.usage import Usage
from moot.models.catalog import MODELS

LOAD_SECONDS = 120.0
IDLE_SECONDS = 600.0
# So many crashes within the window are no accident any more.
MAX_CRASHES = 3
CRASH_WINDOW_SECONDS = 600.0
_STOP_SECONDS = 2.0
# A long prompt on a slow machine is silence, not a failure; a crash is noticed by the broken connection.
_PATIENCE_SECONDS = 900.0
_DEFAULT_WINDOW = 4096
# The child needs no secrets of ours.
_CHILD_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "LANG")
_CHILD_PREFIXES = ("PYTHON", "LC_", "GGML_", "DYLD_")

Wrap = Callable[[ModelConfig, str], Model]


@dataclass(slots=True)
class _Child:
    """One life of the child process; `adapter` is set once it is ready."""

    process: asyncio.subprocess.Process
    key: str
    adapter: Model | None = None


class LocalModel:
    """Starts its child on first use and again after a crash, and lets it go when nobody has used it for a while.

    `wrap` makes the adapter that talks to the child, given its address (as base_url) and its key.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        folder: Path,
        wrap: Wrap,
        idle_seconds: float = IDLE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._wrap = wrap
        self._idle_seconds = idle_seconds
        self._monotonic = monotonic
        known = MODELS.get(config.model)
        self._file = folder / known.file if known else Path(config.model)
        self._window = config.window or (known.window if known else _DEFAULT_WINDOW)
        native = known.tools if known else ToolSupport.NONE
        self._tools = ToolSupport(config.tools) if config.tools else native
        self._lock = asyncio.Lock()
        self._child: _Child | None = None
        self._crashes: list[float] = []
        self._users = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def provider(self) -> str:
        return "local"

    @property
    def model(self) -> str:
        return self._config.model if self._config.model in MODELS else self._file.stem

    @property
    def window(self) -> int:
        return self._window

    @property
    def tools(self) -> ToolSupport:
        return self._tools

    @property
    def pid(self) -> int:
        """The child's process id while it runs, else 0."""
        child = self._child
        return child.process.pid if child is not None and child.process.returncode is None else 0

    def cost(self, usage: Usage) -> float:
        return 0.0

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        self._users += 1
        self._stop_idle_timer()
        spoke, attempt = False, 0
        try:
            while True:
                child, adapter = await self._ready()
                lost: ModelError | None = None
                try:
                    async with aclosing(adapter.stream(prompt)) as events:
                        async for event in events:
                            spoke = spoke or not isinstance(event, Retrying)
                            yield event
                except ModelError as error:
                    lost = error
                if lost is None:
                    return
                await self._give_up_or_go_on(child, lost, spoke=spoke)
                attempt += 1
                yield Retrying(attempt, 0.0, "the local model stopped and is started again")
        finally:
            self._users -= 1
            self._start_idle_timer()

    async def close(self) -> None:
        self._closed = True
        self._stop_idle_timer()
        child, self._child = self._child, None
        if child is not None:
            await _stop(child)

    # ---- the child -----------------------------------------------------------------------------

    async def _ready(self) -> tuple[_Child, Model]:
        """The adapter of a child that is ready. Many callers share one start; a cancelled one leaves it going."""
        async with self._lock:
            if self._closed:
                raise ModelError(f"The local model '{self.name}' is shut down.", fix="Start the daemon again.")
            self._note_crash()
            child = self._child
            if child is None:
                child = self._child = await self._spawn()
            if child.adapter is None:
                address = await self._wait_until_loaded(child)
                config = replace(
                    self._config,
                    base_url=f"{address}/v1",
                    model=self.model,
                    api_key="",
                    window=self._window,
                    tools=self._tools.value,
                    idle_seconds=max(self._config.idle_seconds, _PATIENCE_SECONDS),
                    # Its port dies with it, so a retry is ours to make.
                    retries=0,
                )
                child.adapter = self._wrap(config, child.key)
            return child, child.adapter

    async def _spawn(self) -> _Child:
        self._check_parts()
        key = secrets.token_urlsafe(32)
        threads = self._config.threads or max(1, (os.cpu_count() or 1) - 1)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "moot.models.local_server",
            f"--model={self._file}",
            f"--alias={self.model}",
            f"--threads={threads}",
            f"--context={self._window}",
            f"--parent={os.getpid()}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_child_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(f"{key}\n".encode())
        return _Child(process=process, key=key)

    def _check_parts(self) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise ModelError(
                f"The local model '{self.name}' needs a part that is not installed.",
                fix="Run: pip install 'moot[local]'",
            )
        if not self._file.is_file():
            wanted = self._config.model
            raise ModelError(
                f"The local model '{self.name}' is not here yet: {self._file} is missing.",
                fix=f"Run: moot models pull {wanted}" if wanted in MODELS else f"Put a GGUF file at {self._file}.",
            )

    async def _wait_until_loaded(self, child: _Child) -> str:
        assert child.process.stdout is not None
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                line = await child.process.stdout.readline()
        except TimeoutError:
            line = b""
        answer = _parse(line)
        if address := answer.get("address"):
            return str(address)
        self._child = None
        await _stop(child)
        reason = answer.get("error") or "it ended without a word"
        raise ModelError(
            f"The local model '{self.name}' could not be loaded from {self._file}: {reason}",
            fix=f"Check the free memory; if the file is damaged, delete it and run: moot models pull {self.model}",
        )

    def _note_crash(self) -> None:
        """Forget a child that died by itself; too many of those in a short time end the trying."""
        if self._child is not None and self._child.process.returncode is not None:
            self._child = None
            self._crashes.append(self._monotonic())
        since = self._monotonic() - CRASH_WINDOW_SECONDS
        self._crashes = [crash for crash in self._crashes if crash >= since]
        if len(self._crashes) >= MAX_CRASHES:
            raise ModelError(
                f"The local model '{self.name}' stopped {len(self._crashes)} times in ten minutes.",
                fix="Check the free memory (`moot doctor`), or use a smaller or remote model.",
            )

    async def _give_up_or_go_on(self, child: _Child, lost: ModelError, *, spoke: bool) -> None:
        """Return when the child died before it said anything: the call can be made again. Else raise."""
        if self._closed or not await _has_ended(child):
            raise lost
        if spoke:
            raise ModelError(
                f"The local model '{self.name}' stopped while it was answering.",
                fix="Send the message again; the model is started anew.",
                retryable=True,
            ) from lost

    # ---- idling --------------------------------------------------------------------------------

    def _start_idle_timer(self) -> None:
        if self._users == 0 and not self._closed:
            self._stop_idle_timer()
            self._idle_timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._let_go)

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _let_go(self) -> None:
        """End a child nobody uses; it goes by itself when its standard input closes."""
        if self._users == 0 and self._child is not None and not self._lock.locked():
            child, self._child = self._child, None
            assert child.process.stdin is not None
            child.process.stdin.close()


async def _stop(child: _Child) -> None:
    assert child.process.stdin is not None
    child.process.stdin.close()
    if not await _has_ended(child, within=_STOP_SECONDS):
        child.process.kill()
        await child.process.wait()


async def _has_ended(child: _Child, *, within: float = 1.0) -> bool:
    try:
        async with asyncio.timeout(within):
            await child.process.wait()
    except TimeoutError:
        return False
    return True


def _parse(line: bytes) -> dict[str, object]:
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _child_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _CHILD_ENVIRONMENT or name.startswith(_CHILD_PREFIXES)
    }
