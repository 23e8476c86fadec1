"""Agents as files and as a team: where they come from, what each may use, and what the command line says of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from moot.domain.agent import ROLES
from moot.domain.errors import ConfigError, NotFound
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, call_cli, eventually
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG

THEIRS = """---
name: critic
description: Judges code.
tools: Read, Grep, Bash(git diff:*)
model: sonnet
color: red
---
You judge code written by others.
"""

REVIEW_TOOLS = '''from moot.tools import tool


@tool
def review_diff(path: str) -> str:
    """Review a diff."""
    return path


@tool
def jira_search(query: str) -> str:
    """Search issues."""
    return query
'''


def data(done: Any) -> Any:
    document = json.loads(done.stdout)
    assert document["ok"], document
    return document["data"]


def offered(provider: Provider) -> set[str]:
    """The names of the tools the last request offered."""
    return {tool["function"]["name"] for tool in provider.bodies()[-1].get("tools", [])}


def front(name: str, lines: str, body: str = "Do it.") -> str:
    return f"---\nname: {name}\ndescription: {name} of the tests\n{lines}---\n{body}\n"


def write(folder: Path, name: str, lines: str = "", body: str = "Do it.") -> Path:
    path = folder / name / "AGENT.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(front(name, lines, body), encoding="utf-8")
    return path


async def test_a_role_is_offered_its_own_tools_and_an_agent_without_prefixes_all(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        await talk.say("operator", "hello", sender)
        operator = offered(provider)
        await talk.say("planner", "hello", sender)
        planner = offered(provider)
        await talk.say("ada", "hello", sender)
        ada = offered(provider)

    assert {"exec", "fs_read", "fs_write", "ask_user", "recall", "task_create"} <= operator
    assert not operator & {"web_fetch", "secrets_get", "memory_agent_save", "create_skill"}
    assert planner == set()
    assert operator | {"web_fetch", "secrets_get", "memory_agent_save"} <= ada


async def test_a_call_outside_an_agents_prefixes_is_not_made(home: Home, provider: Provider, tmp_path: Path) -> None:
    write(home.path / "agents", "reader", "prefixes: [fs_read]\n")
    provider.program(
        {"calls": [{"name": "fs_write", "arguments": {"path": "made.txt", "content": "x"}}]}, {"text": "I cannot."}
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("reader", "write a file", cwd=str(tmp_path))

    (result,) = speech.of("tool_result")
    assert result.is_error
    assert "no tool 'fs_write'" in result.output
    assert not (tmp_path / "made.txt").exists()


def test_the_tools_are_divided_among_the_agents_by_their_prefixes(home: Home) -> None:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "reviewing.py").write_text(REVIEW_TOOLS)
    write(home.path / "agents", "reviewer", "prefixes: [review_*, fs_read]\nkeywords: [jira]\n")
    with daemon_thread(home) as daemon:
        found = data(daemon.cli("agent", "tools", "--partition", "--json"))
        one = data(daemon.cli("agent", "tools", "reviewer", "--json"))
        unknown = daemon.cli("agent", "tools", "ghost", "--json")
        text = daemon.cli("agent", "tools", "--partition").stdout

    tools = {each["agent"]: set(each["tools"]) for each in found["agents"]}
    spawnable = {each["agent"] for each in found["agents"] if each["teammate"]}
    assert set(tools) == {*ROLES, "ada", "bob", "cyd", "reviewer"}
    assert {"exec", "exec_bg", "fs_read", "fs_write"} <= tools["operator"]
    assert {"create_skill", "list_skills", "web_fetch"} <= tools["librarian"]
    # Nobody was named who answers searches.
    assert "web_search" not in tools["librarian"]
    assert {"memory_agent_save", "observe_add", "reflect_now"} <= tools["chronicler"]
    assert {"crypto_sign", "secrets_get"} <= tools["vault"]
    assert tools["reviewer"] == {"review_diff", "fs_read"}
    assert tools["planner"] == tools["ada"] == set()
    assert {"ontology_assert_fact", "ontology_facts_at"} <= tools["ontologist"]
    assert {"graph_query", "graph_traverse"} <= tools["librarian"]
    assert {"cron_add", "bg_submit", "workflow_run"} <= tools["automator"]
    assert spawnable == {*ROLES, "reviewer"} - {"navigator"}
    assert found["unmatched"] == [{"name": "jira_search", "near": ["reviewer (keyword jira)"]}]
    assert {"ask_user", "set_title", "recall", "task_create", "tool_output_get"} <= set(found["shared"])
    assert [each["agent"] for each in one["agents"]] == ["reviewer"]
    assert unknown.returncode == 6
    assert "jira_search (near reviewer (keyword jira))" in text


def test_a_role_without_tools_is_inactive_and_says_what_is_missing_until_it_has_one(home: Home) -> None:
    with daemon_thread(home) as daemon:
        listed = {each["name"]: each for each in daemon.cli_json("agents", "list")["data"]}
        assert (listed["navigator"]["status"], listed["navigator"]["missing"]) == (
            "inactive",
            "no tool named browser_*",
        )
        assert {listed[name]["status"] for name in ("moot", "operator", "planner", "ada")} == {"active"}
        assert "navigator (no tool named browser_*)" in daemon.cli("agents", "list").stderr
        assert listed["navigator"]["description"] == "Can only chat: no tool named browser_*."
        assert "inactive, can only chat: no tool named browser_*" in daemon.cli("agents", "show", "navigator").stdout
        asked = daemon.cli("ask", "navigator", "hi")
        assert asked.returncode == 0
        assert "navigator is inactive, it can only chat: no tool named browser_*." in asked.stderr
        assert "inactive" not in daemon.cli("ask", "operator", "hi").stderr
        # Nor can an agent of one's own work whose file names no tool that there is.
        path = home.write_agent("painter")
        path.write_text(path.read_text().replace("name: painter", "name: painter\nprefixes: [paint_*]"))
        assert "painter (no tool named paint_*)" in " ".join(daemon.cli("agents", "list").stderr.split())
        path.write_text(path.read_text().replace("paint_*", "recall"))
        assert "painter" not in daemon.cli("agents", "list").stderr
        tool = REVIEW_TOOLS.replace("jira_search", "browser_search")
        (home.path / "tools").mkdir(exist_ok=True)
        (home.path / "tools" / "own.py").write_text(tool)
        daemon.cli("reload")
        listed = {each["name"]: each for each in daemon.cli_json("agents", "list")["data"]}
        assert (listed["navigator"]["status"], listed["navigator"]["missing"]) == ("active", "")


async def test_a_blocked_tool_is_offered_to_nobody_and_a_role_without_others_is_inactive(
    home: Home, provider: Provider
) -> None:
    blocked = "[security.interceptor]\nblocked_tools = {}\n"
    config = f"{(home.path / 'config.toml').read_text()}\n[agent]\nmultiAgent = true\n"
    home.write_config(config + blocked.format('["exec", "exec_*", "fs_*", "skill_*"]'))
    with daemon_thread(home) as daemon:
        listed = {each["name"]: each for each in daemon.cli_json("agents", "list")["data"]}
        operator, librarian = listed["operator"], listed["librarian"]
        assert (operator["status"], operator["missing"]) == ("inactive", "its tools are in blocked_tools")
        assert librarian["status"] == "active"
        async with daemon.client() as talk:
            await talk.say("moot", "hello")
            told = str(provider.bodies()[-1]["messages"][0])
            assert "- librarian:" in told
            assert "- operator:" not in told
            await talk.say("ada", "hello")
            assert not offered(provider) & {"exec", "exec_bg", "fs_read"}
            assert "web_fetch" in offered(provider)
            # What is no longer blocked is offered from the next message on.
            home.write_config(config + blocked.format('["exec"]'))
            daemon.cli("reload")
            await talk.say("ada", "hello")
            assert {"exec_bg", "fs_read"} <= offered(provider)
            assert "exec" not in offered(provider)
            await talk.say("moot", "hello")
            assert "- operator:" in str(provider.bodies()[-1]["messages"][0])


def test_categories_of_tools_are_enabled_or_say_why_not(home: Home) -> None:
    config = (home.path / "config.toml").read_text()
    with daemon_thread(home) as daemon:
        document = data(daemon.cli("agent", "tools", "--json"))
        with terminal(home, "agent", "tools", columns=80) as person:
            assert person.wait_for_exit() == 0
    before = {each["name"]: each for each in document["categories"]}
    assert set(document) == {"categories", "no_tools_reason"}
    assert {"fs_read", "fs_write"} <= set(before["files"]["tools"])
    assert (before["files"]["enabled"], before["files"]["reason"]) == (True, None)
    reasons = {name: each["reason"] for name, each in before.items() if not each["enabled"]}
    assert reasons["web_search"] == "provider is not set in [web]"
    assert reasons["teammates"] == "multiAgent is not set in [agent]"
    assert reasons["mcp"] == "no server in [mcp.NAME]; see `moot mcp add`"
    assert reasons["own"] == "no tool in the folder tools/"
    assert reasons["browser"].startswith("no tool named browser_*")
    assert [name for name, each in before.items() if each["enabled"] and not each["tools"]] == []
    rows = person.seen.splitlines()
    assert max(map(len, rows)) <= 80
    assert "…" not in person.seen
    assert any(row.split() == ["web_search", "disabled", *reasons["web_search"].split()] for row in rows)

    (home.path / "tools").mkdir()
    (home.path / "tools" / "reviewing.py").write_text(REVIEW_TOOLS)
    home.write_config(
        f'{config}\n[agent]\nmultiAgent = true\n[web]\nprovider = "duckduckgo"\n'
        '[security.interceptor]\nblocked_tools = ["crypto_*", "fs_delete"]\n'
        '[mcp.off]\ncommand = "true"\nenabled = false\n'
    )
    with daemon_thread(home) as daemon:
        after = {each["name"]: each for each in data(daemon.cli("agent", "tools", "--json"))["categories"]}
    assert after["web_search"]["enabled"]
    assert "agent_spawn" in after["teammates"]["tools"]
    assert set(after["own"]["tools"]) == {"review_diff", "jira_search"}
    assert (after["mcp"]["enabled"], after["mcp"]["reason"]) == (False, "off: enabled is false in [mcp.off]")
    assert not after["crypto"]["enabled"]
    assert after["crypto"]["reason"].endswith("blocked_tools in [security.interceptor]")
    assert after["files"]["enabled"]
    assert after["files"]["reason"] == "fs_delete: blocked_tools in [security.interceptor]"


def test_status_and_list_tell_sources_and_name_a_broken_file_with_its_line(home: Home) -> None:
    with daemon_thread(home) as daemon:
        good = daemon.cli("agent", "status", "--json")
        listed = data(daemon.cli("agent", "list", "--json"))
        broken = write(home.path / "agents", "dora", "status: sleeping\n")
        bad = daemon.cli("agent", "status", "--json")
        bad_list = daemon.cli("agent", "list")

    assert good.returncode == 0
    status = data(good)
    assert (status["mode"], status["multi_agent"], status["max_delegation_rounds"]) == ("single", False, 10)
    assert status["registry"] == {
        "built-in": 9, "user": 3, "active": 12, "agents_dir": str(home.path / "agents")
    }  # fmt: skip
    assert [(each["name"], each["source"], each["priority"]) for each in listed][:2] == [
        ("moot", "built-in", 0),
        ("operator", "built-in", 0),
    ]
    (ada,) = [each for each in listed if each["name"] == "ada"]
    assert (ada["source"], ada["priority"], ada["status"]) == ("user", 2, "active")
    assert ada["path"] == str(home.path / "agents" / "ada" / "AGENT.md")
    document = json.loads(bad.stdout)
    assert (bad.returncode, document["error"]["type"]) == (78, "bad_config")
    assert document["data"]["flaws"][0].startswith(f"{broken}:4: ")
    assert bad_list.returncode == 78
    assert f"{broken}:4: " in bad_list.stderr
    assert "ada of the tests" in bad_list.stdout


async def test_an_agent_that_is_disabled_cannot_be_talked_to_until_it_is_active(home: Home, provider: Provider) -> None:
    path = write(home.path / "agents", "dora", "status: disabled\n")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            with pytest.raises(ConfigError, match="status is disabled"):
                await talk.say("dora", "hello")
            path.write_text(front("dora", "status: active\n"))

            async def answers() -> bool:
                try:
                    return (await talk.say("dora", "hello")).outcome == "completed"
                except ConfigError:
                    return False

            await eventually(answers)


async def test_nobody_can_pose_as_a_role(home: Home, provider: Provider) -> None:
    path = write(home.path / "agents", "operator", body="I am the impostor.")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("operator", "hello")
        done = daemon.cli("agent", "list", "--json")

    assert "impostor" not in json.dumps(provider.bodies())
    assert done.returncode == 78
    assert str(path) in json.loads(done.stdout)["error"]["message"]


async def test_embedded_agents_answer_someone_who_has_written_none(home: Home, provider: Provider) -> None:
    for name in ("ada", "bob", "cyd"):
        (home.path / "agents" / name / "AGENT.md").unlink()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("translator", "Guten Tag")).outcome == "completed"
        assert offered(provider) >= {"fs_read", "fs_write", "ask_user"}
        assert "exec" not in offered(provider)
        listed = data(daemon.cli("agent", "list", "--json"))
    assert [each["name"] for each in listed if each["source"] == "embedded"] == [
        "code-reviewer",
        "data-analyst",
        "translator",
    ]


async def test_agents_are_read_from_the_configured_folder_and_from_those_of_other_programs(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / ".claude" / "agents"
    write(mine, "zoe")
    theirs.mkdir(parents=True)
    (theirs / "critic.md").write_text(THEIRS)
    config = (home.path / "config.toml").read_text()
    home.write_config(f'{config}\n[agent]\nagentsDir = "../mine"\nforeignDirs = ["{theirs}"]\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("zoe", "hello")).outcome == "completed"
            assert (await talk.say("critic", "hello")).ended.provider == "openai"
            assert "You judge code" in provider.bodies()[-1]["messages"][0]["content"]
            assert not offered(provider) & {"exec", "fs_write"}
            with pytest.raises(NotFound):
                await talk.say("ada", "hello")
        listed = {each["name"]: each for each in data(daemon.cli("agent", "list", "--json"))}
        status = data(daemon.cli("agent", "status", "--json"))
    assert (listed["critic"]["source"], listed["critic"]["path"]) == ("user", str(theirs / "critic.md"))
    assert status["registry"]["agents_dir"] == str(home.path / ".." / "mine")
    assert status["foreign_dirs"] == [str(theirs)]


REFUSING = {
    "o1": "tools:\n  edit: false",
    "o2": "tools:\n  edit: false\n  write: false\n  patch: false\n  bash: false",
    "o3": "permission:\n  edit: deny\n  bash: deny\n  task: deny",
    "o4": "tools: {'*': false, read: true}",
    "o5": "tools:\n  '*': false",
    "o6": "permission:\n  '*': deny",
    "c1": "disallowedTools: Write, Edit",
    "c2": "disallowedTools: Bash(rm:*), KillShell, Task",
    "c3": "tools: Read, Edit, Bash\ndisallowedTools: MultiEdit, BashOutput",
    "c4": "tools: '*'\ndisallowedTools: '*'",
    "c5": "",
}
CHANGES, COMMANDS = {"fs_edit", "fs_patch", "fs_write", "fs_mkdir"}, {"exec", "exec_bg", "exec_status", "exec_stop"}
READS = {"fs_read", "fs_stat", "fs_list", "fs_search", "fs_glob", "web_fetch", "list_skills", "view_skill"}
LEFT = {
    "o1": READS | COMMANDS,
    "o2": READS,
    "o3": READS,
    "o4": {"fs_read", "fs_stat"},
    "o5": set(),
    "o6": set(),
    "c1": READS | COMMANDS,
    "c2": READS | CHANGES,
    "c3": {"fs_read", "fs_stat", "exec", "exec_bg", "exec_stop"},
    "c4": set(),
    "c5": READS | CHANGES | COMMANDS,
}
SPAWNING = {"agent_spawn", "agent_wait", "agent_stop"}


async def test_what_a_file_of_another_program_denies_is_not_given_whichever_way_it_came(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name, lines in REFUSING.items():
        (theirs / f"{name}.md").write_text(f"---\ndescription: {name}\n{lines}\n---\nDo it.\n")
    config = (home.path / "config.toml").read_text()
    home.write_config(f'{config}\n[agent]\nmultiAgent = true\nforeignDirs = ["{theirs}"]\n')
    used: dict[str, set[str]] = {}
    with daemon_thread(home) as daemon:
        for name in REFUSING:
            data(daemon.cli("agent", "import", str(theirs / f"{name}.md"), "--name", f"{name}-copy", "--json"))
        shown = {each["agent"]: each for each in data(daemon.cli("agent", "tools", "--partition", "--json"))["agents"]}
        async with daemon.client() as talk:
            for name in (each + copy for each in REFUSING for copy in ("", "-copy")):
                await talk.say(name, "hello")
                used[name] = offered(provider)

    for name, left in LEFT.items():
        for each in (name, f"{name}-copy"):
            assert set(shown[each]["tools"]) == left, each
            assert shown[each]["teammate"] is bool(left), each
            assert used[each] & (READS | CHANGES | COMMANDS) == left, each
            assert not used[each] & {"fs_delete", "secrets_get", "memory_agent_save"}, each
            spawns = SPAWNING if name in ("o1", "o2", "c1", "c5") else set()
            assert used[each] & SPAWNING == spawns, each
    assert used["o5"] == used["o6-copy"] == used["c4-copy"] == set()


async def test_no_tool_writes_where_agents_are_defined(home: Home, provider: Provider, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    path = write(mine, "zoe")
    before = path.read_text()
    config = (home.path / "config.toml").read_text()
    home.write_config(f'{config}\n[agent]\nagentsDir = "{mine}"\n[security.interceptor]\npolicy = "none"\n')
    wanted = {"path": "mine/zoe/AGENT.md", "content": "---\nname: zoe\ndescription: d\n---\nObey.\n"}
    provider.program({"calls": [{"name": "fs_write", "arguments": wanted}]}, {"text": "Refused."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("zoe", "rewrite yourself", cwd=str(tmp_path))

    assert [result.is_error for result in speech.of("tool_result")] == [True]
    assert path.read_text() == before


async def test_a_new_agent_is_made_checked_and_talked_to(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        made = data(daemon.cli("agent", "new", "critic", "--description", "it's: sharp", "--json"))
        again = daemon.cli("agent", "new", "critic", "--json")
        taken = daemon.cli("agent", "new", "planner", "--json")
        checked = data(daemon.cli("agent", "validate", "critic", "--json"))
        async with daemon.client() as talk:
            assert (await talk.say("critic", "hello")).outcome == "completed"
        shown = data(daemon.cli("agent", "show", "critic", "--json"))

    assert made["path"] == str(home.path / "agents" / "critic" / "AGENT.md")
    assert (again.returncode, taken.returncode) == (1, 2)
    assert "built-in" in json.loads(taken.stdout)["error"]["message"]
    assert checked == [{"path": made["path"], "name": "critic", "ok": True, "flaw": None, "warnings": []}]
    assert made["gone"] == []
    assert (shown["description"], shown["prefixes"], shown["status"]) == ("it's: sharp", None, "active")


def test_the_role_of_an_agent_is_shown_and_an_unknown_one_is_told_with_its_line(home: Home) -> None:
    agents = home.path / "agents"
    write(agents, "boss", "role: ' Coordinator '\n")
    broken = write(agents, "odd", "role: chief\n")
    with daemon_thread(home) as daemon:
        shown = daemon.cli("agent", "show", "boss")
        listed = daemon.cli("agents", "list")
        found = {each["name"]: each["role"] for each in json.loads(daemon.cli("agents", "--json").stdout)["data"]}

    assert "role         coordinator\n" in shown.stdout
    assert " ROLE " in listed.stdout
    assert (found["boss"], found["ada"]) == ("coordinator", "")
    assert f"{broken}:4: `role` must be one of coordinator, worker, assistant, not 'chief'" in listed.stderr


def test_the_first_agent_of_ones_own_says_which_go_for_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").furnish(agents=())
    (tmp_path / "reader.md").write_text("---\ndescription: d\ntools: Read, Grep\ntemperature: 0.1\n---\nDo it.\n")
    first = call_cli(home, "agent", "import", str(tmp_path / "reader.md"))
    second = call_cli(home, "agent", "new", "judge")
    (home.path / "agents" / "reader" / "AGENT.md").unlink()
    path = home.path / "agents" / "judge" / "AGENT.md"
    template = path.read_text()
    path.unlink()
    third = call_cli(home, "agent", "new", "critic", "--json")

    assert "code-reviewer, data-analyst, translator" in first.stderr
    assert "  Grep became fs_search.\n" in first.stdout
    assert "  Left out: temperature.\n" in first.stdout
    assert second.stderr == ""
    assert "and none as a" in template
    assert data(third)["gone"] == ["code-reviewer", "data-analyst", "translator"]
    assert third.stderr == ""


def test_a_misspelt_key_is_told_with_its_line_and_breaks_nothing(home: Home, tmp_path: Path) -> None:
    path = write(home.path / "agents", "dora", "keyword: [x]\nmodle: fake\n")
    theirs = tmp_path / "theirs.md"
    theirs.write_text("---\ndescription: d\ncolor: red\nkeyword: x\n---\nDo it.\n")
    said = [
        f"{path}:4: unknown key `keyword`, ignored; did you mean `keywords`?",
        f"{path}:5: unknown key `modle`, ignored; did you mean `model`?",
    ]

    checked = call_cli(home, "agent", "validate", "dora")
    shape = data(call_cli(home, "agent", "validate", "dora", "--json"))
    foreign = data(call_cli(home, "agent", "validate", str(theirs), "--json"))
    with daemon_thread(home) as daemon:
        listed = daemon.cli("agent", "list")
        (dora,) = [each for each in data(daemon.cli("agent", "list", "--json")) if each["name"] == "dora"]

    assert (checked.returncode, checked.stdout.splitlines()) == (
        0,
        [f"good  {path}", *(f"warn  {line}" for line in said)],
    )
    assert (shape[0]["ok"], shape[0]["warnings"]) == (True, said)
    assert (foreign[0]["ok"], foreign[0]["warnings"]) == (True, [])
    assert listed.returncode == 0
    assert [line for line in listed.stderr.splitlines() if line.startswith("warning")] == [
        f"warning: {line}" for line in said
    ]
    assert dora["warnings"] == said


def test_on_a_terminal_no_tool_of_an_agent_is_cut_off(home: Home) -> None:
    with daemon_thread(home) as daemon:
        (operator,) = data(daemon.cli("agent", "tools", "operator", "--json"))["agents"]
        with terminal(home, "agent", "tools", "operator", columns=60) as person:
            assert person.wait_for_exit() == 0
            one = person.seen
        with terminal(home, "agent", "tools", "--partition", columns=60) as person:
            assert person.wait_for_exit() == 0
            every = person.seen

    for seen in (one, every):
        assert "…" not in seen
        assert max(map(len, seen.splitlines())) <= 60
        assert [tool for tool in operator["tools"] if tool not in seen] == []
    assert len(", ".join(operator["tools"])) > 60


def test_validation_names_every_bad_file_with_its_line_and_needs_no_daemon(home: Home, tmp_path: Path) -> None:
    good = write(tmp_path / "some", "fine")
    bad = write(tmp_path / "some", "worse", "prefixes:\n  - ok_*\n  - not ok\n")
    model = write(tmp_path / "some", "odd", "model: nowhere\n")

    done = call_cli(home, "agent", "validate", str(tmp_path / "some"), "--json")
    all_own = call_cli(home, "agent", "validate", "--json")
    single = call_cli(home, "agent", "validate", str(bad))
    absent = call_cli(home, "agent", "validate", "ghost", "--json")

    found = {each["path"]: each["flaw"] for each in json.loads(done.stdout)["data"]}
    assert done.returncode == 78
    assert found[str(good)] is None
    assert found[str(bad)].startswith(f"{bad}:6: ")
    assert found[str(model)].startswith(f"{model}:4: ")
    assert (all_own.returncode, [each["name"] for each in data(all_own)]) == (0, ["ada", "bob", "cyd"])
    assert (single.returncode, f"{bad}:6: " in single.stdout) == (78, True)
    assert absent.returncode == 6
    assert not home.socket.exists()


async def test_an_agent_of_another_program_is_imported_with_what_it_may_use(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    source = tmp_path / "critic.md"
    source.write_text(THEIRS)
    (tmp_path / "vault.md").write_text("---\ndescription: d\n---\nMine now.\n")
    with daemon_thread(home) as daemon:
        done = data(daemon.cli("agent", "import", str(source), "--json"))
        refused = daemon.cli("agent", "import", str(tmp_path / "vault.md"), "--json")
        renamed = daemon.cli("agent", "import", str(source), "--name", "judge", "--json")
        missing = daemon.cli("agent", "import", str(tmp_path / "ghost.md"), "--json")
        async with daemon.client() as talk:
            assert (await talk.say("critic", "hello")).outcome == "completed"

    assert done["left_out"] == ["tool Bash(git diff:*)", "model sonnet", "color"]
    assert done["became"] == {"Read": ["fs_read", "fs_stat"], "Grep": ["fs_search"]}
    assert done["tools"] == ["fs_read", "fs_stat", "fs_search"]
    assert done["denied"] == ["agent_spawn", "agent_stop", "agent_wait"]
    assert done["path"] == str(home.path / "agents" / "critic" / "AGENT.md")
    assert {"fs_read", "fs_search", "ask_user"} <= offered(provider)
    assert not offered(provider) & {"exec", "fs_write"}
    assert (refused.returncode, missing.returncode) == (78, 78)
    assert data(renamed)["name"] == "judge"
    assert source.read_text() == THEIRS
