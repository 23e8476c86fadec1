"""Configuration of what starts runs by itself: the [workflow] table. Part of Config (config.py). Pure."""

from msgspec import Struct


class WorkflowConfig(Struct, frozen=True, kw_only=True):
    """[workflow]: whether agents and people can run workflows, and how many steps of all of them run at once."""

    enabled: bool = True
    max_parallel: int = 8
