"""A store that version 0.1.0 left behind, killed in the middle of everything, opens today with all that is in it.

stores/0.1.0.db.gz holds guests, archives, teammates that were waited for and that reported, a background run, rules,
memories, tasks, secrets and a token; and, unfinished: an open question, an approval and a grant, a teammate at work,
and a turn in flight with two messages behind it.
"""

import asyncio
import gzip
import json
from collections import defaultdict
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from moot.domain.errors import Conflict
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually, running, spawn
from tests.daemon_thread import daemon_thread
from tests.scripting import lead, mate, say, script
from tests.talking import Talking

STORE = Path(__file__).parent / "stores" / "0.1.0.db.gz"
CONFIG = PLAIN + "[agent]\nmultiAgent = true\n"
AGENTS = ("ada", "bob")
SCRIPT = script(
    lead("has ended", say("Thank you.")),
    mate("^hang", hang=True),
    {"match": "(?s).*", "system": "summary", "reply": "A summary. Nothing is open."},
    {"reply": "You said: {user}"},
)

Said = tuple[str, str, str]


def messages_before(path: Path) -> dict[tuple[str, str], list[Said]]:
    """Every message of the old store by conversation, read with its own schema."""
    found: dict[tuple[str, str], list[Said]] = defaultdict(list)
    with closing(apsw.Connection(str(path))) as store:
        rows = store.execute(
            "SELECT c.agent, c.sender, m.role, m.agent, m.content FROM messages m"
            " JOIN conversations c ON c.id = m.id >> 32 ORDER BY m.id"
        )
        for agent, sender, role, author, content in rows:
            found[agent, sender].append((role, author, content))
    return dict(found)


@pytest.fixture
def old(home: Home) -> Home:
    home.store.parent.mkdir(parents=True)
    home.store.write_bytes(gzip.decompress(STORE.read_bytes()))
    return home


async def read_all(talk: Talking, agent: str, sender: str) -> list[Said]:
    """The whole conversation; one that a run has to itself is read by the run's id."""
    kind, *parts = sender.split(":")
    if kind not in ("run", "bg"):
        return await talk.told(agent, sender, all=True)
    history = (await talk.ask(get_run_history=pb.GetRunHistoryMsg(run_id=parts[0]))).history
    return [(each.role, each.agent, each.content) for each in history.messages]


async def check_whole(daemon: LiveDaemon, before: dict[tuple[str, str], list[Said]]) -> None:
    """Everything the old store held is there, once."""
    async with daemon.client() as talk:
        for (agent, sender), said in before.items():
            now = await read_all(talk, agent, sender)
            assert now[: len(said)] == said, (agent, sender)
        found = (await talk.ask(check=pb.CheckMsg())).checked.findings
        assert [finding.message for finding in found if finding.check == "store" and finding.level == "error"] == []
        assert {info.number for info in await talk.archives("ada", "user")} == {1}
        assert [each.name for each in (await talk.ask(list_tokens=pb.ListTokensMsg())).token_list.tokens] == ["phone"]
        assert [each.name for each in (await talk.ask(list_secrets=pb.ListSecretsMsg())).secret_list.secrets] == ["api"]
        assert len((await talk.ask(list_rules=pb.ListRulesMsg())).rule_list.rules) == 1
        assert (await talk.recall("ada", "bob think", "user"))[0].number == 1


async def test_everything_in_the_store_is_there(old: Home) -> None:
    before = messages_before(old.store)
    with daemon_thread(old) as daemon:
        await check_whole(daemon, before)


async def deny(talk: Talking, ask_id: str) -> bool:
    """Deny what is asked for; a run that goes on may ask anew, as another attempt, since it was listed."""
    (ask,) = [each for each in await talk.asks() if each.ask_id == ask_id]
    with suppress(Conflict):
        decided = pb.DecideAskMsg(ask_id=ask_id, attempt=ask.attempt, decision="deny")
        return (await talk.ask(decide_ask=decided)).ask_decided.state == "denied"
    return False


async def test_what_was_unfinished_is_taken_up(old: Home) -> None:
    with daemon_thread(old) as daemon:
        async with daemon.client() as talk:
            # The turn in flight was interrupted, and what waited behind it runs in its order.
            async def has_run() -> bool:
                return len(await read_all(talk, "ada", "flight")) == 5

            await eventually(has_run)
            said = await read_all(talk, "ada", "flight")
            assert [(role, author) for role, author, _ in said] == [
                ("user", ""), ("user", ""), ("assistant", ""), ("user", ""), ("assistant", "bob"),
            ]  # fmt: skip
            history = (await talk.history("ada", "flight")).messages
            assert [message.outcome for message in history if message.role == "user"] == [
                "interrupted", "completed", "completed",
            ]  # fmt: skip
            # Approvals and grants still wait, under the ids they had.
            waiting = {ask.ask_id: ask for ask in await talk.asks() if ask.kind != "question"}
            kinds = sorted(name.partition("-")[0] for name in waiting)
            assert kinds == ["ask", "grant"]
            for ask_id in waiting:
                await eventually(partial(deny, talk, ask_id))

            async def is_decided() -> bool:
                senders = {info.sender for info in await talk.active()}
                return not senders & {"approving", "granting"}

            await eventually(is_decided)
            # The teammate that was at work goes on, and whoever waits for it still does.
            assert "busy" in {info.sender for info in await talk.active()}


async def test_what_notes_said_of_approvals_is_in_the_traces(old: Home) -> None:
    """0.1.0 wrote decisions into notes and a ledger; now both are derived from the asks and their attempts."""
    ((grant, run, payload),) = old.query(
        "SELECT asks.id, asks.run, payload FROM asks JOIN trace_notes USING (run) WHERE asks.id LIKE 'grant-%'"
    )
    # As if the grant had been asked for before, and had expired.
    expired = payload.replace('"pending"', '"expired"')
    old.change(
        "INSERT INTO trace_notes SELECT run, ?, after_seq, at + ?, kind, agent, ?, 0 FROM trace_notes"
        " WHERE run = ? AND seq = 1",
        [(2, 1.0, expired, run), (3, 2.0, payload.replace('"attempt": 1', '"attempt": 2'), run)],
    )
    old.change("UPDATE asks SET attempt = 2 WHERE id = ?", [(grant,)])
    old.write_config(CONFIG + "[runLedger]\nenabled = true\nwriteThrough = true\n")
    with daemon_thread(old) as daemon:

        def read_trace(run_id: str) -> Any:
            return json.loads(daemon.cli("trace", run_id, "--json").stdout)["data"]

        def list_states(trace: Any) -> list[tuple[int, str]]:
            found = [event["payload"] for event in trace["events"] if event["kind"] == "policy_decision"]
            return [(payload["attempt"], payload["state"]) for payload in found]

        waiting = read_trace(run)
        # The run goes on and may have asked once more by now.
        assert list_states(waiting)[:3] == [(1, "pending"), (1, "expired"), (2, "pending")]
        assert [event["kind"] for event in waiting["events"]][:4] == ["tool_call", *["policy_decision"] * 3]
        assert [entry["payload"].get("grant_attempt") for entry in waiting["ledger"]][:3] == [1, None, 2]
        ended = {
            ask: read_trace(run) for ask, run in old.query("SELECT id, run FROM asks WHERE state IN ('used', 'denied')")
        }
        assert sorted(list_states(trace) for trace in ended.values()) == [
            [(1, "pending"), (1, "denied")],
            [(1, "pending"), (1, "granted")],
        ]
        for trace in ended.values():
            assert [event["kind"] for event in trace["events"]][:4] == [
                "tool_call", "policy_decision", "policy_decision", "tool_result",
            ]  # fmt: skip
    assert old.query("SELECT DISTINCT kind FROM trace_notes ORDER BY kind") == [("recovery_attempt",), ("routing",)]


async def test_results_that_were_delivered_are_not_delivered_again(old: Home) -> None:
    before = messages_before(old.store)["moot", "team"]
    with daemon_thread(old) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "hello again", "team")
            now = await read_all(talk, "moot", "team")
    assert now[: len(before)] == before
    assert [role for role, _, _ in now[len(before) :]] == ["user", "assistant"]


async def test_ids_of_clients_still_name_what_they_named(old: Home) -> None:
    with daemon_thread(old) as daemon:
        async with daemon.client() as talk:
            before = await read_all(talk, "ada", "user")
            again = await talk.say("ada", "hello", client_message_id="m-1")
            assert again.text == "You said: hello"
            assert await read_all(talk, "ada", "user") == before
            run: Any = pb.StartRunMsg(agent="operator", content="answer background", client_message_id="bg-1")
            started = (await talk.ask(start_run=run)).run
            assert (started.status, started.result) == ("completed", "You said: answer background")


@pytest.mark.parametrize("point", ["migration.kept", "migration.applied", "migration.committed"])
async def test_a_kill_during_the_migration_loses_nothing(old: Home, point: str) -> None:
    before = messages_before(old.store)
    for count in range(1, 30):
        process = await asyncio.to_thread(spawn, old, MOOT_FAIL_AT=f"{point}:{count}")
        line = await asyncio.to_thread(process.stdout.readline)  # type: ignore[union-attr]
        if "ready" in line:
            # There was nothing left to be killed in.
            process.terminate()
            await asyncio.to_thread(process.communicate)
            break
        await asyncio.to_thread(process.communicate)
        assert process.returncode == -9
    else:
        raise AssertionError("the migration never ends")
    assert count > 1, f"{point} was never reached"
    with running(old) as daemon:
        await check_whole(daemon, before)
