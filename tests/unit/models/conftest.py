"""The fake provider, and ways to ask a model and keep what it says."""

from tests.fake_provider.fixture import provider, shared_provider  # noqa: F401
