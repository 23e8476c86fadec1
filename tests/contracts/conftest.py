"""The fake provider for contract tests."""

from tests.fake_provider.fixture import provider, shared_provider  # noqa: F401
