"""The keys of [metrics] and [telemetry]."""

import re

from moot.daemon.config.keys import Key, check_one_of, check_reference
from moot.domain.telemetry_config import METRICS_ACCESS

_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?(/[^\s?#@]*)?")


def _check_url(value: str) -> str:
    return "" if _URL.fullmatch(value) else 'must be "http://host:port/path" or https, without a password'


METRICS_KEYS = (
    Key("enabled", bool, "Serve Prometheus metrics at /metrics of the HTTP listener.", "false"),
    Key(
        "access",
        str,
        "`token`: readers send the token in `data/metrics.token`; `loopback`: every process of this machine may read.",
        "token",
        check_one_of(*METRICS_ACCESS),
    ),
)

TELEMETRY_KEYS = (
    Key("enabled", bool, "Export traces of runs by OpenTelemetry (OTLP over HTTP).", "false"),
    Key("endpoint", str, "Where the collector receives traces.", "http://127.0.0.1:4318/v1/traces", _check_url),
    Key(
        "authorization",
        str,
        'Where the value of the Authorization header is: "secret:NAME", "env:VARIABLE" or "keyring:NAME".',
        "",
        check_reference,
    ),
    Key(
        "content",
        bool,
        "Export messages, tool arguments and results too, with secrets and personal data redacted.",
        "false",
    ),
)

SECTIONS = {"metrics": METRICS_KEYS, "telemetry": TELEMETRY_KEYS}
