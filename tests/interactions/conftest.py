"""Lets asserts outside the test modules say what they compared."""

import pytest

pytest.register_assert_rewrite("tests.interactions.world", "tests.interactions.features")
