"""Every schema that ever was opens as today's, with everything in it."""

import asyncio
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.ask import Ask, AskKind, AskState, Binding
from moot.domain.conversation import ConversationKey
from moot.domain.errors import StoreError
from moot.domain.message import ToolCall
from moot.domain.run import Delivery, RunKind, RunStatus, Spawn
from moot.store import migrate
from moot.store.asks import SqliteAsks
from moot.store.sqlite import open_store
from moot.store.traces import SqliteTraces
from tests.queued_runs import list_queued_runs
from tests.recovering import end_interrupted

pytestmark = pytest.mark.usefixtures("no_store_shortcuts")
FROZEN = Path(__file__).parent / "frozen"
# The newest schema of a release; those after it are part of the next one.
RELEASED = 9
KEY = ConversationKey("ada", "user")


def built(path: Path, version: int) -> Path:
    """A store as that version of the schema left it."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute((FROZEN / f"{version}.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def shape(path: Path) -> set[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    found = set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
    connection.close()
    return {(kind, name, table, " ".join((sql or "").split())) for kind, name, table, sql in found}


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [migration.version for migration in migrate.migrations()] == list(range(1, migrate.newest() + 1))


def test_every_released_version_has_a_frozen_store() -> None:
    assert sorted(int(file.stem) for file in FROZEN.glob("*.sql")) == list(range(1, RELEASED + 1))


@pytest.mark.parametrize("version", range(1, RELEASED + 1))
def test_an_older_store_opens_with_everything_in_it(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        store = await open_store(built(tmp_path / "moot.db", version), SystemClock())
        assert await store.check() == []
        loaded = await store.load(KEY)
        assert loaded is not None
        assert (loaded.conversation.title, loaded.conversation.last_seq) == ("Boats", 4)
        assert loaded.archive is not None
        assert (loaded.archive.summary, loaded.archive.usage.prompt) == ("Boats. Wooden boats float.", 10)
        assert loaded.entries[-1].message.tool_calls == (ToolCall(id="c1", name="look", arguments="{}"),)
        (recollection,) = await store.recall(KEY, "boat", limit=5, now=6.0)
        assert [entry.message.content for entry in recollection.entries] == ["which boats float best?"]
        assert [run.request.content for run in await list_queued_runs(store)] == ["waiting"]
        (recovered,) = await end_interrupted(store, now=7.0)
        assert (recovered.request.id, recovered.status) == ("r2", RunStatus.ENDED)
        assert (await store.list_entries(KEY))[-1].message.tool_call_id == "c1"
        token = await store.find_token("d1")
        assert token is not None
        assert token.name == "phone"
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(1, RELEASED + 1))
def test_an_older_store_ends_up_with_the_shape_of_a_new_one(tmp_path: Path, version: int) -> None:
    async def opened(path: Path) -> None:
        await (await open_store(path, SystemClock())).close()

    asyncio.run(opened(built(tmp_path / "old.db", version)))
    asyncio.run(opened(tmp_path / "new.db"))

    assert shape(tmp_path / "old.db") == shape(tmp_path / "new.db")


@pytest.mark.parametrize("version", range(1, RELEASED + 1))
def test_a_copy_is_kept_before_a_migration(tmp_path: Path, version: int) -> None:
    path = built(tmp_path / "moot.db", version)
    before = shape(path)

    async def scenario() -> None:
        await (await open_store(path, SystemClock())).close()
        await (await open_store(path, SystemClock())).close()

    asyncio.run(scenario())

    (kept,) = tmp_path.glob("moot.db.before-migration-*")
    assert shape(kept) == before
    assert kept.stat().st_mode & 0o077 == 0


def test_spawned_and_background_runs_of_every_state_become_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await open_store(built(tmp_path / "moot.db", 9), SystemClock())
        assert await store.check() == []
        runs = {run.id: run for run in await store.list_runs_of_root("run-lead")}
        states = {run_id: (run.status, run.delivery, run.end and run.end.content) for run_id, run in runs.items()}
        assert states == {
            "arun-waited": (RunStatus.ENDED, Delivery.WAITED, "Looked."),
            "arun-sent": (RunStatus.ENDED, Delivery.SENT, "Fetched."),
            # Recorded as ended on one side, and told to nobody.
            "arun-half": (RunStatus.ENDED, Delivery.OWED, "Half told."),
            "arun-running": (RunStatus.RUNNING, Delivery.OWED, None),
            "arun-queued": (RunStatus.QUEUED, Delivery.OWED, None),
            "arun-stopped": (RunStatus.ENDED, Delivery.NONE, ""),
        }
        assert [run.id for run in await store.list_owed_runs()] == ["arun-half"]
        waited = runs["arun-waited"]
        assert (waited.spawn, waited.parent_key, runs["arun-queued"].request.limits.steps) == (
            Spawn(
                parent_call="c-waited", parent_step=1, parent_seq=1, chain=("moot",),
                reason="it can", allowed_tools=("fs_read",),
            ),
            ConversationKey("moot", "user"),
            9,
        )  # fmt: skip
        assert runs["arun-sent"].spawn.allowed_tools is None
        assert (runs["arun-sent"].delivered_by, runs["arun-sent"].delivered_seq) == ("run-report", 3)
        assert runs["arun-running"].spawn.outlives
        assert (runs["arun-queued"].instruction, runs["arun-queued"].spawn.reason) == ("later", "soon")
        background = await store.get_run("arun-background")
        assert background is not None
        assert (background.kind, background.root, background.spawn.client_key) == (
            RunKind.BACKGROUND,
            background.key,
            "key-1",
        )
        spent = {(each.agent, each.runs): each.cost for each in await store.list_teammate_spend(sender="user")}
        assert spent == {("librarian", 1): 0.75, ("operator", 4): 1.5}
        # Removed before the upgrade; how it ended stays in the trace of its parent.
        delegated = (await SqliteTraces(store).find("run-lead")).delegated
        gone = next(run for run in delegated if run.id == "arun-gone")
        assert (gone.agent, gone.end and gone.end.outcome, gone.delivery) == ("librarian", "completed", Delivery.SENT)
        await store.close()

    asyncio.run(scenario())


def test_approvals_and_grants_of_an_older_store_are_asks_with_all_they_are_bound_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await open_store(built(tmp_path / "moot.db", 9), SystemClock())
        asks = SqliteAsks(store)
        (grant,) = await asks.list_open()
        approval = await asks.find("ask-arun-1-c7")
        await store.close()
        assert grant == Ask(
            id="grant-arun-1-exec", kind=AskKind.GRANT, key=KEY, run_id="arun-1", call_id="c8", speaker="ada",
            tool="exec", arguments='{"command":"ls"}', subject="ls in /", line="$ ls", preview="ls",
            reason="it is dangerous", digest="digest", exact="exact", binding=Binding(what="in the sandbox"),
            sealed=b"\x5e\xa1", attempt=3, decided_attempts=1, opened_at=5.5, expires_at=1e12,
        )  # fmt: skip
        assert approval is not None
        assert (approval.kind, approval.state) == (AskKind.APPROVAL, AskState.USED)

    asyncio.run(scenario())


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = built(tmp_path / "moot.db", 1)
    before = shape(path)
    first, second, *_ = migrate.migrations()
    broken = replace(second, sql=second.sql + "; CREATE TABLE conversations (x)")
    monkeypatch.setattr(migrate, "migrations", lambda: (first, broken))
    connection = apsw.Connection(str(path))

    with pytest.raises(apsw.SQLError):
        migrate.migrate(connection)

    assert migrate.version(connection) == 1
    connection.close()
    assert shape(path) == before


def test_a_store_from_the_future_is_left_alone_and_says_to_upgrade(tmp_path: Path) -> None:
    path = built(tmp_path / "moot.db", 1)
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version = {migrate.newest() + 1}")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StoreError) as told:
        asyncio.run(open_store(path, SystemClock()))

    assert "Upgrade" in told.value.fix
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "moot.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()

    with pytest.raises(StoreError):
        asyncio.run(open_store(path, SystemClock()))

    assert {name for _, name, _, _ in shape(path)} == {"bookmarks"}
