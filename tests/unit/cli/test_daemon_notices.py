"""Warnings about the daemon that every command prints."""

from moot import __version__
from moot.cli.daemon_notices import render_notices
from moot.wire import moot_pb2 as pb


def test_a_daemon_of_this_version_with_a_valid_configuration_needs_no_notice() -> None:
    assert render_notices(pb.Welcome(daemon_version=__version__)) == []


def test_a_daemon_of_another_version_is_named_with_the_command_that_restarts_it() -> None:
    (notice,) = render_notices(pb.Welcome(daemon_version="0.0.1"))

    assert f"version 0.0.1, this command is {__version__}" in notice
    assert "moot down; moot up" in notice
