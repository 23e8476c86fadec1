"""A category of tools is enabled, or says what is missing: a sandbox, a working server, a tool that is not blocked."""

from moot.daemon.tool_categories import ToolCategory, ToolFacts, list_categories
from moot.domain.config import Config, InterceptorConfig, ModelConfig, ToolsConfig
from moot.domain.sandbox import SandboxReport

BOXED = SandboxReport(mechanism="bubblewrap")


def categories(
    *tools: str,
    sandbox: SandboxReport = BOXED,
    blocked: tuple[str, ...] = (),
    servers: dict[str, str] | None = None,
) -> dict[str, ToolCategory]:
    config = Config(
        default_model="fake",
        models={"fake": ModelConfig(name="fake", provider="scripted")},
        tools=ToolsConfig(interceptor=InterceptorConfig(blocked_tools=blocked)),
    )
    facts = ToolFacts(tools=tools, config=config, sandbox=sandbox, no_teammates="off", servers=servers or {})
    return {category.name: category for category in list_categories(facts)}


def test_commands_need_a_sandbox() -> None:
    missing = SandboxReport(mechanism="missing", missing=("bubblewrap is not installed",))
    found = categories("exec", "exec_bg", sandbox=missing)["exec"]
    assert (found.is_enabled, found.reason) == (False, "no sandbox: bubblewrap is not installed")
    assert categories("exec")["exec"].is_enabled


def test_a_broken_server_is_named_whether_another_works_or_not() -> None:
    servers = {"good": "", "bad": "it does not answer"}
    without = categories(servers=servers)["mcp"]
    assert (without.is_enabled, without.reason) == (False, "bad: it does not answer")
    beside = categories("mcp__good__look", servers=servers)["mcp"]
    assert (beside.is_enabled, beside.reason) == (True, "bad: it does not answer")


def test_every_tool_is_in_exactly_one_category() -> None:
    tools = ("exec", "fs_read", "web_fetch", "web_search", "agent_spawn", "skill_tidy", "jira_search", "browser_open")
    found = categories(*tools)
    assert sorted(tool for category in found.values() for tool in category.tools) == sorted(tools)
    assert found["own"].tools == ("jira_search",)
    assert found["browser"].is_enabled


def test_a_category_is_disabled_when_all_its_tools_are_blocked() -> None:
    found = categories("fs_read", "fs_write", "crypto_hash", blocked=("fs_write", "crypto_*"))
    assert (found["files"].is_enabled, found["crypto"].is_enabled) == (True, False)
    assert found["crypto"].reason == "crypto_hash: blocked_tools in [security.interceptor]"
