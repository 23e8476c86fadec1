"""`moot doctor`: runs every check and prints the findings with a fix for each."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click
from msgspec.structs import asdict

from moot import __version__
from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.doctor import (
    checks,
    document_checks,
    mcp_checks,
    secret_checks,
    toolchain_checks,
    trace_checks,
    vocabulary_checks,
)
from moot.cli.doctor.checks import ERROR, NOTE, OK, WARNING, Finding, run_check
from moot.cli.exits import Exit
from moot.cli.follow import tool_notices
from moot.cli.render import numbers, sanitize, terminal
from moot.client import daemon_process
from moot.client.connection import connect
from moot.daemon.paths import Paths
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from moot.wire.codec import PROTOCOL_VERSION

_MARKS = {OK: ("✓", "green"), NOTE: ("·", "blue"), WARNING: ("!", "yellow"), ERROR: ("✗", "red")}
_DAEMON_SECONDS = 30.0
# How long to wait for MCP servers before using their last known state.
_SERVER_SECONDS = 20.0
# The column where messages start.
_UNDER = " " * 15


class Unhealthy(MootError):
    """At least one check failed; the findings say which."""

    type = "unhealthy"


@click.command()
@click.option(
    "--acknowledge", is_flag=True, help="Do not report again what traces have reported until now. Needs the daemon."
)
@output.json_option
def doctor(acknowledge: bool) -> int:
    """Check configuration, agents, skills, models, MCP, sandbox, daemon, store, traces and disk.

    Failed turns, loops, timeouts and rerouted work are reported for a week, or until --acknowledge.

    Prints a fix for each finding. Exits with 1 if there is an error. Changes nothing else.
    """
    if acknowledge:
        send_request(pb.ClientMessage(acknowledge_traces=pb.AcknowledgeTracesMsg()))
    traces: list[pb.TraceHealth] = []
    with output.progress("Checking"):
        findings = run_checks(traces)
    data = {
        "healthy": all(finding.level != ERROR for finding in findings),
        "findings": [asdict(finding) for finding in findings],
        "traces": trace_checks.trace_health_data(traces[0]) if traces else None,
    }
    output.emit(data, render=_render_findings, error=None if data["healthy"] else _unhealthy_error(findings))
    return int(Exit.OK if data["healthy"] else Exit.RUN_FAILED)


def _unhealthy_error(findings: list[Finding]) -> MootError:
    wrong = [finding for finding in findings if finding.level == ERROR]
    return Unhealthy("\n".join(f"{finding.check}: {finding.message}" for finding in wrong), fix=wrong[0].fix)


def run_checks(traces: list[pb.TraceHealth]) -> list[Finding]:
    """Run all checks; findings from traces are also added to `traces`, if they can be read."""
    findings = run_check("versions", checks.versions) + run_check("user", checks.user)
    try:
        home = Paths.find(os.environ)
    except RuntimeError as problem:
        return [*findings, checks.error("paths", str(problem), "Set HOME, or MOOT_HOME to a folder of your own.")]
    findings += run_check("program", checks.program)
    findings += run_check("disk", lambda: checks.disk(home))
    findings += run_check("permissions", lambda: checks.permissions(home))
    findings += run_check("config", lambda: checks.configuration(home))
    findings += run_check("agents", lambda: checks.agents(home))
    findings += run_check("skills", lambda: checks.skills(home))
    findings += run_check("search", checks.search)
    findings += run_check("documents", lambda: document_checks.check_documents(home))
    findings += run_check("toolchain", lambda: toolchain_checks.check_toolchain(home))
    findings += run_check("daemon", lambda: _check_daemon_and_store(home, traces))
    return findings


def _check_daemon_and_store(home: Paths, traces: list[pb.TraceHealth]) -> Iterator[Finding]:
    answer = asyncio.run(_fetch_report(home))
    if answer is not None:
        yield from run_check("config", lambda: _check_config_in_use(home))
        yield from run_check("models", lambda: _check_models(home, answer[2]))
        yield from _check_daemon(home, *answer)
        yield from run_check("mcp", lambda: mcp_checks.check_servers(asyncio.run(_fetch_mcp_servers(home))))
        yield from run_check("vocabulary", lambda: _check_vocabularies(home))
        yield from run_check("secrets", lambda: _check_secrets(home))
        yield from run_check("traces", lambda: _check_traces(asyncio.run(_fetch_trace_health(home)), traces))
        return
    yield from run_check("models", lambda: checks.models(home))
    yield from checks.leftovers(home)
    yield from run_check("sandbox", lambda: checks.sandbox(home))
    yield from run_check("mcp", lambda: mcp_checks.check_configuration(home))
    # A daemon that does not answer may still be writing to the store, so it is not opened.
    if not daemon_process.is_locked(home.lock):
        yield from run_check("listen", lambda: checks.listen(home))
        yield from run_check("store", lambda: checks.store(home))
        yield from run_check("secrets", lambda: secret_checks.check_key(home, secret_checks.count_stored(home)))
        yield from run_check("traces", lambda: _check_traces(trace_checks.read_health(home), traces))


def _check_traces(health: pb.TraceHealth | None, traces: list[pb.TraceHealth]) -> Iterator[Finding]:
    if health is not None:
        traces.append(health)
        yield from trace_checks.check_traces(health)


async def _fetch_trace_health(home: Paths) -> pb.TraceHealth:
    async with asyncio.timeout(_DAEMON_SECONDS), connect(home.socket) as connection:
        answer = await connection.request(pb.ClientMessage(get_trace_health=pb.GetTraceHealthMsg()))
    return answer.trace_health


def _check_config_in_use(home: Paths) -> Iterator[Finding]:
    """Check whether the running daemon has read the file as it is now; what is invalid in it was reported before."""
    problem = asyncio.run(_fetch_config_problem(home))
    if problem and checks.load_valid_config(home) is not None:
        yield checks.warning("config", f"{problem}. The daemon uses the previous configuration.", "Run: moot reload")


async def _fetch_config_problem(home: Paths) -> str:
    hello = pb.ClientMessage(hello=pb.Hello(version=PROTOCOL_VERSION, client="moot"))
    async with asyncio.timeout(_DAEMON_SECONDS), connect(home.socket) as connection:
        return (await connection.request(hello)).welcome.config_problem


def _check_secrets(home: Paths) -> Iterator[Finding]:
    stored = asyncio.run(_fetch_secrets(home))
    problems = list(secret_checks.check_key(home, len(stored)))
    yield from problems or secret_checks.check_unreadable([info.name for info in stored if info.unreadable])


def _check_vocabularies(home: Paths) -> Iterator[Finding]:
    yield from vocabulary_checks.check_vocabularies(asyncio.run(_fetch_vocabularies(home)))


async def _fetch_vocabularies(home: Paths) -> pb.VocabularyList:
    async with asyncio.timeout(_DAEMON_SECONDS), connect(home.socket) as connection:
        answer = await connection.request(pb.ClientMessage(list_vocabularies=pb.ListVocabulariesMsg()))
    return answer.vocabularies


async def _fetch_secrets(home: Paths) -> list[pb.SecretInfo]:
    async with asyncio.timeout(_DAEMON_SECONDS), connect(home.socket) as connection:
        answer = await connection.request(pb.ClientMessage(list_secrets=pb.ListSecretsMsg()))
    return list(answer.secret_list.secrets)


async def _fetch_mcp_servers(home: Paths) -> list[pb.McpServerInfo]:
    """The current state of every server, or the last known state if fetching takes too long."""
    for seconds, now in ((_SERVER_SECONDS, True), (_DAEMON_SECONDS, False)):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), connect(home.socket) as connection:
                answer = await connection.request(pb.ClientMessage(list_mcp=pb.ListMcpMsg(connect=now)))
                return list(answer.mcp_list.servers)
    raise MootError("the daemon did not report its MCP servers")


async def _fetch_report(home: Paths) -> tuple[pb.DaemonStats, list[pb.Finding], list[pb.ModelInfo]] | None:
    """The daemon's own report, or None if it does not answer."""
    if not await daemon_process.is_answering(home):
        return None
    try:
        async with asyncio.timeout(_DAEMON_SECONDS), connect(home.socket) as connection:
            stats = await connection.request(pb.ClientMessage(get_stats=pb.GetStats()))
            checked = await connection.request(pb.ClientMessage(check=pb.CheckMsg()))
            models = await connection.request(pb.ClientMessage(list_models=pb.ListModelsMsg()))
    except TimeoutError as problem:
        raise MootError(f"the daemon did not answer within {_DAEMON_SECONDS:.0f} seconds") from problem
    return stats.stats, list(checked.checked.findings), list(models.model_list.models)


def _check_daemon(
    home: Paths, stats: pb.DaemonStats, reported: list[pb.Finding], models: list[pb.ModelInfo]
) -> Iterator[Finding]:
    yield checks.ok("daemon", f"Running (pid {stats.pid}), up {stats.uptime_secs} s, at {home.socket}.")
    noted = daemon_process.running_pid(home)
    if noted and stats.pid and noted != stats.pid:
        yield checks.error(
            "daemon",
            f"{home.pid} names pid {noted}, but pid {stats.pid} answers: two daemons share this home.",
            f"Stop both (kill {noted} {stats.pid}), then `moot up`.",
        )
    if stats.version != __version__:
        fix = "Restart it: `moot down`, then `moot up`."
        yield checks.warning("daemon", f"It is version {stats.version}, this command is {__version__}.", fix)
    # Configuration and agents were already checked from the files.
    for finding in reported:
        if finding.check not in ("config", "agents"):
            level = finding.level if finding.level in _MARKS else ERROR
            yield Finding(level=level, check=finding.check, message=finding.message, fix=finding.fix)
    yield from _check_default_window(models)


def _check_models(home: Paths, models: list[pb.ModelInfo]) -> Iterator[Finding]:
    """Check the models as the daemon sees them: it has its own environment and the vault."""
    config = checks.load_valid_config(home)
    if config is None:
        yield checks.skip_finding("models")
        return
    for model in models:
        if model.name in config.models:
            yield checks.check_model(config, model.name, problem=model.problem, tools=model.tools)
    missing = sorted(set(config.models) - {model.name for model in models})
    if missing:
        fix = "Run: moot reload"
        yield checks.warning("models", f"The daemon has not read the configuration: {', '.join(missing)}.", fix)


def _check_default_window(models: list[pb.ModelInfo]) -> Iterator[Finding]:
    for model in models:
        if model.is_default and (warning := tool_notices.render_assumed_window(model)):
            yield checks.warning("models", warning, "")
        if model.is_default and (few := tool_notices.render_left_out_tools(model)):
            yield Finding(level=OK, check="models", message=few, fix=tool_notices.render_wider_window(model))


def _render_findings(data: dict[str, Any]) -> str:
    lines = []
    for finding in data["findings"]:
        mark, colour = _MARKS[finding["level"]]
        text = _render_hanging(f"  {finding['check']:<12} ", sanitize.line(finding["message"]))
        lines.append(terminal.paint(mark, fg=colour) + text[1:])
        if finding["fix"]:
            text = _render_hanging(f"{_UNDER}fix: ", sanitize.line(finding["fix"]))
            lines.append(text.replace("fix:", terminal.paint("fix:", fg="green"), 1))
    errors, warnings = (sum(each["level"] == level for each in data["findings"]) for level in (ERROR, WARNING))
    counts = [numbers.format_plural(errors, "error") if errors else "No errors"]
    counts += [numbers.format_plural(warnings, "warning")] if warnings else []
    return "\n".join([*lines, "", f"{', '.join(counts)}."])


def _render_hanging(head: str, text: str) -> str:
    """Wrap the text beside its label, with a hanging indent."""
    return output.wrap_prose(head + text, sys.stdout, indent=" " * len(head))
