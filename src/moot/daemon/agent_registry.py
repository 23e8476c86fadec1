"""Builds the registry of agents from the folders of the configuration. Called by daemon/app.py."""

from moot.agents.registry import Registry
from moot.daemon.config.agent_keys import find_agents_folder, find_foreign_folders
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.paths import Paths


def build_registry(config: ConfigFile, paths: Paths) -> Registry:
    """Return the registry of agents, which reads the currently configured folders."""
    return Registry(
        find_agents_folder(config.current, paths),
        foreign_folders=find_foreign_folders(config.current),
        models=lambda: config.current.models,
    )
