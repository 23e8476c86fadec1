"""What depends on what: no circle between modules of a package, and none between the objects of a daemon."""

import ast
import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import pytest

from moot.broker.memory import MemoryBroker
from moot.daemon.app import Daemon, serve_until
from moot.daemon.configured_broker import BrokerObservers
from moot.daemon.paths import Paths
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.tool_registry import ToolRegistry
from moot.multiagent.team import Team
from moot.redaction.redactor import Redactor
from tests.architecture.sources import nodes
from tests.daemon_process import CONFIG, Home

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# Where everything is put together.
COMPOSITION = ("daemon/app.py", "daemon/requests/build_handlers.py", "multiagent/runtime.py")
# Passive: readers of events, tools and connections are put into these once they are built, and nothing else is asked
# through them.
OPEN_ENDS: dict[type, frozenset[str]] = {
    Bus: frozenset({"_observers", "_subscriptions"}),
    ToolRegistry: frozenset({"_registered", "_sources", "_tools", "_added"}),
    # The tools of the registry, as they were when they were last divided.
    Team: frozenset({"_partition"}),
    MemoryBroker: frozenset({"_connections"}),
    Mailboxes: frozenset({"_on_release"}),
    BrokerObservers: frozenset({"of_presence", "of_state", "of_malformed"}),
}


# ---- modules ----------------------------------------------------------------------------------------


def modules() -> dict[str, Path]:
    found = {}
    for path in (SOURCE / "moot").rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules a file imports, also inside functions and for types alone: a circle is one however it is hidden."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def siblings() -> dict[str, dict[str, set[str]]]:
    """For each package: which of its modules and subpackages depend on which others of them."""
    known = modules()
    graphs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, path in known.items():
        for other in set(imports(path, known)) & known.keys():
            here, there = name.split("."), other.split(".")
            shared = 0
            while shared < min(len(here), len(there)) and here[shared] == there[shared]:
                shared += 1
            if shared < min(len(here), len(there)):
                graphs[".".join(here[:shared])][here[shared]].add(there[shared])
    return graphs


def find_circle(graph: Mapping[Any, Iterable[Any]]) -> list[Any]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_siblings_do_not_depend_on_each_other_in_a_circle() -> None:
    circles = {package: find_circle(graph) for package, graph in siblings().items()}
    assert {package: circle for package, circle in circles.items() if circle} == {}


# ---- objects ----------------------------------------------------------------------------------------


def is_of_moot(thing: object) -> bool:
    return type(thing).__module__.startswith("moot.")


def attributes(thing: object) -> Iterator[tuple[str, object]]:
    yield from vars(thing).items() if hasattr(thing, "__dict__") else ()
    yield from ((name, getattr(thing, name)) for name in getattr(thing, "__struct_fields__", ()))
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name, getattr(thing, name)


def inside(value: object) -> Iterator[object]:
    """What a value holds: the items of a container, the object of a method, what a function closes over."""
    if isinstance(value, MethodType):
        yield value.__self__
    elif isinstance(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or ())
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, Mapping):
        yield from (*value.keys(), *value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value


def reached(value: object, seen: set[int]) -> Iterator[object]:
    """The objects of Moot's own that are reached through values of other kinds."""
    if isinstance(value, str | bytes | int | float | type) or value is None or id(value) in seen:
        return
    seen.add(id(value))
    if is_of_moot(value):
        yield value
    for each in inside(value):
        yield from reached(each, seen)


def object_graph(root: object) -> tuple[dict[int, set[int]], dict[int, object]]:
    graph: dict[int, set[int]] = {}
    objects, left = {id(root): root}, [root]
    while left:
        thing = left.pop()
        skipped = OPEN_ENDS.get(type(thing), frozenset())
        values = [value for name, value in attributes(thing) if name not in skipped]
        near = {id(each): each for value in (*values, *inside(thing)) for each in reached(value, set())}
        near.pop(id(thing), None)
        graph[id(thing)] = set(near)
        left += [each for key, each in near.items() if key not in objects]
        objects |= near
    return graph, objects


# All that is built only where it is configured.
EVERYTHING = """
[agent]
multiAgent = true
[broker]
url = "nats://127.0.0.1:9"
name = "desk"
[metrics]
enabled = true
[telemetry]
enabled = true
"""


@pytest.mark.parametrize("config", ["", EVERYTHING], ids=["plain", "everything"])
async def test_no_object_of_a_running_daemon_depends_on_one_that_depends_on_it(tmp_path: Path, config: str) -> None:
    paths = Paths.under(Home(tmp_path).furnish(config=CONFIG + config).path)
    stop = asyncio.Event()
    circles: list[str] = []

    def look(daemon: Daemon) -> None:
        graph, objects = object_graph(daemon)
        assert len(objects) > 100
        circles.append(" → ".join(type(objects[key]).__qualname__ for key in find_circle(graph)))
        stop.set()

    await serve_until(stop, paths, Redactor(), look)
    assert circles == [""]


@pytest.mark.parametrize("file", COMPOSITION)
def test_composition_assigns_nothing_to_what_is_built(file: str) -> None:
    """Whatever an object needs is an argument of its constructor; only addresses are known later."""
    tree = ast.parse((SOURCE / "moot" / file).read_text(encoding="utf-8"))
    targets = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
    late = [ast.unparse(target) for target in targets if isinstance(target, ast.Attribute)]
    allowed = {"daemon.facts.tcp", "daemon.facts.http"}
    assert [each for each in late if not (each.startswith("self.") and each.count(".") == 1)] == [
        each for each in late if each in allowed
    ]
