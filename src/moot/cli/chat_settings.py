"""Reads the `[chat]` section of the configuration for the chat and for `moot ask`."""

from moot.cli.connect import find_paths
from moot.domain.config import ChatConfig
from moot.domain.errors import ConfigError


def read_chat_settings() -> ChatConfig:
    """The settings of the chat; the defaults if the file is broken, which the connection reports."""
    from moot.daemon.config.config_file import load_config  # noqa: PLC0415 - only a terminal needs it

    try:
        return load_config(find_paths().config)[0].chat
    except ConfigError:
        return ChatConfig()
