"""The hook chain follows the configuration from the reload on; what waits for its owner waits on."""

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.talking import Speech, Talking
from tests.teaming import asked

SCRIPT = """
[[rule]]
match = "^call it twice"
steps = [
  { calls = [{ name = "set_title", arguments = { title = "Boats" } }] },
  { calls = [{ name = "set_title", arguments = { title = "Ships" } }] },
  { reply = "Twice." },
]

[[rule]]
match = "^call it boats"
calls = [{ name = "set_title", arguments = { title = "Boats" } }]
after_tool = "The tool said: {result}"

[[rule]]
match = "^look"
calls = [{ name = "fs_list", arguments = { path = "." } }]
after_tool = "It is: {result}"
"""
BEFORE = ["SecurityFilter", "AccessControl"]


@pytest.fixture
def home(home: Home) -> Home:
    write(home)
    return home


def write(home: Home, *, asks: bool = True, learns: bool = False, sensitive: bool = True) -> None:
    tools = '["set_title"]' if sensitive else "[]"
    home.write_config(
        f"{CONFIG}\n[security.interceptor]\nenabled = {str(asks).lower()}\nsensitive_tools = {tools}\n"
        f"[knowledge]\nenabled = {str(learns).lower()}\n"
    )


async def apply_settings(daemon: LiveDaemon, home: Home, **settings: bool) -> None:
    write(home, **settings)
    assert daemon.cli_json("reload")["data"]["restart"] == []


def chain(daemon: LiveDaemon) -> list[str]:
    shown = [hook["name"] for hook in daemon.cli_json("agent", "hooks")["data"]]
    assert set(daemon.cli_json("agent", "status")["data"]["hooks"]) == set(shown)
    return shown


async def waiting(talk: Talking, said: str = "call it boats", sender: str = "user") -> tuple[Speech, pb.ApprovalEvent]:
    speech = talk.start("ada", said, sender)
    return speech, await speech.until("approval_opened")


async def decide(talk: Talking, ask: pb.ApprovalEvent, decision: str) -> None:
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision))


async def titles(talk: Talking) -> dict[str, str]:
    return {info.sender: info.title for info in await talk.conversations()}


async def test_the_chain_that_is_shown_is_the_one_that_is_configured_by_now(home: Home) -> None:
    with daemon_thread(home) as daemon:
        assert chain(daemon) == [*BEFORE, "ApprovalGate", "EventPublisher"]
        await apply_settings(daemon, home, asks=False)
        assert chain(daemon) == [*BEFORE, "EventPublisher"]
        await apply_settings(daemon, home, asks=False, learns=True)
        assert chain(daemon) == [*BEFORE, "LearningObserver", "KnowledgeSaver", "EventPublisher"]
        await apply_settings(daemon, home)
        assert chain(daemon) == [*BEFORE, "ApprovalGate", "EventPublisher"]


async def test_calls_ask_or_do_not_ask_from_the_reload_on_and_counts_go_on(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            await decide(talk, ask, "deny")
            await speech.end()
            await apply_settings(daemon, home, asks=False)
            speech = await talk.say("ada", "call it boats")
            assert speech.of("approval_opened") == []
            assert await titles(talk) == {"user": "Boats"}
            await apply_settings(daemon, home)
            speech, ask = await waiting(talk)
            await decide(talk, ask, "deny")
            assert "owner denied" in (await speech.end()).text
        (gate,) = [hook for hook in daemon.cli_json("agent", "hooks")["data"] if hook["name"] == "ApprovalGate"]
    assert gate["counts"] == {"asked": 2, "denied": 2}


async def test_a_run_in_flight_asks_no_more_at_its_next_call(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk, "call it twice")
            await apply_settings(daemon, home, asks=False)
            await decide(talk, ask, "once")
            assert (await speech.end()).text.endswith("Twice.")
            assert len(speech.of("approval_opened")) == 1
            assert await titles(talk) == {"user": "Ships"}


async def test_a_run_in_flight_asks_at_its_next_call_once_that_is_switched_on(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first, first_ask = await waiting(talk, "call it twice", "one")
            await apply_settings(daemon, home, asks=False)
            await apply_settings(daemon, home, asks=True)
            await decide(talk, first_ask, "once")
            second = await first.until("approval_opened", count=2)
            await decide(talk, second, "deny")
            await first.end()
            assert await titles(talk) == {"one": "Boats"}


@pytest.mark.parametrize("decision", ["once", "deny"])
async def test_what_waits_when_approvals_are_switched_off_waits_on_for_its_owner(home: Home, decision: str) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            await apply_settings(daemon, home, asks=False)
            # Another call goes by; the one that waits does not.
            await talk.say("ada", "call it boats", "other")
            assert [info.ask_id for info in await talk.asks()] == [ask.ask_id]
            assert await titles(talk) == {"user": "", "other": "Boats"}
            await decide(talk, ask, decision)
            assert ("owner denied" in (await speech.end()).text) == (decision == "deny")
            assert (await titles(talk))["user"] == ("Boats" if decision == "once" else "")


@pytest.mark.parametrize("end", ["kill", "terminate"])
@pytest.mark.parametrize("how", ["switched off", "not sensitive any more"])
async def test_what_waits_is_not_made_without_a_yes_after_a_restart_either(home: Home, end: str, how: str) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk:
            _, ask = await waiting(talk)
        write(home, asks=how != "switched off", sensitive=how == "switched off")
        if end == "kill":
            daemon.kill_9()
        else:
            daemon.terminate()
            assert daemon.reap() == 0
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.attach("ada")
            opened = await speech.until("approval_opened")
            assert (opened.ask_id, opened.attempt) == (ask.ask_id, ask.attempt)
            assert await titles(talk) == {"user": ""}
            await decide(talk, opened, "deny")
            assert "owner denied" in (await speech.end()).text
            assert await titles(talk) == {"user": ""}
            # What nobody was asked about goes by.
            assert (await talk.say("ada", "call it boats", "other")).of("approval_opened") == []


async def test_what_is_read_is_kept_from_the_reload_on_and_no_longer_after_the_next(home: Home) -> None:
    def kept() -> int:
        return int(asked(home, "SELECT count(*) FROM tool_audit"))

    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "look")
            await apply_settings(daemon, home, learns=True)
            await talk.say("ada", "look")
            await eventually(lambda: kept() == 1)
            await apply_settings(daemon, home)
            await talk.say("ada", "look")
            await apply_settings(daemon, home, learns=True)
            await talk.say("ada", "look")
            await eventually(lambda: kept() == 2)
