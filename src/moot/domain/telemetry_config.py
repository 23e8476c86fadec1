"""The tables of config.toml about what is measured: [metrics], [telemetry]. Read by `daemon/config`."""

from msgspec import Struct

METRICS_ACCESS = ("token", "loopback")


class MetricsConfig(Struct, frozen=True, kw_only=True):
    """[metrics]: whether /metrics is served, and who may read it."""

    enabled: bool = False
    access: str = "token"


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    """[telemetry]: whether and where traces are exported. `authorization` is only ever a reference to the value."""

    enabled: bool = False
    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    authorization: str = ""
    # Whether messages, tool arguments and results are exported.
    content: bool = False
