import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.agents.agent_md import BUILT_IN_NAMES, check_name, find_imitated, parse_agent, render_agent
from moot.domain.agent import Agent, AgentRole, AgentStatus
from moot.domain.front_matter import Broken
from moot.multiagent.partition import Partition

GOOD = """---
name: writer
description: Writes short things.
model: fast
---

You write.

---
This is still the instruction.
"""


def test_front_matter_and_body_make_an_agent() -> None:
    agent = parse_agent(GOOD, path="/agents/writer/AGENT.md")

    assert agent == Agent(
        name="writer",
        description="Writes short things.",
        instruction="You write.\n\n---\nThis is still the instruction.",
        model="fast",
        path="/agents/writer/AGENT.md",
    )


def test_unknown_keys_of_any_shape_are_left_alone() -> None:
    agent = parse_agent("---\nname: a\ndescription: d\nprefixes: [x, y]\nalarm:\n  on: 12:30\n---\nDo.\n")

    assert agent.name == "a"


def test_a_plain_value_is_text_whatever_yaml_would_make_of_it() -> None:
    agent = parse_agent("---\nname: 007\ndescription: yes\nmodel: ~\n---\nDo.\n")

    assert (agent.name, agent.description, agent.model) == ("007", "yes", "")


FULL = """---
name: code-reviewer
description: Reviews code.
status: draft
model: fast
prefixes:
  - review_*
  - lint_
  - fs_read
keywords: [review, code quality]
capabilities: code-review
accepts: A diff.
returns: Findings.
cannot_do:
  - change files
denied: agent_spawn
always_include: yes
session_isolation: false
role: " Coordinator "
made_by: hand
---
You review.
"""


def test_the_whole_front_matter_is_read() -> None:
    agent = parse_agent(FULL)

    assert agent == Agent(
        name="code-reviewer",
        description="Reviews code.",
        instruction="You review.",
        model="fast",
        status=AgentStatus.DRAFT,
        prefixes=("review_*", "lint_*", "fs_read"),
        keywords=("review", "code quality"),
        capabilities=("code-review",),
        accepts="A diff.",
        returns="Findings.",
        cannot_do=("change files",),
        denied=("agent_spawn",),
        always_include=True,
        session_isolation=False,
        role=AgentRole.COORDINATOR,
        scope=agent.scope,
        made_by="hand",
    )


def test_prefixes_bound_what_an_agent_may_use() -> None:
    scope = parse_agent(FULL).scope

    assert [
        tool for tool in ("review_diff", "lint_all", "fs_read", "ask_user", "agent_wait") if not scope.allows(tool)
    ] == []
    assert [tool for tool in ("fs_write", "exec", "fs_read_all") if scope.allows(tool)] == []


@pytest.mark.parametrize(
    ("line", "prefixes", "allowed"),
    [("", None, ["exec", "ask_user"]), ("prefixes:\n", None, ["exec", "ask_user"]), ("prefixes: []\n", (), [])],
)
def test_no_prefixes_are_every_tool_and_an_empty_list_is_none(
    line: str, prefixes: tuple[str, ...] | None, allowed: list[str]
) -> None:
    agent = parse_agent(f"---\nname: a\ndescription: d\n{line}---\nDo.")

    assert agent.prefixes == prefixes
    assert [tool for tool in ("exec", "ask_user") if agent.scope.allows(tool)] == allowed


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("keyword", "keywords"),
        ("modle", "model"),
        ("Description", "description"),
        ("prefix", "prefixes"),
        ("tools", "prefixes"),
        ("allowed-tools", "prefixes"),
        ("session-isolation", "session_isolation"),
        ("deny", "denied"),
    ],
)
def test_a_key_nobody_reads_is_told_with_its_line_and_the_one_that_may_be_meant(key: str, meant: str) -> None:
    agent = parse_agent(f"---\nname: a\ndescription: d\n{key}: [x]\n---\nDo.", path="/a/AGENT.md")

    (warning,) = agent.warnings
    assert str(warning) == f"/a/AGENT.md:4: unknown key `{key}`, ignored; did you mean `{meant}`?"


def test_a_key_that_resembles_none_is_told_without_a_guess() -> None:
    agent = parse_agent("---\nname: a\ndescription: d\nzzz: {a: [b]}\n---\nDo.")

    assert [each.reason for each in agent.warnings] == ["unknown key `zzz`, ignored"]


def test_no_known_key_is_doubted() -> None:
    assert parse_agent(FULL).warnings == ()


@pytest.mark.parametrize("line", ["", "prefixes: [fs_*]\n"])
def test_what_is_denied_may_not_be_used_whatever_the_prefixes_say(line: str) -> None:
    agent = parse_agent(f"---\nname: a\ndescription: d\n{line}denied: [fs_delete, task_, agent_spawn]\n---\nDo.")

    tools = ("fs_delete", "task_create", "agent_spawn", "fs_read", "agent_wait", "ask_user")
    assert [tool for tool in tools if agent.scope.allows(tool)] == ["fs_read", "agent_wait", "ask_user"]
    assert Partition([agent], tools).tools_of("a") == ({"fs_read"} if line else set())


def test_what_is_rendered_reads_as_the_same_agent() -> None:
    for text in (GOOD, FULL, "---\nname: a\ndescription: 'it: \"#'\nprefixes: []\n---\nDo: ---\n\n---\nit"):
        agent = parse_agent(text)
        assert parse_agent(render_agent(agent)) == agent


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("---\nname: a\ndescription: d\nstatus: off\n---\nDo.", 4, "active, disabled, draft"),
        ("---\nname: a\ndescription: d\nrole: boss\n---\nDo.", 4, "coordinator, worker, assistant, not 'boss'"),
        ("---\nname: a\ndescription: d\nalways_include: maybe\n---\nDo.", 4, "true or false"),
        ("---\nname: a\ndescription: d\nsession_isolation: 1\n---\nDo.", 4, "true or false"),
        ("---\nname: a\ndescription: d\nprefixes: {a: b}\n---\nDo.", 4, "list of texts"),
        ("---\nname: a\ndescription: d\nprefixes:\n  - ok_*\n  - not ok\n---\nDo.", 6, "pattern"),
        ("---\nname: a\ndescription: d\nprefixes: ['fs_[rw]*']\n---\nDo.", 4, "pattern"),
        ("---\nname: a\ndescription: d\nkeywords:\n  - one\n  - ''\n---\nDo.", 6, "1 to 200"),
        ("---\nname: a\ndescription: d\nkeywords:\n  - [two]\n---\nDo.", 5, "list of texts"),
        ("---\nname: a\ndescription: d\nkeywords: [" + "x," * 300 + "]\n---\nDo.", 4, "256"),
        ("---\nname: a\ndescription: d\naccepts: [x]\n---\nDo.", 4, "text"),
        ("---\nname: operator\ndescription: d\n---\nDo.", 2, "built-in agent 'operator'"),
        ("", 1, "---"),
        ("name: a\n", 1, "---"),
        ("---\nname: a\n", 1, "close"),
        ("---\nname: a\ndescription: d\n---\n  \n", 4, "instruction"),
        ("---\ndescription: d\n---\nDo.", 1, "`name`"),
        ("---\nname: a\n---\nDo.", 1, "`description`"),
        ("---\nname: a\ndescription: [d\n---\nDo.", 3, "YAML"),
        ("---\nname: a\n\tdescription: d\n---\nDo.", 3, "YAML"),
        ("---\nname: [a]\ndescription: d\n---\nDo.", 2, "text"),
        ("---\nname: a\nname: b\ndescription: d\n---\nDo.", 3, "twice"),
        ("---\nx: &x [1]\ny: *x\nname: a\ndescription: d\n---\nDo.", 3, "alias"),
        ("---\n- a\n- b\n---\nDo.", 2, "key: value"),
        ("---\nname: !!python/object/apply:os.system [ls]\ndescription: d\n---\nDo.", 2, "text"),
        ("---\nname: A Writer\ndescription: d\n---\nDo.", 2, "a-z"),
        ("---\nname: ../up\ndescription: d\n---\nDo.", 2, "a-z"),
        ("---\nname: moot\ndescription: d\n---\nDo.", 2, "built-in"),
        ("---\nx: " + "[" * 5000 + "]" * 5000 + "\n---\nDo.", 2, "nested"),
        ("---\nx: " + "a" * 40000 + "\n---\nDo.", 2, "KiB"),
        ('---\nname: a\ndescription: "\\UFFFFFFFF"\n---\nDo.', 3, "bounds"),
        ('---\nname: a\ndescription: "\\U00110000"\n---\nDo.', 3, "bounds"),
        ("---\n\n%YAML 1." + "1" * 5000 + "\n---\nDo.", 3, "bounds"),
        ('---\nname: a\ndescription: "\\uD800"\n---\nDo.', 3, "surrogate"),
        ('---\nname: a\ndescription: d\nmodel: "x\\0"\n---\nDo.', 4, "NUL"),
        ('---\n"\\uDFFF": 1\n"\\uDFFF": 2\n---\nDo.', 3, "`\ufffd` is given twice"),
        ("---\nname: a\x07\ndescription: d\n---\nDo.", 2, "character"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, word: str) -> None:
    with pytest.raises(Broken) as caught:
        parse_agent(text)

    assert caught.value.line == line
    assert word in caught.value.reason


@pytest.mark.parametrize("name", ["moot", "MOOT", "ｍｏｏｔ", "m00t", "mo0t", "moоt", "мооt", "rnoot", "𝐦𝐨𝐨𝐭"])
def test_a_name_that_could_be_taken_for_the_built_in_agent_is_refused(name: str) -> None:
    assert find_imitated(name) == "moot"
    assert "built-in" in check_name(name)


@pytest.mark.parametrize("built_in", BUILT_IN_NAMES)
def test_no_built_in_name_can_be_taken_however_it_is_written(built_in: str) -> None:
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in built_in)
    dotted = built_in[0] + "\u0307" + built_in[1:]
    hidden = built_in[0] + "\u200b" + built_in[1:]
    for name in (built_in, built_in.upper(), built_in.title(), wide, dotted, hidden):
        assert find_imitated(name) == built_in, ascii(name)


LISTS = ("allowed_delegates", "accept_delegates_from")
WRONG = [
    *[(f"{key}: {value}", reason) for key in LISTS for value, reason in (
        ("3", "is of the type int"), ("[ada, 3]", "is of the type int"), ("true", "is of the type bool"),
        ("4.5", "is of the type float"), ("2026-01-01", "is of the type timestamp"), ("[~]", "has an empty entry"),
        ("", "has an empty entry"), ("{ada: bob}", "must be a list of texts"), ("[[ada]]", "must be a list of texts"),
        ("Ada", "neither the name"), ("'*x'", "neither the name"), ("[a, a b]", "neither the name"),
    )],
    *[(f"wake: {value}", "must be true or false") for value in ("1", "'true'", "[true]", "", "soon")],
    *[(f"role: {value}", "`role` must be") for value in ("3", "true", "[worker]", "{worker: 1}", "workers")],
    *[(f"auto_approve: {value}", "`auto_approve` must be") for value in ("3", "[edits]", "{edits: 1}", "all", "Edits")],
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), WRONG, ids=[line for line, _ in WRONG])
def test_a_value_of_the_wrong_type_is_an_error_with_its_line(line: str, reason: str) -> None:
    with pytest.raises(Broken) as broken:
        parse_agent(f"---\nname: a\ndescription: d\n{line}\n---\nDo.")
    assert broken.value.line == 4
    assert reason in broken.value.reason


def test_a_name_that_is_a_number_is_accepted_in_quotes() -> None:
    agent = parse_agent("---\nname: a\ndescription: d\nallowed_delegates: ['3', bob]\n---\nDo.")
    assert agent.allowed_delegates == ("3", "bob")
    assert parse_agent(render_agent(agent)) == agent


@pytest.mark.parametrize(
    ("name", "built_in"),
    [("p1anner", "planner"), ("plаnner", "planner"), ("operat0r", "operator"), ("lιbrarian", "librarian"),
     ("vau1t", "vault"), ("vauIt", "vault"), ("ont0l0gist", "ontologist"), ("chronic1er", "chronicler")],
)  # fmt: skip
def test_a_name_that_looks_like_a_role_is_refused(name: str, built_in: str) -> None:
    assert built_in in check_name(name)


@pytest.mark.parametrize("name", ["plan", "operators", "my-planner", "vault2", "library"])
def test_a_name_that_only_resembles_a_role_is_free(name: str) -> None:
    assert check_name(name) == ""


@pytest.mark.parametrize("name", ["a", "writer", "0", "code-review_2", "moot-helper", "mood", "x" * 64])
def test_ordinary_names_are_allowed(name: str) -> None:
    assert check_name(name) == ""


@pytest.mark.parametrize("name", ["", "-a", "_a", "a b", "A", "ä", "a.b", "a/b", "x" * 65, "a\n", "run:1", "\u202ea"])
def test_other_names_are_refused_with_what_is_allowed(name: str) -> None:
    assert "a-z" in check_name(name)


@given(st.text(max_size=300))
def test_no_text_does_more_harm_than_being_broken(text: str) -> None:
    lines = []
    try:
        parse_agent("---\n" + text + "\n---\nDo.")
    except Broken as broken:
        lines.append(broken.line)

    assert all(line >= 1 for line in lines)
