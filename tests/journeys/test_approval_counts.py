"""How often a person is asked in three kinds of work, in mode ask and in mode work with the offered patterns accepted.

docs/approvals.md has the numbers.
"""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from aiohttp import web

from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script
from tests.talking import Talking
from tests.web_server import serving

# Some seventy calls, most of them commands in a sandbox.
TEST_SECONDS = 300.0
FILES = {
    ".gitignore": "__pycache__\ndist\norigin.git\n",
    "CHANGELOG.md": "# Changes\n",
    "shop/__init__.py": '__version__ = "1.0"\n',
    "shop/cart.py": "def total(prices):\n    return sum(prices)\n",
    "shop/bill.py": "from shop.cart import total\n\n\ndef write_bill(prices):\n    return f'{total(prices)} EUR'\n",
    "tests/test_bill.py": (
        "import unittest\n\nfrom shop.bill import write_bill\n\n\nclass BillTest(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.assertEqual(write_bill([1, 2]), '3 EUR')\n"
    ),
}


def run(command: str) -> dict[str, Any]:
    return call("exec", command=command)


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return call("fs_edit", path=path, oldText=old, newText=new)


def read(path: str) -> dict[str, Any]:
    return call("fs_read", path=path)


# Each message of a person, and the calls that the agent makes for it.
REFACTORING = {
    "refactor: look": [
        call("fs_list", path="."),
        call("fs_search", pattern="total"),
        read("shop/cart.py"),
        read("shop/bill.py"),
        run("git status --short"),
        run("python3 -m unittest -q tests/test_bill.py"),
    ],
    "refactor: rename": [
        edit("shop/cart.py", "def total", "def add_prices"),
        edit("shop/bill.py", "import total", "import add_prices"),
        run("python3 -m unittest -q tests/test_bill.py"),
        edit("shop/bill.py", "{total(", "{add_prices("),
        run("python3 -m unittest -q tests/test_bill.py"),
        run("grep -rn total shop | head -20"),
        call(
            "fs_write", path="tests/test_cart.py", content=FILES["tests/test_bill.py"].replace("BillTest", "CartTest")
        ),
        run("python3 -m unittest -q tests/test_cart.py"),
        run("python3 -m unittest discover -q -s tests -t ."),
    ],
    "refactor: commit": [
        run("git diff --stat"),
        run("git add -A"),
        run("git commit -q -m 'Rename total'"),
        run("git log --oneline -3"),
    ],
}
RESEARCH = {
    "research: read": [
        call("web_fetch", url="FIRST/overview"),
        call("web_fetch", url="FIRST/details"),
        call("web_fetch", url="FIRST/limits"),
        call("fs_write", path="notes/first.md", content="# First\nSmall.\n"),
    ],
    "research: compare": [
        call("web_fetch", url="SECOND/overview"),
        call("web_fetch", url="SECOND/details"),
        call("web_fetch", url="FIRST/prices"),
        call("web_fetch", url="SECOND/prices"),
        call("fs_write", path="notes/second.md", content="# Second\nLarge.\n"),
        read("notes/first.md"),
        edit("notes/first.md", "Small.", "Small and cheap."),
    ],
    "research: report": [
        call("web_fetch", url="FIRST/changes"),
        call("fs_search", pattern="Small", path="notes"),
        call("fs_write", path="report.md", content="# Report\nThe first one is small and cheap.\n"),
        edit("report.md", "small and cheap", "smaller and cheaper"),
        run("wc -w report.md"),
    ],
}
RELEASE = {
    "release: prepare": [
        run("git status --short"),
        run("git log --oneline -10"),
        read("shop/__init__.py"),
        edit("shop/__init__.py", "1.0", "1.1"),
        read("CHANGELOG.md"),
        edit("CHANGELOG.md", "# Changes\n", "# Changes\n\n## 1.1\n- Bills are faster.\n"),
        run("python3 -m unittest discover -q -s tests -t ."),
    ],
    "release: build": [
        run("rm -rf dist"),
        run("mkdir -p dist"),
        run("python3 -m compileall -q shop"),
        run("python3 -m zipapp shop -m shop.bill:write_bill -o dist/shop.pyz"),
        run("ls -l dist"),
        run("sha256sum dist/shop.pyz > dist/SHA256SUMS"),
    ],
    "release: publish": [
        run("git add -A"),
        run("git commit -q -m 'Release 1.1'"),
        run("git tag v1.1"),
        run("git push -q origin HEAD v1.1"),
        run("git log --oneline -1"),
    ],
}
SESSIONS = {"refactoring": REFACTORING, "research": RESEARCH, "release": RELEASE}


def write_script(first: str, second: str) -> str:
    rules = [
        {"match": f"^{text}$", "steps": [*steps, say("Done.")]}
        for session in SESSIONS.values()
        for text, steps in session.items()
    ]
    return script(*rules).replace("FIRST/", f"{first}/").replace("SECOND/", f"{second}/")


def make_project(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for command in (
        "git init -q",
        "git init -q --bare origin.git",
        "git remote add origin ./origin.git",
        "git config user.name Ada",
        "git config user.email ada@example.org",
        "git add -A",
        "git commit -q -m Begin",
    ):
        subprocess.run(command.split(), cwd=folder, check=True)
    return folder


async def hold_session(talk: Talking, messages: list[str], sender: str, cwd: Path, *, with_patterns: bool) -> int:
    """Return how often the person was asked. They allow every call, with the first offered pattern if they take one."""
    count = 0
    for text in messages:
        speech = talk.start("ada", text, sender, cwd=str(cwd))
        for number in range(1, 100):
            try:
                ask = await speech.until("approval_opened", count=number)
            except AssertionError:
                break
            count += 1
            pattern = ask.patterns[0].text if with_patterns and ask.patterns else ""
            decision = pb.DecideAskMsg(
                ask_id=ask.ask_id,
                attempt=ask.attempt,
                decision="conversation" if pattern else "once",
                pattern=pattern,
            )
            await talk.ask(decide_ask=decision)
        await speech.end()
        failed = [result.output for result in speech.of("tool_result") if result.is_error]
        assert failed == [], text
    return count


async def count_asks(talk: Talking, folder: Path, mode: str, *, with_patterns: bool) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, messages in SESSIONS.items():
        cwd, sender = await asyncio.to_thread(make_project, folder / mode / name), f"{name} in mode {mode}"
        await talk.ask(mode=pb.ModeMsg(agent="ada", sender=sender, mode=mode))
        counts[name] = await hold_session(talk, list(messages), sender, cwd, with_patterns=with_patterns)
    return counts


def check_work(folder: Path) -> None:
    """The work of the sessions was done."""
    log = ("git", "log", "--format=%s", "-1")
    assert read_output(*log, cwd=folder / "refactoring") == "Rename total\n"
    assert (folder / "research/report.md").read_text() == "# Report\nThe first one is smaller and cheaper.\n"
    assert read_output(*log, "v1.1", cwd=folder / "release/origin.git") == "Release 1.1\n"
    assert "shop.pyz" in (folder / "release/dist/SHA256SUMS").read_text()


def read_output(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


async def answer(request: Any) -> web.StreamResponse:
    return web.Response(text=f"What {request.path} says.")


async def test_a_person_is_asked_at_most_a_fifth_as_often(home: Home, tmp_path: Path) -> None:
    async with serving(answer) as first, serving(answer) as second:
        home.write_script(write_script(first.url, second.url))
        config = (home.path / "config.toml").read_text()
        home.write_config(f'{config}\n[web]\nallow_private = ["127.0.0.1:{first.port}", "127.0.0.1:{second.port}"]\n')
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                before = await count_asks(talk, tmp_path, "ask", with_patterns=False)
                after = await count_asks(talk, tmp_path, "work", with_patterns=True)
    for mode in ("ask", "work"):
        check_work(tmp_path / mode)
    assert sum(after.values()) <= sum(before.values()) / 5
    documented = (Path(__file__).parents[2] / "docs/approvals.md").read_text()
    for name, session in SESSIONS.items():
        calls = sum(map(len, session.values()))
        assert f"| {name} | {calls} | {before[name]} | {after[name]} |" in documented, (before, after)
