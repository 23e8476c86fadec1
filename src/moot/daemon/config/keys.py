"""Every key of config.toml with its type and meaning. The documentation is generated from these tables."""

import math
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from moot.daemon.address import is_loopback
from moot.domain.config import PROVIDERS, STORE_KINDS

_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})")
_PROXY = re.compile(r"http://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?/?")
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|keyring:[^\s:][^\s]*|secret:[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class Numbers(tuple[int, ...]):
    """The kind of a key that takes a list of whole numbers."""


class Key(Struct, frozen=True):
    """A configuration key. `check` returns what is wrong with a value of the right type."""

    name: str
    kind: type
    meaning: str
    default: str
    check: Callable[[Any], str] | None = None

    def problem(self, value: object) -> str:
        """Return what is wrong with the value, or "". Never contains the value, which may be a secret."""
        if not self._is_right(value):
            return f"`{self.name}` must be {_KINDS[self.kind]}, not {_describe_type(value)}"
        reason = self.check(value) if self.check else ""
        return f"`{self.name}` {reason}" if reason else ""

    def _is_right(self, value: object) -> bool:
        if issubclass(self.kind, tuple):
            each_kind = int if self.kind is Numbers else str
            return isinstance(value, list) and all(type(each) is each_kind for each in value)
        wanted = (int, float) if self.kind is float else (self.kind,)
        return isinstance(value, wanted) and (self.kind is bool or not isinstance(value, bool))

    def convert(self, value: Any) -> Any:
        return self.kind(value)


_KINDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list of texts in quotes",
    Numbers: "a list of whole numbers",
}


def _describe_type(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    names = {str: "text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "a date or time")


def check_between(low: float, high: float) -> Callable[[float], str]:
    def check(value: float) -> str:
        return "" if low <= value <= high else f"must be between {low:g} and {high:g}"

    return check


def check_at_least(low: float) -> Callable[[float], str]:
    def check(value: float) -> str:
        return "" if math.isfinite(value) and value >= low else f"must be {low:g} or more"

    return check


def check_above_zero(value: float) -> str:
    return "" if math.isfinite(value) and value > 0 else "must be more than 0"


def check_one_of(*words: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        return "" if value in words else f"must be one of {', '.join(words)}, not {ascii(value)}"

    return check


def check_ports(value: Numbers) -> str:
    return "" if value and all(0 < port < 65_536 for port in value) else "must be ports, from 1 to 65535"


def check_reference(value: str) -> str:
    if not value or _REFERENCE.fullmatch(value):
        return ""
    return (
        "must not be a key in clear text; store the key with `moot secrets set NAME` and write"
        ' "secret:NAME" here (or "env:VARIABLE", "keyring:NAME")'
    )


def _check_address(value: str) -> str:
    if value in ("", "off"):
        return ""
    match = _HOST_PORT.fullmatch(value)
    if match is None or int(match[2]) > 65535:
        return 'must be "host:port" such as "127.0.0.1:7600", or "off"'
    if not is_loopback(match[1].strip("[]")):
        return "must be a loopback address such as 127.0.0.1; reach it from elsewhere through a tunnel or a proxy"
    return ""


def _check_proxy(value: str) -> str:
    if value in ("", "off") or _REFERENCE.fullmatch(value) or _PROXY.fullmatch(value):
        return ""
    return 'must be "http://host:port" without a password, "secret:NAME", "env:VARIABLE" or "off"'


TOP_KEYS = (
    Key("default_model", str, "The model of agents that do not name one.", "smollm2"),
    Key("ask_seconds", float, "How long a question to you stays open.", "3600", check_above_zero),
    Key("tool_seconds", float, "How long one tool call may take.", "600", check_above_zero),
    Key("max_content_bytes", int, "Maximum length of a message.", "1048576", check_between(1, 15 * 1024 * 1024)),
    Key("queue_bound", int, "Maximum number of queued messages in one conversation.", "32", check_between(1, 10_000)),
)

MODEL_KEYS = (
    Key("provider", str, "Protocol of the provider: " + ", ".join(PROVIDERS) + ".", "", check_one_of(*PROVIDERS)),
    Key("base_url", str, "Where the server is. Empty is the provider's own address.", ""),
    Key("model", str, "The provider's name of the model; for `local`, a model that was pulled or a .gguf file.", ""),
    Key(
        "api_key",
        str,
        'Where the key is: "secret:NAME", "env:VARIABLE" or "keyring:NAME"; never the key.',
        "",
        check_reference,
    ),
    Key("window", int, "Context window in tokens; 0 uses the known value.", "0", check_at_least(0)),
    Key("max_output_tokens", int, "Tokens of one reply; 0 is the provider's choice.", "0", check_at_least(0)),
    Key(
        "tools",
        str,
        "How tools are offered: `native`, `schema` (the model answers in JSON) or `none`; empty is what is known.",
        "",
        check_one_of("", "native", "schema", "none"),
    ),
    Key("warm", bool, "For `local`: load it, and let it read its instructions, when the daemon starts.", "true"),
    Key("small", bool, "Use short instructions and few tools. `smollm2` and `qwen` are always small.", "false"),
    Key("idle_seconds", float, "How long the server may be silent before the call fails.", "120", check_above_zero),
    Key("retries", int, "How often a call that failed before any output is retried.", "3", check_between(0, 20)),
    Key("thinking_tokens", int, "Tokens the model may think before it answers; 0 is none.", "0", check_at_least(0)),
    Key("price_prompt", float, "US dollars for a million prompt tokens; 0 is the known price.", "0", check_at_least(0)),
    Key(
        "price_completion",
        float,
        "US dollars for a million reply tokens; 0 is the known price.",
        "0",
        check_at_least(0),
    ),
    Key("script", str, "For `scripted`: the file with its replies, relative to this file's folder.", ""),
    Key("threads", int, "For `local`: processor threads; 0 is all cores but one.", "0", check_between(0, 1024)),
)

LIMIT_KEYS = (
    Key("steps", int, "Model calls of one run; 0 is no limit.", "50", check_at_least(0)),
    Key("seconds", float, "Duration of one run; 0 is no limit.", "1800", check_at_least(0)),
    Key("idle_seconds", float, "How long nothing may happen in one run; 0 is no limit.", "0", check_at_least(0)),
    Key("tokens", int, "Tokens of one run and its teammates; 0 is no limit.", "0", check_at_least(0)),
    Key("spend", float, "US dollars of one run and its teammates; 0 is no limit.", "0", check_at_least(0)),
)

BUDGET_KEYS = (
    Key("steps", int, "Model calls of one turn, all its teammates together; 0 is no limit.", "1000", check_at_least(0)),
    Key("seconds", float, "Duration of one turn, its teammates included; 0 is no limit.", "0", check_at_least(0)),
    Key("tokens", int, "Tokens of one turn, all its teammates together; 0 is no limit.", "0", check_at_least(0)),
    Key("spend", float, "US dollars of one turn, all its teammates together; 0 is no limit.", "0", check_at_least(0)),
)

COMPACTION_KEYS = (
    Key("auto", bool, "Compact a history automatically when it fills the context window.", "true"),
    Key("threshold", float, "Fraction of the window at which that happens.", "0.8", check_between(0.1, 0.95)),
)

LISTEN_KEYS = (
    Key("http", str, 'HTTP and WebSocket, as "host:port" on loopback; "off" is none.', "", _check_address),
    Key("tcp", str, 'Protobuf frames on TCP, as "host:port" on loopback; "off" is none.', "", _check_address),
)

STORE_KEYS = (
    Key(
        "kind",
        str,
        "`sqlite` keeps everything in a file; `memory` forgets everything when the daemon stops.",
        "sqlite",
        check_one_of(*STORE_KINDS),
    ),
)

PEERS_KEYS = (
    Key("directory", bool, "Whether agents can find and write to each other. Persons always can.", "true"),
    Key(
        "active_seconds",
        float,
        "How long after its last message a conversation can be written to by other agents.",
        "86400",
        check_above_zero,
    ),
    Key("max_broadcast", int, "How many goals a message to all agents may reach.", "32", check_between(1, 1000)),
    Key("max_hops", int, "How many messages in a row may wake agents.", "8", check_between(0, 1000)),
    Key("max_wakes", int, "How many runs messages may start because of one turn.", "20", check_between(0, 100_000)),
    Key(
        "keep_dead_days",
        float,
        "How many days messages that were not read are kept for `moot peers dead`.",
        "30",
        check_above_zero,
    ),
)

NETWORK_KEYS = (
    Key(
        "proxy",
        str,
        'Proxy for requests to models, as "http://host:port"; "secret:NAME" or "env:VARIABLE" for an address with a'
        ' password; "off" is none; empty is HTTPS_PROXY and NO_PROXY of the environment.',
        "",
        _check_proxy,
    ),
)

CHAT_KEYS = (
    Key("agent", str, "The agent that `moot` and `moot chat` talk to if none is named.", "moot"),
    Key("here", bool, "Whether the chat has one conversation per project directory, as with `--here`.", "false"),
    Key(
        "markdown",
        bool,
        "Whether the chat, `moot ask`, `moot run` and `moot attach` render Markdown in a terminal; `--plain` of the "
        "chat and `NO_COLOR` turn it off.",
        "true",
    ),
    Key(
        "busy",
        str,
        "What happens to a message that you send to a busy agent: `queue`, or `steer` (shown at the next step).",
        "queue",
        check_one_of("queue", "steer"),
    ),
    Key(
        "notify",
        str,
        "How the chat alerts you if it needs you: `all` (a bell and a notification of the terminal), `bell`, or `off`.",
        "all",
        check_one_of("all", "bell", "off"),
    ),
    Key(
        "away_seconds",
        float,
        "After how many seconds of absence the chat and `moot ask` first show what has happened; 0 turns it off.",
        "14400",
        check_between(0, 31_536_000),
    ),
)

SECTIONS = (
    "models", "limits", "budget", "compaction", "listen", "network", "store", "peers", "broker", "chat", "security",
)  # fmt: skip
