"""Fixtures of contract tests: the fake provider, and the implementations of the storage ports."""

import pytest

from tests.contracts.store_kit import DISKS
from tests.fake_provider.fixture import provider, shared_provider  # noqa: F401


@pytest.fixture(params=DISKS)
def storage_kind(request: pytest.FixtureRequest) -> str:
    """The implementation of the storage ports that a test runs on."""
    return str(request.param)
