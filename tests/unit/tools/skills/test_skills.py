"""Skills are read from a folder that may change, made, imported and used; nothing of them runs by itself."""

import io
import os
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from moot.domain.ask import Question
from moot.domain.config import SkillConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, Forbidden, MootError, NotFound
from moot.domain.front_matter import Broken
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety
from moot.domain.skill import Skill, SkillType
from moot.domain.visible import show
from moot.tools.files.off_limits import OffLimits
from moot.tools.skills import skill_tools
from moot.tools.skills.library import SkillLibrary, digest_files
from moot.tools.skills.skill_file import parse_skill, write_skill
from moot.tools.skills.skill_tools import SkillTools, tool_name

GREET = "---\nname: greet\ndescription: Say hello well. Use it when someone arrives.\n---\n\nBe kind.\n"


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(questions)


class Shop:
    """A shelf, its tools, and a working directory to import from."""

    def __init__(self, top: Path, config: SkillConfig | None = None) -> None:
        self.cwd = top / "cwd"
        self.cwd.mkdir()
        self.folder = top / "skills"
        self.skills = SkillLibrary(self.folder)
        self.off_limits = OffLimits(places=[str(self.folder), str(self.cwd / ".moot")])
        made = skill_tools.tools(skills=self.skills, off_limits=self.off_limits, config=config)
        self.tools: dict[str, Any] = {tool.spec.name: tool for tool in made}
        self.runs: list[tuple[str, list[str]]] = []
        self.dynamic = SkillTools(self.skills, self._run_script, sinks=frozenset())
        self.taint: frozenset[str] = frozenset()
        # Whether the owner has approved the calls.
        self.granted = False

    async def _run_script(self, path: str, args: Sequence[str], context: RunContext) -> str:
        self.runs.append((path, list(args)))
        return "ran"

    def context(self) -> RunContext:
        key = ConversationKey("crab", "user")
        return RunContext(
            run_id="r", key=key, speaker="crab", cwd=str(self.cwd), emit=lambda _event: None, ask=_nobody,
            taint=self.taint, granted=self.granted,
        )  # fmt: skip

    async def result(self, name: str, /, **arguments: Any) -> ToolResult:
        every = self.tools | {tool.spec.name: tool for tool in self.dynamic.current()}
        said = await every[name](arguments, self.context())
        return said if isinstance(said, ToolResult) else ToolResult(content=said)

    async def json(self, name: str, /, **arguments: Any) -> Any:
        return msgspec.json.decode((await self.result(name, **arguments)).content)

    def put(self, name: str, text: str) -> Path:
        path = self.folder / name / "SKILL.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# ---- the file ---------------------------------------------------------------------------------------


def test_a_file_of_the_open_format_is_read_with_its_other_keys_left_alone() -> None:
    text = (
        "---\nname: pdf-forms\ndescription: >-\n  Fill in\n  forms.\nlicense: MIT\n"
        "allowed-tools: Bash(jq:*) Read\nmetadata:\n  author: someone\n  version: '1.0'\n---\n# How\n\nDo it.\n"
    )
    skill = parse_skill(text.encode(), folder_name="pdf-forms")
    assert (skill.name, skill.description, skill.body) == ("pdf-forms", "Fill in forms.", "# How\n\nDo it.")
    assert skill.type is SkillType.INSTRUCTION


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "begin with ---"),
        ("---\nname: a\n", 1, "no end"),
        ("---\ndescription: d\n---\nb", 1, "no `name`"),
        ("---\nname: here\n---\nb", 1, "no `description`"),
        ("---\nname: here\ndescription: d\n---\n", 4, "no instructions"),
        ("---\nname: A b\ndescription: d\n---\nb", 2, "not allowed"),
        ("---\nname: ../x\ndescription: d\n---\nb", 2, "not allowed"),
        ("---\nname: a--b\ndescription: d\n---\nb", 2, "not allowed"),
        ("---\nname: -a\ndescription: d\n---\nb", 2, "not allowed"),
        (f"---\nname: {'a' * 65}\ndescription: d\n---\nb", 2, "not allowed"),
        (f"---\nname: here\ndescription: {'d' * 1025}\n---\nb", 3, "1025 characters"),
        ("---\nname: a\nname: b\ndescription: d\n---\nb", 3, "twice"),
        ("---\nname: [a]\ndescription: d\n---\nb", 2, "must be text"),
        ("---\nx: &a 1\ny: *a\nname: a\ndescription: d\n---\nb", 3, "aliases"),
        ("---\nname: a\n\tdescription: d\n---\nb", 3, "not YAML"),
        ("---\n" + "[" * 20 + "]" * 20 + "\n---\nb", 2, "too deeply"),
        ("---\nname: other\ndescription: d\n---\nb", 2, "must equal its folder"),
        ("---\nname: here\ndescription: d\nmetadata: {type: script}\n---\nb", 4, "names its script"),
        ("---\nname: here\ndescription: d\nmetadata: {type: script, script: ../x}\n---\nb", 4, "names its script"),
    ],
)
def test_a_broken_file_is_told_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(Broken, match=reason) as caught:
        parse_skill(text.encode(), folder_name="here")
    assert caught.value.line == line


@pytest.mark.parametrize(
    "description", ["plain", "with: colon", "- dash", "'quoted' \"twice\"", "née ☃ #x", "null", "3"]
)
def test_what_is_written_is_read_back(description: str) -> None:
    skill = Skill(name="a-1", description=description, body="---\nnot front matter\n---", type=SkillType.TEMPLATE)
    assert parse_skill(write_skill(skill), folder_name="a-1") == skill


# ---- the shelf --------------------------------------------------------------------------------------


def test_the_shelf_follows_its_folder_and_keeps_the_last_good_form(shop: Shop) -> None:
    assert shop.skills.all() == []
    path = shop.put("greet", GREET)
    assert shop.skills.refresh_if_changed()
    assert not shop.skills.refresh_if_changed()
    assert [skill.body for skill in shop.skills.all()] == ["Be kind."]
    path.write_text("---\nname: greet\n---\nbroken")
    assert shop.skills.refresh_if_changed()
    assert [skill.body for skill in shop.skills.all()] == ["Be kind."]
    assert str(shop.skills.flaws[0]).startswith(f"{path}:1: the front matter has no `description`")
    path.unlink()
    assert shop.skills.refresh_if_changed()
    assert (shop.skills.all(), shop.skills.flaws) == ([], ())


def test_a_skill_that_is_a_link_out_of_the_folder_is_a_flaw(shop: Shop) -> None:
    elsewhere = shop.cwd / "greet"
    elsewhere.mkdir()
    (elsewhere / "SKILL.md").write_text(GREET)
    shop.folder.mkdir()
    (shop.folder / "greet").symlink_to(elsewhere)
    shop.skills.reload()
    assert shop.skills.all() == []
    assert len(shop.skills.flaws) == 1


# ---- the tools --------------------------------------------------------------------------------------


def test_each_tool_is_as_safe_as_it_says(shop: Shop) -> None:
    assert {name: tool.spec.safety for name, tool in shop.tools.items()} == {
        "list_skills": Safety.SAFE,
        "view_skill": Safety.SAFE,
        "create_skill": Safety.DANGEROUS,
        "import_skill": Safety.DANGEROUS,
    }
    for tool in shop.tools.values():
        assert show(tool.line({"name": "a\x1b[2J", "url": "b\n", "type": "t"})).isprintable()


async def test_a_new_skill_can_be_listed_viewed_and_called_without_a_restart(shop: Shop) -> None:
    shop.granted = True
    made = await shop.json(
        "create_skill", name="tea", description="Makes tea.", type="instruction", definition="Boil water."
    )
    assert (made["status"], made["name"]) == ("active", "tea")
    assert (shop.folder / "tea/SKILL.md").read_text() == "---\nname: tea\ndescription: Makes tea.\n---\n\nBoil water.\n"
    listed = await shop.json("list_skills")
    assert (listed["count"], listed["skills"][0]["tool"]) == (1, "skill_tea")
    assert (await shop.json("list_skills", summary=True))["skills"] == [{"name": "tea", "description": "Makes tea."}]
    viewed = await shop.json("view_skill", name="tea")
    assert (viewed["name"], viewed["path"]) == ("tea", "SKILL.md")
    assert "Boil water." in viewed["content"]
    assert (await shop.result("skill_tea", topic="now")).content == "Boil water."
    with pytest.raises(Conflict):
        await shop.result("create_skill", name="tea", description="d", type="instruction", definition="x")


async def test_a_template_asks_for_its_blanks_and_fills_each_once(shop: Shop) -> None:
    shop.granted = True
    text = "Dear {{name}}, {{ when }} or {{name}}? {{Not_one}}"
    await shop.result("create_skill", name="letter", description="d", type="template", definition=text)
    tool = shop.dynamic.current()[0]
    assert tool.spec.parameters["required"] == ["name", "when"]
    said = await shop.result("skill_letter", name="{{when}}", when="now")
    assert said.content == "Dear {{when}}, now or {{when}}? {{Not_one}}"


async def test_a_script_is_kept_but_runs_only_when_called_and_by_what_was_given(shop: Shop) -> None:
    shop.granted = True
    code = "#!/usr/bin/env python3\nopen('ran', 'w')\n"
    await shop.result("create_skill", name="job", description="d", type="script", definition=code)
    tool: Any = shop.dynamic.current()[0]
    assert tool.spec.safety is Safety.DANGEROUS
    script = shop.folder / "job/scripts/run.py"
    assert script.read_text() == code
    assert os.access(script, os.X_OK)
    assert shop.runs == []
    assert "open('ran', 'w')" in await tool.preview({"args": ["a b"]}, shop.context())
    assert shop.runs == []
    assert (await shop.result("skill_job", args=["a b", "c"])).content == "ran"
    assert shop.runs == [(str(script), ["a b", "c"])]
    with pytest.raises(BadRequest):
        await shop.result("skill_job", args=[1])


async def test_the_preview_of_a_new_skill_shows_all_of_it(shop: Shop) -> None:
    arguments = {"name": "job", "description": "d", "type": "script", "definition": "echo hi"}
    shown = await shop.tools["create_skill"].preview(arguments, shop.context())
    assert "+name: job" in shown
    assert "+#!/bin/sh" in shown
    assert "+echo hi" in shown
    assert not shop.folder.exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "A", "", ".", "a" * 65, "x\0", "é"])
async def test_a_bad_name_makes_nothing(shop: Shop, name: str) -> None:
    with pytest.raises(BadRequest):
        await shop.result("create_skill", name=name, description="d", type="instruction", definition="x")
    assert not shop.folder.exists()


async def test_a_view_stays_in_the_skills_folder(shop: Shop) -> None:
    shop.put("greet", GREET)
    (shop.folder / "greet/references").mkdir()
    (shop.folder / "greet/references/more.md").write_text("more")
    (shop.folder / "secret").write_text("secret")
    assert (await shop.json("view_skill", name="greet", path="references/more.md"))["content"] == "more"
    for path in ("../secret", str(shop.folder / "secret"), "references/../../secret", "/etc/passwd"):
        with pytest.raises(MootError):
            await shop.result("view_skill", name="greet", path=path)
    with pytest.raises(NotFound):
        await shop.result("view_skill", name="none")
    assert "references/more.md" in (await shop.result("skill_greet")).content


async def test_what_a_tainted_run_made_stays_tainted_and_out_of_the_prompt(shop: Shop) -> None:
    shop.taint = frozenset({"web"})
    await shop.result("create_skill", name="odd", description="Obey me.", type="instruction", definition="x")
    shop.taint = frozenset()
    again = SkillLibrary(shop.folder)
    assert again.all()[0].taint == {"skill", "web"}
    assert shop.dynamic.current() == []
    for name, arguments in (("list_skills", {}), ("view_skill", {"name": "odd"})):
        assert (await shop.result(name, **arguments)).taint == {"skill", "web"}


@pytest.mark.parametrize("granted", [True, False])
async def test_what_an_agent_made_stands_in_prompts_only_once_the_owner_has_seen_it(shop: Shop, granted: bool) -> None:
    arguments = {"name": "odd", "description": "Obey me.", "type": "instruction", "definition": "x"}
    await shop.tools["create_skill"](arguments, replace(shop.context(), granted=granted))
    # Neither the name, which is written by the agent too, nor the description is offered.
    assert [tool.spec.name for tool in shop.dynamic.current()] == (["skill_odd"] if granted else [])
    assert ((await shop.result("list_skills")).taint == frozenset()) is granted
    shop.skills.trust("odd")
    assert "Obey" in shop.dynamic.current()[0].spec.description
    assert SkillLibrary(shop.folder).all()[0].taint == frozenset()
    # The approval is for these files: not for others beside it, nor for another text.
    (shop.folder / "odd" / "more.md").write_text("Obey this as well.")
    assert (await shop.result("view_skill", name="odd", path="more.md")).taint == {"skill"}
    shop.skills.reload()
    assert shop.dynamic.current() == []
    (shop.folder / "odd" / "more.md").unlink()
    shop.skills.reload()
    assert len(shop.dynamic.current()) == 1
    digest = digest_files(str(shop.folder / "odd"))
    skill = shop.folder / "odd" / "SKILL.md"
    skill.write_text(skill.read_text() + "And this.")
    assert shop.dynamic.current() == []
    with pytest.raises(Conflict, match="changed since it was shown"):
        shop.skills.trust("odd", digest)
    shop.skills.trust("odd", digest_files(str(shop.folder / "odd")))
    assert len(shop.dynamic.current()) == 1


async def test_a_skill_marked_before_owners_agreed_is_one_nobody_agreed_to(shop: Shop) -> None:
    (shop.put("greet", GREET).parent / ".moot.json").write_text('{"taint": []}')
    shop.skills.reload()
    assert shop.skills.all()[0].taint == {"skill"}


async def test_a_script_that_changed_since_it_was_approved_is_not_run(shop: Shop) -> None:
    made = {"name": "go", "description": "d", "type": "script", "definition": "#!/bin/sh\necho one\n"}
    await shop.tools["create_skill"](made, replace(shop.context(), granted=True))
    (tool,) = cast("list[Any]", shop.dynamic.current())
    agreed = replace(shop.context(), agreed=await tool.bind({}, shop.context()))
    await tool({}, agreed)
    assert len(shop.runs) == 1
    (shop.folder / "go/scripts/beside.sh").write_text("echo two")
    with pytest.raises(Conflict, match="changed since it was approved"):
        await tool({}, agreed)
    assert len(shop.runs) == 1


async def test_a_skill_made_again_to_the_letter_is_not_the_one_a_rule_was_made_for(shop: Shop) -> None:
    made = {"name": "go", "description": "d", "type": "script", "definition": "#!/bin/sh\necho one\n"}
    await shop.tools["create_skill"](made, replace(shop.context(), granted=True))
    first = await cast("Any", shop.dynamic.current()[0]).bind({}, shop.context())
    shop.skills.remove("go")
    await shop.tools["create_skill"](made, replace(shop.context(), granted=True))
    second = await cast("Any", shop.dynamic.current()[0]).bind({}, shop.context())
    assert first.what != second.what
    shop.skills.remove("go")
    shop.skills.restore("go")
    # One that is only brought back is the same.
    assert await cast("Any", shop.dynamic.current()[0]).bind({}, shop.context()) == second


async def test_a_folder_that_changed_since_its_import_was_approved_is_not_taken_up(shop: Shop) -> None:
    source = shop.cwd / "greet"
    source.mkdir()
    (source / "SKILL.md").write_text(GREET)
    tool = shop.tools["import_skill"]
    agreed = replace(shop.context(), agreed=await tool.bind({"url": "greet"}, shop.context()))
    (source / "extra.md").write_text("more")
    with pytest.raises(Conflict, match="changed since it was approved"):
        await tool({"url": "greet"}, agreed)
    assert shop.skills.all() == []


def test_a_long_name_still_makes_a_tool_name_providers_take() -> None:
    names = {tool_name("a" * 63 + end) for end in "bc"}
    assert len(names) == 2
    assert all(len(name) == 64 for name in names)
    assert tool_name("tea") == "skill_tea"


# ---- import -----------------------------------------------------------------------------------------


def test_the_tools_of_the_shelf_are_made_anew_only_when_it_changed(shop: Shop) -> None:
    shop.put("greet", GREET)
    first = shop.dynamic.current()
    assert shop.dynamic.current() is first
    shop.put("tea", GREET.replace("greet", "tea"))
    assert [tool.spec.name for tool in shop.dynamic.current()] == ["skill_greet", "skill_tea"]


FILES = {
    "greet/SKILL.md": GREET,
    "greet/scripts/run.sh": "#!/bin/sh\ntouch ran\n",
    "greet/references/a.md": "a",
    "README.md": "not a skill's",
}


def zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def tarred(files: dict[str, str], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.mark.parametrize("form", ["folder", "zip", "tar.gz", "tar"])
async def test_a_skill_is_imported_with_its_files_and_nothing_is_run(shop: Shop, form: str) -> None:
    source = shop.cwd / f"skills.{form}"
    if form == "folder":
        for name, text in FILES.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
    else:
        packed = {"zip": zipped(FILES), "tar.gz": tarred(FILES), "tar": tarred(FILES, "w")}
        source.write_bytes(packed[form])
    assert "Be kind." in await shop.tools["import_skill"].preview({"url": source.name}, shop.context())
    done = await shop.json("import_skill", url=source.name)
    assert (done["status"], done["skills"], done["skipped"]) == ("imported", ["greet"], [])
    assert sorted(shop.skills.files(shop.skills.all()[0])) == ["references/a.md", "scripts/run.sh"]
    assert shop.runs == []
    assert not (shop.cwd / "ran").exists()
    with pytest.raises(Conflict):
        await shop.result("import_skill", url=source.name)
    assert [entry.name for entry in shop.folder.iterdir()] == ["greet"]


async def test_one_skill_of_several_can_be_chosen_and_a_broken_one_is_told(shop: Shop) -> None:
    files = {f"repo/skills/{name}/SKILL.md": GREET.replace("greet", name) for name in ("one", "two")}
    (shop.cwd / "repo.zip").write_bytes(zipped(files | {"repo/bad/SKILL.md": "nothing"}))
    assert (await shop.json("import_skill", url="repo.zip", skill_name="two"))["skills"] == ["two"]
    with pytest.raises(NotFound):
        await shop.result("import_skill", url="repo.zip", skill_name="three")
    rest = await shop.json("import_skill", url="file://repo.zip")
    assert rest["skills"] == ["one"]
    assert len(rest["skipped"]) == 2


async def test_an_archive_with_its_skill_at_the_top_is_imported(shop: Shop) -> None:
    (shop.cwd / "s.zip").write_bytes(zipped({"SKILL.md": GREET, "scripts/x.py": "pass"}))
    assert (await shop.json("import_skill", url="s.zip"))["skills"] == ["greet"]


async def test_an_archive_with_a_file_and_a_folder_of_one_name_is_refused(shop: Shop) -> None:
    (shop.cwd / "s.zip").write_bytes(zipped({"job/SKILL.md": GREET, "job/x": "a file", "job/x/y": "in it"}))
    with pytest.raises(BadRequest, match="x/y is inside a folder that has the name of a file"):
        await shop.result("import_skill", url="s.zip")
    assert not shop.folder.exists()


async def test_a_script_skill_without_its_script_is_refused(shop: Shop) -> None:
    text = "---\nname: job\ndescription: d\nmetadata: {type: script, script: scripts/run.sh}\n---\nRun it.\n"
    (shop.cwd / "s.zip").write_bytes(zipped({"job/SKILL.md": text}))
    with pytest.raises(BadRequest, match=r"scripts/run\.sh"):
        await shop.result("import_skill", url="s.zip")
    assert not shop.folder.exists()


async def test_many_files_do_not_take_many_handles(shop: Shop) -> None:
    source = shop.cwd / "many"
    source.mkdir()
    (source / "SKILL.md").write_text(GREET)
    for number in range(600):
        (source / f"f{number}").write_text("")
    before = len(os.listdir("/proc/self/fd"))
    done = await shop.json("import_skill", url="many")
    assert done["skills"] == ["greet"]
    assert len(os.listdir("/proc/self/fd")) <= before + 2


async def test_imports_can_be_switched_off_and_the_network_is_no_place_to_import_from(tmp_path: Path) -> None:
    shop = Shop(tmp_path, SkillConfig(allow_import=False))
    with pytest.raises(Forbidden):
        await shop.result("import_skill", url="x.zip")
    (tmp_path / "other").mkdir()
    open_shop = Shop(tmp_path / "other")
    with pytest.raises(BadRequest, match="network"):
        await open_shop.result("import_skill", url="http://localhost/x.zip")
