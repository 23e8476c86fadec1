"""Fixtures of all suites: an event loop for coroutine tests, and a daemon per module or per test."""

import asyncio
import gc
import inspect
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import store_shortcuts
from tests.daemon_process import CONFIG, Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider.fixture import provider, shared_provider  # noqa: F401
from tests.virtual_time import VirtualTimeLoop

# A shell without job control starts what it puts in the background with SIGINT ignored, and every command a test starts
# would inherit that: none of them could be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.forked_workers", "tests.jitter"]

store_shortcuts.copy_new_stores()
store_shortcuts.skip_syncs()

TEST_SECONDS = 90.0

# How long an example takes says more about the machine than about the code.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# These take minutes and a gigabyte of weights: `./dev test-model` runs them.
collect_ignore = [] if os.environ.get("MOOT_TEST_MODEL") else ["model"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: nothing of the hundreds of modules and thousands of tests is any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Seldom: a test leaves little, and what it keeps would be looked through again and again.
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function; leave every other test to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(getattr(pyfuncitem.module, "TEST_SECONDS", TEST_SECONDS)):
            await pyfuncitem.obj(**wanted)

    virtual = getattr(pyfuncitem.module, "VIRTUAL_TIME", False)
    with asyncio.Runner(loop_factory=VirtualTimeLoop if virtual else None) as runner:
        runner.run(bounded())
    return True


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDaemon]:
    """One daemon for a module; the module's SCRIPT, CONFIG and AGENTS furnish its home.

    It lives in this process, unless the module says IN_PROCESS = False.
    """
    start = daemon_thread if getattr(request.module, "IN_PROCESS", True) else running
    with start(_furnished(request, tmp_path_factory.mktemp("home"))) as daemon:
        yield daemon


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """A furnished home of one test's own, for tests that start and stop daemons themselves."""
    return _furnished(request, tmp_path / "home")


def _furnished(request: pytest.FixtureRequest, path: Path) -> Home:
    config = getattr(request.module, "CONFIG", CONFIG)
    if "PROVIDER_URL" in config:
        config = config.replace("PROVIDER_URL", request.getfixturevalue("shared_provider").url)
    return Home(path).furnish(
        script=getattr(request.module, "SCRIPT", ""),
        config=config,
        agents=getattr(request.module, "AGENTS", ("ada", "bob", "cyd")),
    )


@pytest.fixture
def no_store_shortcuts() -> Iterator[None]:
    """Apply the migrations to new stores, and sync them."""
    store_shortcuts.undo()
    yield
    store_shortcuts.copy_new_stores()
    store_shortcuts.skip_syncs()


@pytest.fixture
def sender(request: pytest.FixtureRequest) -> str:
    """A sender nobody else uses, so that tests can share a daemon."""
    return f"test:{request.node.name}"[:180]
