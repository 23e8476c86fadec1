"""The embedded model, really pulled and really run. Skipped, with the reason, where it cannot be had."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import psutil
import pytest

from moot.daemon.clock import SystemClock
from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError, MootError
from moot.domain.events import Stage
from moot.domain.message import user
from moot.domain.ports.model import Finished, Model, ModelEvent, Preparing, TextDelta, ToolSupport
from moot.domain.prompt import Prompt, Transcript
from moot.models import local
from moot.models.http_client import HttpClient
from moot.models.local import LocalModel, find_problem
from moot.models.pull import pull
from moot.models.retry import RetryingModel, RetryPolicy
from tests.daemon_process import eventually

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def data_dir(request: pytest.FixtureRequest) -> Path:
    """A data folder with SmolLM2 in it, kept between runs; MOOT_TEST_DATA names one that has it."""
    pytest.importorskip("xllamacpp")
    kept = os.environ.get("MOOT_TEST_DATA") or str(request.config.cache.mkdir("moot-data"))
    try:
        pull("smollm2", Path(kept) / "models", lambda _: None)
    except MootError as error:
        pytest.skip(f"SmolLM2 cannot be had here: {error.message}")
    return Path(kept)


def smollm2(**changes: Any) -> ModelConfig:
    return ModelConfig(**{"name": "small", "provider": "local", "model": "smollm2", **changes})


@asynccontextmanager
async def opened(config: ModelConfig, data_dir: Path, **options: Any) -> AsyncIterator[LocalModel]:
    session: list[HttpClient] = []

    def http() -> HttpClient:
        if not session:
            session.append(HttpClient(SystemClock()))
        return session[0]

    model = LocalModel(config, http=http, data_dir=data_dir, **options, clock=SystemClock())
    try:
        yield model
    finally:
        await model.close()
        for one in session:
            await one.close()


def prompt(text: str, *, max_tokens: int = 24) -> Prompt:
    return Prompt(system=("You are brief.",), transcript=Transcript([user(text)]), max_tokens=max_tokens)


async def say(model: Model, text: str, *, max_tokens: int = 24) -> tuple[str, Finished]:
    said, finished = "", None
    async with asyncio.timeout(60), aclosing(model.stream(prompt(text, max_tokens=max_tokens))) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                said += event.text
            if isinstance(event, Finished):
                finished = event
    assert finished is not None
    return said, finished


def servers() -> list[int]:
    """The model servers this process has started and that run."""
    return [child.pid for child in psutil.Process().children() if _is_server(child)]


def _is_server(child: psutil.Process) -> bool:
    try:
        return "moot.models.local_server" in child.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        # It has ended meanwhile.
        return False


async def gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_it_answers_with_usage_and_costs_nothing(data_dir: Path) -> None:
    async with opened(smollm2(), data_dir) as model:
        said, finished = await say(model, "What is the capital of France?", max_tokens=8)

        assert len(said.split()) > 1
        assert finished.usage is not None
        assert finished.usage.prompt > 5
        assert finished.usage.completion > 0
        assert model.cost(finished.usage) == 0.0
        assert (model.provider, model.model, model.window, model.tools) == (
            "local",
            "smollm2",
            4096,
            ToolSupport.NONE,
        )


async def first_text(events: AsyncGenerator[ModelEvent, None]) -> list[ModelEvent]:
    """Wait for the first text; what came before it."""
    before: list[ModelEvent] = []
    async for event in events:
        if isinstance(event, TextDelta):
            break
        before.append(event)
    return before


async def test_a_model_tells_that_it_is_loaded_and_how_much_of_the_prompt_it_has_read(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.BATCH_TOKENS == 128
    monkeypatch.setattr(local, "BATCH_TOKENS", 16)
    async with opened(smollm2(), data_dir) as model:
        first = [event async for event in model.stream(prompt("word " * 40, max_tokens=1))]
        again = [event async for event in model.stream(prompt("Hello", max_tokens=1))]
    told = [event for event in first if isinstance(event, Preparing)]

    assert told[0] == Preparing(Stage.LOADING)
    assert {event.stage for event in told[1:]} == {Stage.READING}
    shares = [event.share for event in told[1:]]
    assert shares == sorted(shares)
    assert len(shares) >= 3
    assert shares[-1] == 1.0
    # A loaded model says how long its previous call took.
    second = again[0]
    assert isinstance(second, Preparing)
    assert (second.stage, second.previous_seconds > 0) == (Stage.READING, True)


async def test_everyone_shares_one_child_which_is_started_with_its_first_use_and_ends_with_the_model(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-the-child")
    async with opened(smollm2(), data_dir) as model:
        assert model.pid == 0

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(say(model, f"Say {word}.", max_tokens=4)) for word in ("one", "two", "three")]

        pid = model.pid
        assert servers() == [pid]
        assert all(task.result()[1].usage for task in tasks)
        await check_that_the_key_is_kept(model)

        # A stream that is closed ends its answer, not the child.
        events = model.stream(prompt("Tell me a long story.", max_tokens=900))
        async with asyncio.timeout(60):
            await first_text(events)
            await events.aclose()
            await say(model, "Hello", max_tokens=1)
        assert model.pid == pid

    assert not psutil.pid_exists(pid)


async def check_that_the_key_is_kept(model: LocalModel) -> None:
    """It is neither in the command line nor in the environment, and without it nobody is answered."""
    child = psutil.Process(model.pid)
    secret = model._child.key  # type: ignore[union-attr]

    assert secret not in " ".join(child.cmdline())
    assert secret not in repr(child.environ())
    assert "OPENAI_API_KEY" not in child.environ()
    address = child.net_connections(kind="inet")[0].laddr
    assert address.ip == "127.0.0.1"
    async with aiohttp.ClientSession() as stranger:
        url = f"http://127.0.0.1:{address.port}/v1/chat/completions"
        async with stranger.post(url, json={"messages": [{"role": "user", "content": "x"}]}) as response:
            assert response.status == 401


async def test_a_crash_may_pass_and_it_starts_again_but_not_without_end(data_dir: Path) -> None:
    async with opened(smollm2(), data_dir) as model:
        first = await crash_during_an_answer(model)
        patient = RetryingModel(model, RetryPolicy(retries=3, rng=Random(1), clock=SystemClock()))
        await say(patient, "Hello", max_tokens=1)
        second = model.pid
        # Nobody has noticed yet that it is gone.
        os.kill(second, signal.SIGKILL)
        await say(patient, "Hello", max_tokens=1)
        assert len({0, first, second, model.pid}) == 4

        os.kill(model.pid, signal.SIGKILL)
        await model._child.process.wait()  # type: ignore[union-attr]
        with pytest.raises(ModelError, match="3 times"):
            await say(model, "Hello", max_tokens=1)


async def crash_during_an_answer(model: LocalModel) -> int:
    """Return the id of the child that was killed, of which the caller is told as of a failure that may pass."""
    events = model.stream(prompt("Tell me a long story.", max_tokens=900))
    async with asyncio.timeout(60), aclosing(events):
        await first_text(events)
        pid = model.pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ModelError) as caught:
            async for _ in events:
                pass
    assert caught.value.retryable
    return pid


async def test_a_caller_that_goes_away_during_the_start_leaves_it_to_the_next(data_dir: Path) -> None:
    async with opened(smollm2(), data_dir) as model:
        impatient = asyncio.create_task(say(model, "Hello", max_tokens=1))
        async with asyncio.timeout(30):
            while not model.pid:  # noqa: ASYNC110
                await asyncio.sleep(0)
        pid = model.pid
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient

        await say(model, "Hello", max_tokens=1)

        assert model.pid == pid


async def test_a_child_nobody_uses_is_let_go_and_comes_back(data_dir: Path) -> None:
    async with opened(smollm2(), data_dir, idle_seconds=0.05) as model:
        await say(model, "Hello", max_tokens=1)
        await eventually(lambda: model.pid == 0 and not servers())

        said, _ = await say(model, "What is the capital of France?", max_tokens=2)

        assert said


PARENT = """
import asyncio, sys
from pathlib import Path
from moot.daemon.clock import SystemClock
from moot.domain.config import ModelConfig
from moot.domain.prompt import Prompt, Transcript
from moot.domain.message import user
from moot.models.local import LocalModel
from moot.models.http_client import HttpClient
from tests.daemon_process import eventually

async def main():
    session = HttpClient(SystemClock())
    config = ModelConfig(name="small", provider="local", model="smollm2")
    model = LocalModel(config, http=lambda: session, clock=SystemClock(), data_dir=Path(sys.argv[1]))
    async for _ in model.stream(Prompt(system=(), transcript=Transcript([user("Hi")]), max_tokens=1)):
        pass
    print(model.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def parent(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PARENT, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


async def test_the_child_dies_with_a_parent_that_was_killed(parent: "subprocess.Popen[str]") -> None:
    assert parent.stdout is not None
    pid = int(await asyncio.to_thread(parent.stdout.readline))

    parent.kill()

    await gone(pid)


async def test_a_damaged_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and then nothing")

    async with opened(smollm2(model=str(tmp_path / "broken.gguf")), tmp_path) as model:
        with pytest.raises(ModelError, match="could not be loaded"):
            await say(model, "Hello")


async def test_a_missing_file_names_the_command_that_fetches_it(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")

    async with opened(smollm2(), tmp_path) as model:
        with pytest.raises(ModelError) as caught:
            await say(model, "Hello")

    assert "moot models pull smollm2" in caught.value.fix
    assert "moot models pull smollm2" in find_problem(smollm2(), tmp_path)


async def test_a_missing_runtime_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert "pip install 'moot[local]'" in find_problem(smollm2(), tmp_path)
