"""The pytest fixture. Use it with `from tests.fake_provider.fixture import provider  # noqa: F401`, or as a plugin."""

from collections.abc import Iterator

import pytest

from tests.fake_provider.client import Provider, running


@pytest.fixture(scope="session")
def shared_provider() -> Iterator[Provider]:
    with running() as provider:
        yield provider


@pytest.fixture
def provider(shared_provider: Provider) -> Provider:
    """A fake provider with nothing programmed and nothing recorded."""
    shared_provider.reset()
    return shared_provider
