"""The tables of kinds of runs are whole: every place that makes a run, or lets one in, and every door is in them."""

import ast
import re
from pathlib import Path

import moot
from tests.escape.test_every_kind_of_run import KINDS
from tests.escape.test_every_kind_of_teammate import TEAM_KINDS

SOURCE = Path(moot.__file__).parent
_ENTRANCES = (
    "RunRequest",
    "_requests.turn",
    "requests.turn",
    "_runs.submit",
    "_lanes.enter",
    "runs.resume",
    "pb.StreamMsg",
)
# How the last part of an entrance stands where it is called; most files have none of them.
_CALLED = re.compile(rf"\b(?:{'|'.join({entrance.rpartition('.')[2] for entrance in _ENTRANCES})})\s*\(")
# What has ended and was removed: it is shown, and never runs.
_ONLY_READ = {"store/found_runs.py:_past_run", "store/memory/retention.py:_past_run"}


def _places() -> set[str]:
    """Every function of the daemon that makes a request for a run, or lets one in."""
    found: set[str] = set()
    for package in (
        "daemon",
        "engine",
        "store",
        "hooks",
        "tools",
        "models",
        "agents",
        "multiagent",
        "automation",
        "domain",
    ):
        for path in sorted((SOURCE / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if not _CALLED.search(text):
                continue
            tree = ast.parse(text)
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and _enters(function):
                    found.add(f"{path.relative_to(SOURCE)}:{function.name}")
    return found - _ONLY_READ


def _enters(function: ast.AST) -> bool:
    calls = (ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(call == entrance or call.endswith(f".{entrance}") for call in calls for entrance in _ENTRANCES)


def test_every_way_to_make_an_agent_speak_is_in_the_table() -> None:
    kinds = [kind.through for kind in KINDS.values()] + [kind.through for kind in TEAM_KINDS.values()]
    assert _places() == {place for places in kinds for place in places}


def test_every_door_that_listens_is_in_the_table() -> None:
    doors = {"restart", "inside"}
    for path in (SOURCE / "daemon").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
        doors |= {path.stem} if "listen" in names and path.stem != "http" else set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("app.router.add_"):
                verb = ast.unparse(node.func).removeprefix("app.router.add_").upper()
                doors.add(f"{verb} {ast.literal_eval(node.args[0])}")
    # What can only be looked at.
    doors -= {"GET /healthz", "GET /openapi.json", "GET /v1/models", "GET /v1/models/{name}", "GET /v1/responses/{id}"}
    doors -= {"GET /metrics"}
    assert doors == {kind.door for kind in KINDS.values()}
