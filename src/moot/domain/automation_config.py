"""The tables of config.toml about what works by itself: [background], [cron]. `daemon/config` reads them."""

from msgspec import Struct


class BackgroundConfig(Struct, frozen=True, kw_only=True):
    """[background]: whether teammates and background tasks may be started. None follows `multiAgent` for teammates."""

    enabled: bool | None = None


class CronConfig(Struct, frozen=True, kw_only=True):
    """[cron]: whether scheduled jobs fire."""

    enabled: bool = True
