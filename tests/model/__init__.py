"""Tests with a real model that can choose tools; `./dev test-model` runs them."""
