"""Invariants that the source itself can show: who calls a model, where SQL is, what answers what."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

import apsw
import pytest
from msgspec.structs import replace

from moot.cli.main import COMMANDS, load_command
from moot.daemon.requests.handlers import Handlers
from moot.domain import events, run
from moot.domain.ask import Ask, AskKind
from moot.domain.conversation import ConversationKey
from moot.domain.mail import Mail
from moot.domain.message import ToolCall
from moot.domain.user_message import UserMessage
from moot.store.migrate import migrate
from moot.wire import moot_pb2 as pb
from moot.wire.events import agent_event, stream_bytes
from tests.architecture.sources import FILES, SOURCE, nodes

SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+TABLE|PRAGMA\s+\w+)\b", re.DOTALL
)


def trees(under: str = "") -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    for path in FILES:
        name = str(path.relative_to(SOURCE))
        if name.startswith(under):
            yield name, nodes(path)


def test_no_child_process_imports_from_the_working_directory() -> None:
    """Behind the interpreter stands -P or -I; agents may write in the working directory."""
    started = {
        (name, option)
        for name, tree in trees()
        for node in tree
        if isinstance(node, ast.List | ast.Tuple | ast.Call)
        for option in following(node)
    }
    assert ("client/daemon_process.py", "-P") in started
    assert {option for _, option in started} == {"-P", "-I"}


def following(node: ast.List | ast.Tuple | ast.Call) -> list[str]:
    """Return the words that stand behind `sys.executable`."""
    words = list(map(ast.unparse, node.args if isinstance(node, ast.Call) else node.elts))
    return [after.strip("'") for word, after in pairwise(words) if word == "sys.executable"]


def test_only_the_engine_calls_a_model() -> None:
    """`x.stream(prompt)` stands in the engine, and in models that wrap another model."""
    callers = {
        name
        for name, tree in trees()
        for node in tree
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "stream"
        and ast.unparse(node.func.value) not in ("connection", "self._connection", "talk", "client")
    }
    outside = {name for name in callers if not name.startswith(("engine/", "models/"))}
    assert outside == set()
    assert {name for name in callers if name.startswith("engine/")} == (
        {"engine/completion.py", "engine/probe.py", "engine/step.py", "engine/warm_up.py"}
    )


def test_a_tool_is_executed_in_one_place() -> None:
    executors = {
        name
        for name, tree in trees()
        for node in tree
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("execute", "tool")
        and ast.unparse(node.func) in ("toolbox.execute", "call.tool")
    }
    assert executors == {"engine/loop.py", "engine/gate.py"}


def test_the_loop_does_not_ask_which_door_it_came_through() -> None:
    loop = nodes(SOURCE / "engine" / "loop.py")
    imported = {node.module for node in loop if isinstance(node, ast.ImportFrom)}
    assert not {module for module in imported if module and module.endswith((".doors", ".runs", ".lanes", ".turns"))}


def test_sql_lives_in_the_store_alone() -> None:
    found = [
        name
        for name, tree in trees()
        if not name.startswith("store/")
        for node in tree
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value)
    ]
    assert found == []
    openers = [
        name
        for name, tree in trees()
        if not name.startswith("store/")
        for node in tree
        if isinstance(node, ast.Attribute)
        and node.attr in ("Connection", "connect")
        and ast.unparse(node) in ("apsw.Connection", "sqlite3.connect")
    ]
    assert openers == []


# What another engine does not understand: settings, JSON and full text, hidden columns, greatest and least of values.
SQLITE = re.compile(
    r"\bPRAGMA\b|\bVACUUM\b|\bIMMEDIATE\b|\bEXCLUSIVE\b|\bINSERT OR\b|\bREPLACE INTO\b|\bMATCH\b|\bGLOB\b|LIMIT -1"
    r"|\browid\b|\bsqlite_|\bjson_\w+ ?\(|\bjson_each\b|\bgroup_concat\b|\binstr\(|\bstrftime\(|\bifnull\(|\biif\("
    r"|\bx'[0-9a-f]+'|_docsize\b|\bphrase_counts\b|\bIS(?: NOT)? \?|\b(?:max|min)\([^()]*(?:\([^()]*\)[^()]*)*,"
)


def test_sql_that_only_sqlite_understands_is_in_one_file() -> None:
    found = [
        (name, value)
        for name, tree in trees()
        if name.startswith("store/") and name != "store/dialect.py"
        for value in _texts(tree)
        if SQLITE.search(value)
    ]
    assert found == []


def _texts(tree: tuple[ast.AST, ...]) -> Iterator[str]:
    """All strings but those that say what something is for."""
    spoken = {
        id(node.body[0].value)
        for node in tree
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            yield node.value


@pytest.mark.parametrize(
    "sql",
    ["PRAGMA user_version", "INSERT OR IGNORE INTO a", "ORDER BY rowid", "a IN (SELECT value FROM json_each(?))"]
    + [
        "SET a = max(a, ?)",
        "SET a = max(coalesce(a, 0), ?)",
        "b MATCH ?",
        "SELECT group_concat(a)",
        "LIMIT -1 OFFSET 2",
        "WHERE a IS ?",
    ],
)
def test_what_only_sqlite_understands_is_known_when_it_is_seen(sql: str) -> None:
    assert SQLITE.search(sql)
    assert not SQLITE.search("SELECT max(a), min(b) FROM c WHERE d = coalesce(max(e), 0) ON CONFLICT DO NOTHING")


def test_each_central_noun_is_one_class_and_one_table() -> None:
    """A Run, an Ask and an Event are one class each; runs, asks and deliveries are one table each."""
    nouns = ("Run", "Ask", "Delivery", "Event", "Outcome", "RunStatus")
    classes = [node.name for _, tree in trees() for node in tree if isinstance(node, ast.ClassDef)]
    assert {noun: classes.count(noun) for noun in nouns} == dict.fromkeys(nouns, 1)
    database = apsw.Connection(":memory:")
    migrate(database)
    found = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    # What is left of rows that were removed is kept in tables of its own.
    tables = {str(name) for (name,) in found if not str(name).startswith("past_")}
    for fact in ("run", "ask", "deliver"):
        kept_in = {name for name in tables if re.search(rf"(^|_){fact}(s|ies)?$", name)}
        assert kept_in == {f"{fact}ies" if fact == "deliver" else f"{fact}s"}


def test_storage_is_used_through_its_ports() -> None:
    """Classes of the store are named in the store alone; the composition root opens it."""
    importers = {
        (name, alias.name)
        for name, tree in trees()
        if not name.startswith("store/")
        for node in tree
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith("moot.store.sqlite")
        or isinstance(node, ast.ImportFrom)
        and any(each.name.startswith("Sqlite") for each in node.names)
        for alias in node.names
    }
    assert importers == {("daemon/open_storage.py", "open_store"), ("daemon/open_storage.py", "build_storage")}


def sets_a_timer(node: ast.AST) -> bool:
    """Whether a call waits for time, or reads it, without the Clock. Letting others run once is no timer."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    if name == "asyncio.sleep":
        return ast.unparse(node.args[0]) != "0"
    if name == "asyncio.wait":
        return any(keyword.arg == "timeout" for keyword in node.keywords)
    if name == "time.tzset":
        return False
    if name in ("time.gmtime", "time.strftime"):
        # With a time they only convert it.
        return name == "time.gmtime" and not node.args
    return name in ("asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for") or (
        name.startswith("time.")
        or name.endswith(("loop.time", "loop().time", "loop.call_later", "loop().call_later", ".call_at"))
    )


# Programs of their own, which no daemon waits for.
PROGRAMS = ("cli/", "client/", "__main__.py")
# Where the machine's own time is meant, or no event loop runs. Who adds one says why.
WITHOUT_CLOCK = {
    "broker/nats_server.py": "used only by `moot nats dev` and by tests, outside an event loop",
    "daemon/backup/home_backup.py": "writes the date of a backup, which commands make without a daemon",
    "daemon/backup/restore.py": "names a file by its date, in a command without a daemon",
    "daemon/clock.py": "implements it",
    "daemon/lock.py": "waits before the event loop has anything to do, and in commands without a daemon",
    "store/backup.py": "names a file by its date, before there is an event loop",
    "tools/exec/jobs.py": "the time is a part of an id",
    "tools/files/project_stamps.py": "compares with the times of files, which are the machine's",
    "tools/plugins/function.py": "measures how long a function of the owner blocks the event loop",
    "tools/sandbox/inside.py": "runs in the sandbox, in a process of its own",
    "tools/sandbox/limits.py": "repeats the removal of a control group in a thread",
    "tools/sandbox/set_id.py": "compares with the times of files, which are the machine's",
}


def test_every_timer_is_the_clocks() -> None:
    found = {
        f"{name}:{getattr(node, 'lineno', 0)}": name
        for name, tree in trees()
        if not name.startswith(PROGRAMS)
        for node in tree
        if sets_a_timer(node)
    }
    assert [place for place, name in found.items() if name not in WITHOUT_CLOCK] == []
    assert sorted(set(found.values())) == sorted(WITHOUT_CLOCK), "an exception is no longer needed"


@pytest.mark.parametrize(
    ("code", "is_timer"),
    [
        ("asyncio.sleep(1)", True),
        ("asyncio.sleep(0)", False),
        ("asyncio.timeout(3)", True),
        ("asyncio.wait(tasks, timeout=3)", True),
        ("asyncio.wait(tasks)", False),
        ("asyncio.get_running_loop().call_later(1, f)", True),
        ("self._loop.time()", True),
        ("time.monotonic()", True),
        ("time.gmtime()", True),
        ("time.gmtime(record.created)", False),
        ("self._clock.call_later(1, f)", False),
        ("self._clock.sleep(1)", False),
    ],
)
def test_a_timer_is_known_when_it_is_seen(code: str, is_timer: bool) -> None:
    assert sets_a_timer(ast.parse(code, mode="eval").body) is is_timer


class _Names:
    def __getattr__(self, name: str) -> str:
        return name


# Stands in for the parts the table of handlers is made of; only its names are looked at.
ANYTHING: Any = _Names()


def test_every_request_of_the_protocol_has_a_handler() -> None:
    requests = {field.name for field in pb.ClientMessage.DESCRIPTOR.oneofs_by_name["message"].fields}
    handlers = Handlers(
        talk=ANYTHING,
        steps=ANYTHING,
        knowledge=ANYTHING,
        visits=ANYTHING,
        cron=ANYTHING,
        workflows=ANYTHING,
        peers=ANYTHING,
        conversations=ANYTHING,
        records=ANYTHING,
        daemon_info=ANYTHING,
        asks=ANYTHING,
        secrets=ANYTHING,
        mcp=ANYTHING,
        team_info=ANYTHING,
        vocabularies=ANYTHING,
        runs=ANYTHING,
        jobs=ANYTHING,
        traces=ANYTHING,
        undo=ANYTHING,
        modes=ANYTHING,
        resume=ANYTHING,
        graph=ANYTHING,
        documents=ANYTHING,
        agent_data=ANYTHING,
    )
    # Who is asking is settled by the connection, before any handler.
    assert set(handlers.table) == requests - {"hello"}


def test_field_numbers_shared_with_older_clients_are_kept() -> None:
    numbers = {field.name: field.number for field in pb.StreamMsg.DESCRIPTOR.fields}
    assert {name: numbers[name] for name in ("agent", "content", "sender", "cwd", "guest")} == {
        "agent": 1,
        "content": 2,
        "sender": 4,
        "cwd": 5,
        "guest": 6,
    }
    for message, fields in (
        (pb.KillMsg, {"agent": 1, "sender": 2}),
        (pb.CompactMsg, {"agent": 1, "sender": 2}),
        (pb.ReplyToAsk, {"agent": 1, "sender": 2, "content": 3}),
    ):
        # From 200 on the numbers are our own.
        shared = {field.name: field.number for field in message.DESCRIPTOR.fields if field.number < 200}
        assert shared == fields
    assert pb.StreamStart.DESCRIPTOR.fields_by_name["agent"].number == 1


KEY = ConversationKey("ada", "user")
APPROVAL = Ask(id="a", kind=AskKind.APPROVAL, key=KEY, run_id="r", call_id="1", speaker="ada", tool="exec")
QUESTION = replace(APPROVAL, kind=AskKind.QUESTION)
MAIL = Mail(id="m", goal_id="g", from_agent="bob", from_goal="", to_agent="ada", body="x", sent_at=1.0)
# One of each form: what is asked and what is said about it is two.
SAMPLES: tuple[events.EventBody, ...] = (
    events.RunSpawned("scout", "look"),
    events.RunQueued(1),
    events.RunWithdrawn("x"),
    events.UserMessageSent(UserMessage(content="x")),
    events.PrivateText("x"),
    events.MessageSteered("x", 2, "run-2", "run-1"),
    events.CompactionStarted(),
    events.RunStarted("ada", 1),
    events.TextStarted("ada"),
    events.TextChunk("x"),
    events.TextEnded("ada"),
    events.ThinkingStarted("ada"),
    events.ThinkingChunk("x"),
    events.ThinkingEnded("ada"),
    events.ToolsStarted((ToolCall(id="1", name="recall", arguments="{}"),)),
    events.ToolFinished("1", "recall", "x", 1, False),
    events.ToolsCompleted(),
    events.AskOpened(QUESTION),
    events.AskClosed(QUESTION),
    events.AskOpened(APPROVAL),
    events.AskClosed(APPROVAL),
    events.ToolExecuted("1", "recall", True, 0.1),
    events.RunBlocked("blocked_waiting_approval", "x", "a"),
    events.RunUnblocked("blocked_waiting_approval", "a"),
    events.CommandStarted("bg-1", "true"),
    events.CommandEnded("bg-1", 0),
    events.ModelRetrying(1, 0.5, "x"),
    events.ModelPreparing(events.Stage.LOADING, 0),
    events.TextDiscarded(),
    events.Compacted(1, "x"),
    events.ModeChanged("plan"),
    events.ConfigReloaded(),
    *(kind(MAIL) for kind in (events.MailSent, events.MailDelivered, events.MailRead, events.MailEvicted)),
    events.MailDropped(MAIL, "why"),
    events.BridgeRefused(MAIL, "why"),
    events.RunEnded("ada", run.RunEnd(outcome=run.Outcome.COMPLETED)),
)


EVENT_SOURCE = events.EventSource(key=KEY, root=KEY, speaker="ada", run_id="r", root_id="r")


def stream_event(body: events.EventBody) -> pb.StreamEvent:
    return pb.ServerMessage.FromString(stream_bytes(events.Event(1, 1.0, EVENT_SOURCE, body))).stream


def test_every_event_has_a_form_on_the_wire_and_every_form_an_event() -> None:
    assert set(map(type, SAMPLES)) == set(get_args(events.EventBody))
    forms = [stream_event(body).WhichOneof("event") for body in SAMPLES]
    assert sorted(map(str, forms)) == sorted(pb.StreamEvent.DESCRIPTOR.fields_by_name)


def test_subscribers_are_told_every_event_by_a_kind_of_its_own() -> None:
    kinds = [agent_event(events.Event(1, 1.0, EVENT_SOURCE, body)).kind for body in SAMPLES]
    # A gap is no event of a run.
    assert sorted([*kinds, pb.GAP]) == sorted(pb.AgentEventKind.values())


def test_every_outcome_is_one_word_of_the_design() -> None:
    assert {outcome.value for outcome in run.Outcome} == {
        "completed", "escalated", "cancelled", "interrupted", "empty", "empty_after_tool_use", "loop_detected",
        "timeout", "limit", "tool_error", "model_error", "denied", "internal_error",
    }  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_in_the_table_can_be_loaded(command: str) -> None:
    assert load_command(COMMANDS[command].target).help
