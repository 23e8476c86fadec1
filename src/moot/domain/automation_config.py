"""The tables of config.toml about what works by itself: [background], [cron], [workflow]. Read by `daemon/config`."""

from msgspec import Struct


class BackgroundConfig(Struct, frozen=True, kw_only=True):
    """[background]: whether teammates and background tasks may be started. None follows `multiAgent` for teammates."""

    enabled: bool | None = None


class CronConfig(Struct, frozen=True, kw_only=True):
    """[cron]: whether scheduled jobs fire."""

    enabled: bool = True


class WorkflowConfig(Struct, frozen=True, kw_only=True):
    """[workflow]: whether agents and people can run workflows, and how many steps of all of them run at once."""

    enabled: bool = True
    max_parallel: int = 8
