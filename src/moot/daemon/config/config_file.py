"""Reads config.toml into `domain.config` values and reports errors with file and line."""

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from moot.daemon.config.agent_keys import SECTIONS as AGENT_SECTIONS
from moot.daemon.config.agent_keys import read_agent_config, rename_fields
from moot.daemon.config.broken_config import BrokenConfig, ConfigProblem
from moot.daemon.config.broker_keys import BROKER_KEYS, read_broker_config
from moot.daemon.config.keys import (
    BUDGET_KEYS,
    CHAT_KEYS,
    COMPACTION_KEYS,
    LIMIT_KEYS,
    LISTEN_KEYS,
    MODEL_KEYS,
    NETWORK_KEYS,
    PEERS_KEYS,
    SECTIONS,
    STORE_KEYS,
    TOP_KEYS,
    Key,
)
from moot.daemon.config.mcp_keys import MCP_KEYS, MCP_TABLES, build_mcp_config
from moot.daemon.config.model_keys import build_model_config, check_model
from moot.daemon.config.telemetry_keys import SECTIONS as TELEMETRY_SECTIONS
from moot.daemon.config.toml_lines import KeyPath, find_key_lines, find_line
from moot.daemon.config.tool_keys import INTERCEPTOR_KEYS, find_embedding_problem
from moot.daemon.config.tool_keys import SECTIONS as TOOL_SECTIONS
from moot.domain.agent import FileProblem
from moot.domain.automation_config import BackgroundConfig, CronConfig, WorkflowConfig
from moot.domain.config import (
    AgentMemoryConfig,
    ChatConfig,
    CompactionConfig,
    Config,
    FilesConfig,
    InterceptorConfig,
    ListenConfig,
    MemoryConfig,
    ModelConfig,
    NetworkConfig,
    OutputConfig,
    PeersConfig,
    ProjectConfig,
    RunLedgerConfig,
    SandboxConfig,
    SkillConfig,
    StoreConfig,
    ToolsConfig,
    ToolSearchConfig,
    TraceConfig,
    VaultConfig,
    WebConfig,
    default_config,
)
from moot.domain.knowledge_config import GraphConfig, KnowledgeConfig, LibrarianConfig
from moot.domain.mcp import McpConfig
from moot.domain.rag_config import RagConfig
from moot.domain.run import Limits
from moot.domain.telemetry_config import MetricsConfig, TelemetryConfig

MAX_BYTES = 1_048_576
_AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)")
_DIGITS = re.compile(r"[0-9_]+")
_MANY_DIGITS = 4000
# TOML guarantees integers of 64 bits only.
_LARGEST = 2**63 - 1
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")


class ConfigFile:
    """The configuration in use. If the file is invalid, the last valid one stays in use and `flaws` has the errors.

    The last valid file is also kept on disk, so that the daemon can start although the file is invalid.
    """

    def __init__(self, path: Path, *, last_good: Path | None = None) -> None:
        self._path = path
        self._last_good = last_good
        self._flaws: tuple[FileProblem, ...] = ()
        self._problem = ConfigProblem()
        # The state of the file when it was last examined, and the content that is in use.
        self._stamp: tuple[int, int] | None = None
        self._data: bytes | None = None
        # The parsed document, to determine what changes.
        self.written: dict[str, Any] = {}
        try:
            self.current = self._read()
        except BrokenConfig as broken:
            self.current = self._fall_back(broken)
            self._flaws, self._problem = broken.flaws, broken.problem
        self._first = self.current

    @property
    def first(self) -> Config:
        """Return the configuration the daemon started with; some of its keys apply until a restart."""
        return self._first

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return self._flaws

    def find_problem(self) -> ConfigProblem:
        """Return why the file as it is now is not in use."""
        stamp = _read_stamp(self._path)
        if stamp != self._stamp:
            self._stamp, self._problem = stamp, self._examine()
        return self._problem

    def _examine(self) -> ConfigProblem:
        try:
            data = _read_bytes(self._path)
            if data is not None:
                _parse(self._path, data)
        except BrokenConfig as broken:
            return broken.problem
        return ConfigProblem("" if data == self._data else f"{self._path} has changed")

    def reload(self) -> bool:
        """Read the file again. Return False if it is invalid; the last valid one stays in use."""
        try:
            self.current = self._read()
        except BrokenConfig as broken:
            self._flaws, self._problem = broken.flaws, broken.problem
            return False
        self._problem = ConfigProblem()
        return True

    def _read(self) -> Config:
        self._stamp = _read_stamp(self._path)
        data = _read_bytes(self._path)
        config, warnings, self.written = (default_config(), [], {}) if data is None else _parse(self._path, data)
        self._flaws, self._data = tuple(warnings), data
        if self._last_good is not None and data is not None:
            _save_last_valid(self._last_good, data)
        return config

    def _fall_back(self, broken: BrokenConfig) -> Config:
        kept = None if self._last_good is None else _read_bytes(self._last_good)
        if kept is None:
            raise broken
        config, _, self.written = _parse(self._path, kept)
        self._data = kept
        return config


def load_config(path: Path) -> tuple[Config, list[FileProblem]]:
    """Return the configuration and warnings about what was ignored. Without a file, the default configuration."""
    data = _read_bytes(path)
    return (default_config(), []) if data is None else _parse(path, data)[:2]


def _read_stamp(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_ino
    return None


def _read_bytes(path: Path) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _broken_config(path, 1, f"it cannot be read: {error.strerror}") from error


def _save_last_valid(path: Path, data: bytes) -> None:
    """Save a copy of a valid file atomically. A disk error is ignored, as the copy is only a convenience."""
    beside = path.with_suffix(".new")
    with suppress(OSError):
        if path.exists() and path.read_bytes() == data:
            return
        beside.write_bytes(data)
        beside.chmod(0o600)
        beside.replace(path)


def _parse(path: Path, data: bytes) -> tuple[Config, list[FileProblem], dict[str, Any]]:
    """Return the configuration, warnings about what was ignored, and the document."""
    if len(data) > MAX_BYTES:
        raise _broken_config(path, 1, f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _broken_config(path, data.count(b"\n", 0, error.start) + 1, "it is not UTF-8 text") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, error) from error
    except RecursionError as error:
        raise _broken_config(path, 1, "it is nested too deeply") from error
    except ValueError as error:
        # Python limits the digits of an integer, and tomllib does not translate that error.
        raise _broken_config(path, _line_of_digits(text), "a number has too many digits") from error
    reading = ConfigReader(path, find_key_lines(text))
    config = reading.config(document)
    if reading.errors:
        raise BrokenConfig(sorted(reading.errors, key=lambda flaw: flaw.line), reading.warnings)
    return config, reading.warnings, document


class ConfigReader:
    """Reads a document into configuration values and collects its errors and warnings."""

    def __init__(self, path: Path, lines: Mapping[KeyPath, int]) -> None:
        self._path = path
        self._lines = dict(lines)
        self.errors: list[FileProblem] = []
        self.warnings: list[FileProblem] = []

    def config(self, document: dict[str, Any]) -> Config:
        defaults = default_config()
        beside = (*SECTIONS, *TOOL_SECTIONS, *AGENT_SECTIONS, *TELEMETRY_SECTIONS, "mcp")
        top = self._read_table((), document, TOP_KEYS, beside=beside)
        models = {**defaults.models, **self._read_models(self._read_section(document, "models"), defaults.models)}
        default_model = top.pop("default_model", defaults.default_model)
        if default_model not in models:
            names = ", ".join(sorted(models))
            self._error(("default_model",), f"there is no [models.{default_model}]; there are {names}")
        if problem := find_embedding_problem((tools := self._read_tools(document)).rag, models):
            self._error(("rag", "embeddings"), problem)
        observed = {name: self._read_plain(document, name, keys) for name, keys in TELEMETRY_SECTIONS.items()}
        team = {name: self._read_plain(document, name, keys) for name, keys in AGENT_SECTIONS.items()}
        return Config(
            default_model=default_model,
            models=MappingProxyType(models),
            limits=self._read_limits(document, "limits", LIMIT_KEYS, defaults.limits),
            budget=self._read_limits(document, "budget", BUDGET_KEYS, defaults.budget),
            compaction=CompactionConfig(**self._read_plain(document, "compaction", COMPACTION_KEYS)),
            listen=ListenConfig(**self._read_plain(document, "listen", LISTEN_KEYS)),
            network=NetworkConfig(**self._read_plain(document, "network", NETWORK_KEYS)),
            store=StoreConfig(**self._read_plain(document, "store", STORE_KEYS)),
            peers=PeersConfig(**self._read_plain(document, "peers", PEERS_KEYS)),
            broker=read_broker_config(self._read_plain(document, "broker", BROKER_KEYS), folder=self._path.parent),
            chat=ChatConfig(**self._read_plain(document, "chat", CHAT_KEYS)),
            tools=tools,
            agent=read_agent_config(team["agent"], folder=self._path.parent),
            background=BackgroundConfig(**rename_fields(team["background"])),
            cron=CronConfig(**rename_fields(team["cron"])),
            run_ledger=RunLedgerConfig(**rename_fields(team["runLedger"])),
            agent_memory=AgentMemoryConfig(**rename_fields(team["agentMemory"])),
            librarian=LibrarianConfig(**rename_fields(team["librarian"])),
            workflow=WorkflowConfig(**team["workflow"]),
            traces=TraceConfig(**team["traces"]),
            metrics=MetricsConfig(**observed["metrics"]),
            telemetry=TelemetryConfig(**observed["telemetry"]),
            **top,
        )

    def _read_models(self, tables: dict[str, Any], defaults: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        found: dict[str, ModelConfig] = {}
        for name, table in tables.items():
            path = ("models", name)
            if not _MODEL_NAME.fullmatch(name):
                self._error(path, f"the model name {ascii(name)} is not allowed; use letters, digits and . _ : / -")
            elif not isinstance(table, dict):
                self._error(path, f"`{name}` must be a table: [models.{name}]")
            else:
                values = self._read_table(path, table, MODEL_KEYS)
                model = build_model_config(name, values, defaults.get(name), folder=self._path.parent)
                problems = check_model(model, given=frozenset(table))
                for key, reason in problems.errors:
                    self._error((*path, key), reason)
                for key, reason in problems.warnings:
                    self._warn((*path, key), reason)
                found[name] = model
        return found

    def _read_limits(self, document: dict[str, Any], name: str, keys: tuple[Key, ...], defaults: Limits) -> Limits:
        values = {key.name: getattr(defaults, key.name) for key in keys}
        values |= self._read_plain(document, name, keys)
        # TOML has no null, so 0 means "no limit".
        return Limits(**{name: value or None for name, value in values.items()})

    def _read_plain(self, document: dict[str, Any], name: str, keys: tuple[Key, ...]) -> dict[str, Any]:
        return self._read_table((name,), self._read_section(document, name), keys)

    def _read_tools(self, document: dict[str, Any]) -> ToolsConfig:
        sections = {name: self._read_plain(document, name, keys) for name, keys in TOOL_SECTIONS.items()}
        return ToolsConfig(
            interceptor=InterceptorConfig(**self._read_nested(document, "security", "interceptor", INTERCEPTOR_KEYS)),
            sandbox=SandboxConfig(**sections["sandbox"]),
            files=FilesConfig(**sections["files"]),
            tool_search=ToolSearchConfig(**sections["tool_search"]),
            project=ProjectConfig(**sections["project"]),
            skills=SkillConfig(**sections["skills"]),
            web=WebConfig(**sections["web"]),
            vault=VaultConfig(**sections["vault"]),
            memory=MemoryConfig(**sections["memory"]),
            outputs=OutputConfig(**sections["outputs"]),
            knowledge=KnowledgeConfig(**sections["knowledge"]),
            graph=GraphConfig(**sections["graph"]),
            rag=RagConfig(**sections["rag"]),
            mcp=MappingProxyType(self._read_mcp(self._read_section(document, "mcp"))),
        )

    def _read_mcp(self, tables: dict[str, Any]) -> dict[str, McpConfig]:
        found: dict[str, McpConfig] = {}
        for name, table in tables.items():
            path = ("mcp", name)
            if not isinstance(table, dict):
                self._error(path, f"`{name}` must be a table: [mcp.{name}]")
                continue
            values = self._read_table(path, table, MCP_KEYS, beside=tuple(MCP_TABLES))
            found[name], problems = build_mcp_config(name, table, values)
            for key, reason in problems:
                self._error((*path, key), reason)
        return found

    def _read_nested(self, document: dict[str, Any], outer: str, name: str, keys: tuple[Key, ...]) -> dict[str, Any]:
        """Return the values of [outer.name]."""
        section = self._read_section(document, outer)
        self._read_table((outer,), section, (), beside=(name,))
        table = section.get(name, {})
        if not isinstance(table, dict):
            self._error((outer, name), f"`{name}` must be a table: [{outer}.{name}]")
            return {}
        return self._read_table((outer, name), table, keys)

    def _read_section(self, document: dict[str, Any], name: str) -> dict[str, Any]:
        section = document.get(name, {})
        if isinstance(section, dict):
            return section
        self._error((name,), f"`{name}` must be a table: [{name}]")
        return {}

    def _read_table(
        self, path: KeyPath, table: dict[str, Any], keys: tuple[Key, ...], *, beside: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return the valid values of a table; record invalid ones as errors and unknown keys as warnings."""
        known = {key.name: key for key in keys}
        values: dict[str, Any] = {}
        for name, value in table.items():
            key = known.get(name)
            if key is None:
                if name not in beside:
                    # Imported only for a file with a mistake in it.
                    from moot.daemon.config.near_keys import suggest_key  # noqa: PLC0415

                    self._warn((*path, name), f"unknown key `{name}`, ignored{suggest_key(name, (*known, *beside))}")
            elif isinstance(value, int) and abs(value) > _LARGEST:
                self._error((*path, name), f"`{name}` is too large a number")
            elif reason := key.problem(value):
                self._error((*path, name), reason)
            else:
                values[name] = key.convert(value)
        return values

    def _error(self, path: KeyPath, reason: str) -> None:
        self.errors.append(self._flaw(path, reason))

    def _warn(self, path: KeyPath, reason: str) -> None:
        self.warnings.append(self._flaw(path, reason))

    def _flaw(self, path: KeyPath, reason: str) -> FileProblem:
        return FileProblem(path=os.fspath(self._path), line=find_line(self._lines, path), reason=reason)


def _syntax_error(path: Path, text: str, error: tomllib.TOMLDecodeError) -> BrokenConfig:
    message = str(error)
    match = _AT_LINE.search(message)
    line = int(match[1]) if match and match[1] else text.rstrip().count("\n") + 1
    return _broken_config(path, line, f"this is not TOML: {_AT_LINE.sub('', message)}")


def _line_of_digits(text: str) -> int:
    """Return the first line with such a long number; approximate, as the text cannot be parsed."""
    for number, line in enumerate(text.split("\n"), 1):
        bare = re.split("[#\"']", line, maxsplit=1)[0]
        if any(len(digits[0]) > _MANY_DIGITS for digits in _DIGITS.finditer(bare)):
            return number
    return 1


def _broken_config(path: Path, line: int, reason: str) -> BrokenConfig:
    return BrokenConfig([FileProblem(path=os.fspath(path), line=line, reason=reason)], [])
