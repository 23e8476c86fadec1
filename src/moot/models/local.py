"""Adapter for an embedded model that runs in a child process (`local_server`)."""

import asyncio
import importlib.util
import json
import os
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.events import Stage
from moot.domain.ports.clock import Clock, Timer
from moot.domain.ports.model import Model, ModelEvent, Preparing, ToolSupport
from moot.domain.prompt import Prompt
from moot.domain.usage import Usage
from moot.models.keys import Key
from moot.models.openai import OpenAIModel
from moot.models.pullable import MODELS
from moot.models.toolchoice import ToolChoice
from moot.models.transport import Http

LOAD_SECONDS = 120.0
IDLE_SECONDS = 600.0
BATCH_TOKENS = 128
# The number of crashes within the window after which the child is not started again.
MAX_CRASHES = 3
CRASH_WINDOW_SECONDS = 600.0
_STOP_SECONDS = 2.0
# A long prompt on a slow machine is silent without having failed; a crash is noticed by the broken connection.
_PATIENCE_SECONDS = 900.0
_DEFAULT_WINDOW = 4096
_DEFAULT_REPLY = 1024
# The child gets none of our secrets.
_CHILD_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "LANG")
_CHILD_PREFIXES = ("PYTHON", "LC_", "GGML_", "DYLD_")


class _Child(Struct):
    """One instance of the child process; `adapter` is set once it is ready."""

    process: asyncio.subprocess.Process
    key: str
    adapter: Model | None = None


class LocalModel:
    """Starts its child on first use and after a crash, and stops it when it was not used for a while."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        http: Http,
        clock: Clock,
        data_dir: Path,
        rng: Random | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._config = config
        self._http = http
        self._clock = clock
        self._rng = rng or Random()
        self._idle_seconds = idle_seconds
        known = MODELS.get(config.model)
        self._file = model_path(config, data_dir)
        self._window = config.window or (known.window if known else _DEFAULT_WINDOW)
        self._reply_tokens = config.max_output_tokens or (known.reply_tokens if known else _DEFAULT_REPLY)
        native = known.tools if known else ToolSupport.NONE
        self._tools = ToolSupport(config.tools) if config.tools else native
        self._small = config.small or known is not None
        self._lock = asyncio.Lock()
        self._child: _Child | None = None
        self._crashes: list[float] = []
        self._users = 0
        self._previous_seconds = 0.0
        self._idle_timer: Timer | None = None
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
    def window_is_assumed(self) -> bool:
        return False

    @property
    def tools(self) -> ToolSupport:
        return self._tools

    @property
    def config(self) -> ModelConfig:
        return replace(self._config, model=self.model, window=self._window, tools=self._tools.value, small=self._small)

    @property
    def pid(self) -> int:
        """The child's process id while it runs, else 0."""
        child = self._child
        return child.process.pid if child is not None and child.process.returncode is None else 0

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        return prompt

    def cost(self, usage: Usage) -> float:
        return 0.0

    async def find_window(self) -> None:
        """Do nothing: the window is configured or known."""

    async def has_price(self) -> bool:
        return True

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        self._users += 1
        self._stop_idle_timer()
        prompt = replace(prompt, max_tokens=min(prompt.max_tokens or self._reply_tokens, self._reply_tokens))
        began, previous = self._clock.monotonic(), self._previous_seconds
        try:
            if self._child is None or self._child.adapter is None:
                yield Preparing(Stage.LOADING, previous_seconds=previous)
            child, adapter = await self._ready()
            try:
                async with aclosing(adapter.stream(prompt)) as events:
                    async for event in events:
                        is_told = isinstance(event, Preparing)
                        yield replace(event, previous_seconds=previous) if is_told else event
                self._previous_seconds = self._clock.monotonic() - began
            except ModelError as error:
                if not self._closed and await self._has_ended(child):
                    raise self._stopped_error() from error
                raise
        finally:
            self._users -= 1
            self._start_idle_timer()

    async def close(self) -> None:
        self._closed = True
        self._stop_idle_timer()
        child, self._child = self._child, None
        if child is not None:
            await self._stop(child)

    # ---- the child -----------------------------------------------------------------------------

    async def _ready(self) -> tuple[_Child, Model]:
        """Return the adapter of a ready child.

        Concurrent callers share one start; a cancelled caller does not stop it.
        """
        async with self._lock:
            if self._closed:
                raise ModelError(f"The local model '{self.name}' is shut down.", fix="Start the daemon again.")
            self._note_crash()
            child = self._child
            if child is None:
                child = self._child = await self._spawn()
            if child.adapter is None:
                child.adapter = self._adapter(await self._wait_until_loaded(child), child.key)
            return child, child.adapter

    def _adapter(self, address: str, key: str) -> Model:
        config = replace(
            self._config,
            base_url=f"{address}/v1",
            model=self.model,
            api_key="",
            window=self._window,
            tools=self._tools.value,
            idle_seconds=max(self._config.idle_seconds, _PATIENCE_SECONDS),
        )
        model = OpenAIModel(config, http=self._http, key=Key.with_value(key, model=self.name), rng=self._rng)
        return ToolChoice(model, rng=self._rng) if self._tools is ToolSupport.SCHEMA else model

    async def _spawn(self) -> _Child:
        lack = find_lack(self._config, self._file)
        if lack is not None:
            raise lack
        key = secrets.token_urlsafe(32)
        threads = self._config.threads or max(1, (os.cpu_count() or 1) - 1)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "moot.models.local_server",
            f"--model={self._file}",
            f"--alias={self.model}",
            f"--threads={threads}",
            f"--context={self._window}",
            f"--batch={BATCH_TOKENS}",
            f"--parent={os.getpid()}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_child_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(f"{key}\n".encode())
        return _Child(process=process, key=key)

    async def _wait_until_loaded(self, child: _Child) -> str:
        assert child.process.stdout is not None
        try:
            async with self._clock.timeout(LOAD_SECONDS):
                line = await child.process.stdout.readline()
        except TimeoutError:
            line = b""
        answer = _parse_line(line)
        if address := answer.get("address"):
            return str(address)
        self._child = None
        await self._stop(child)
        reason = answer.get("error") or "it ended without a word"
        raise ModelError(
            f"The local model '{self.name}' could not be loaded from {self._file}: {reason}",
            fix=f"Check the free memory; if the file is damaged, delete it and run: moot models pull {self.model}",
        )

    def _note_crash(self) -> None:
        """Forget a child that crashed. Raise ModelError after too many crashes in a short time."""
        if self._child is not None and self._child.process.returncode is not None:
            self._child = None
            self._crashes.append(self._clock.monotonic())
        since = self._clock.monotonic() - CRASH_WINDOW_SECONDS
        self._crashes = [crash for crash in self._crashes if crash >= since]
        if len(self._crashes) >= MAX_CRASHES:
            raise ModelError(
                f"The local model '{self.name}' stopped {len(self._crashes)} times in ten minutes.",
                fix="Check the free memory (`moot doctor`), or use a smaller or remote model.",
            )

    def _stopped_error(self) -> ModelError:
        """Return the error for a child that died during a call. The next call starts a new one."""
        return ModelError(
            f"The local model '{self.name}' stopped while it was answering.",
            fix="Send the message again; the model is started anew.",
            retryable=True,
        )

    async def _stop(self, child: _Child) -> None:
        assert child.process.stdin is not None
        child.process.stdin.close()
        if not await self._has_ended(child, within=_STOP_SECONDS):
            child.process.kill()
            await child.process.wait()

    async def _has_ended(self, child: _Child, *, within: float = 1.0) -> bool:
        try:
            async with self._clock.timeout(within):
                await child.process.wait()
        except TimeoutError:
            return False
        return True

    # ---- idling --------------------------------------------------------------------------------

    def _start_idle_timer(self) -> None:
        if self._users == 0 and not self._closed:
            self._stop_idle_timer()
            self._idle_timer = self._clock.call_later(self._idle_seconds, self._stop_idle_child)

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _stop_idle_child(self) -> None:
        """Stop an unused child; it exits when its standard input closes."""
        if self._users == 0 and self._child is not None and not self._lock.locked():
            child, self._child = self._child, None
            assert child.process.stdin is not None
            child.process.stdin.close()


def model_path(config: ModelConfig, data_dir: Path) -> Path:
    """Return the GGUF file of a [models.NAME] table: a pulled one by its name, or a file of the user."""
    known = MODELS.get(config.model)
    return data_dir / "models" / known.file if known else Path(config.model)


def find_problem(config: ModelConfig, data_dir: Path) -> str:
    """Return what a local model needs before it can be started, with a fix; "" if nothing is missing."""
    lack = find_lack(config, model_path(config, data_dir))
    return f"{lack.message} {lack.fix}" if lack else ""


def find_missing_part(name: str) -> ModelError | None:
    """Return that this installation cannot run local models as an error with a fix, or None."""
    if importlib.util.find_spec("xllamacpp") is not None:
        return None
    return ModelError(
        f"The local model '{name}' needs a part that is not installed.", fix="Run: pip install 'moot[local]'"
    )


def find_lack(config: ModelConfig, file: Path) -> ModelError | None:
    """Return what it lacks as an error with a fix, or None."""
    if part := find_missing_part(config.name):
        return part
    if file.is_file():
        return None
    if config.model in MODELS:
        size = f"{MODELS[config.model].bytes // 1_000_000} MB"
        return ModelError(
            f"The model '{config.name}' is not downloaded yet.", fix=f"Run: moot models pull {config.model} ({size})"
        )
    return ModelError(f"The file of the local model '{config.name}' is missing.", fix=f"Put a GGUF file at {file}.")


def _parse_line(line: bytes) -> dict[str, object]:
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
