"""A message that waits for its turn can be withdrawn: no model reads it, no history has it, and it stays withdrawn."""

import pytest

from moot.domain.errors import Conflict, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.fake_provider import Provider
from tests.talking import Speech, Talking
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG
CONTROL_U, CONTROL_D, UP = "\x15", "\x04", "\x1b[A"


async def busy(talk: Talking, provider: Provider, sender: str = "") -> Speech:
    provider.program({"match": "^busy$", "text": "done", "hold": True})
    speech = talk.start("ada", "busy", sender)
    await speech.until("start")
    provider.requests(at_least=1)
    return speech


async def withdraw(talk: Talking, sender: str = "", run_id: str = "") -> tuple[str, str]:
    message = pb.WithdrawMsg(agent="ada", sender=sender, run_id=run_id)
    withdrawn = (await talk.ask(withdraw=message)).withdrawn
    return withdrawn.run_id, withdrawn.content


async def test_the_newest_message_in_line_is_withdrawn_and_the_others_move_up(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk, daemon.client() as watching:
        feed = await watching.connection.subscribe()
        first = await busy(talk, provider, sender)
        second, third = (talk.start("ada", text, sender) for text in ("second", "third"))
        await second.until("queued")
        await third.until("queued")
        run_id, content = await withdraw(talk, sender)
        assert content == "third"
        await third.end()
        assert (third.outcome, third.kinds[-2:]) == ("cancelled", ["withdrawn", "end"])
        # The same again changes nothing, and says the same.
        assert await withdraw(talk, sender, run_id) == (run_id, "third")
        assert (await talk.history("ada", sender)).queued == ["second"]
        provider.release()
        await first.end()
        await second.end()
        said = [content for role, _, content in await talk.told("ada", sender) if role == "user"]
        assert said == ["busy", "second"]
        usage = (await talk.ask(get_usage=pb.GetUsageMsg(agent="ada", sender=sender))).usage.usage
        assert [each.runs for each in usage] == [2]
        async for event in feed:
            if event.kind == pb.WITHDRAWN:
                assert (event.run_id, event.sender, event.content) == (run_id, sender, "third")
                break
    assert not any("third" in str(body) for body in provider.bodies())


async def test_a_withdrawn_message_that_is_sent_again_under_its_id_was_withdrawn(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        first = await busy(talk, provider, sender)
        second = talk.start("ada", "second", sender, client_message_id="m")
        await second.until("queued")
        await withdraw(talk, sender)
        again = await talk.start("ada", "second", sender, client_message_id="m").end()
        # Nothing says that it has started: it is in no history.
        assert (again.outcome, again.kinds) == ("cancelled", ["withdrawn", "end"])
        assert again.of("withdrawn")[0].content == "second"
        provider.release()
        await first.end()


async def test_a_message_is_withdrawn_by_its_id_and_one_that_has_begun_is_not(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        with pytest.raises(NotFound, match="no message waits"):
            await withdraw(talk, sender)
        first = await busy(talk, provider, sender)
        second = talk.start("ada", "second", sender)
        await second.until("queued")
        third = talk.start("ada", "third", sender)
        await third.until("queued")
        runs = (await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs
        ids = {info.instruction: info.run_id for info in runs if info.sender == sender}
        assert await withdraw(talk, sender, ids["second"]) == (ids["second"], "second")
        with pytest.raises(Conflict, match="has begun"):
            await withdraw(talk, sender, ids["busy"])
        with pytest.raises(NotFound):
            await withdraw(talk, f"{sender}:2", ids["third"])
        provider.release()
        assert (await first.end()).outcome == "completed"
        assert (await third.end()).outcome == "completed"


@pytest.mark.parametrize("point", ["", "withdrawn.recorded"])
async def test_what_was_withdrawn_stays_withdrawn_after_a_crash(home: Home, provider: Provider, point: str) -> None:
    environment = {"MOOT_FAIL_AT": point} if point else {}
    with running(home, **environment) as daemon:
        async with daemon.client() as talk:
            await busy(talk, provider)
            await talk.start("ada", "second", client_message_id="m2").until("queued")
            if point:
                with pytest.raises(Exception, match="connection"):
                    await withdraw(talk)
            else:
                await withdraw(talk)
        daemon.kill_9()
    provider.reset()
    with running(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.history("ada")).queued == []
            # A client that did not hear of it and sends it again is told, and starts nothing.
            again = await talk.say("ada", "second", client_message_id="m2")
            assert again.outcome == "cancelled"
            assert [content for role, _, content in await talk.told("ada") if role == "user"] == ["busy"]
    assert provider.bodies() == []


async def test_moot_stop_withdraws_by_id_and_the_newest(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        first = await busy(talk, provider, sender)
        second, third = (talk.start("ada", text, sender) for text in ("second", "third"))
        await second.until("queued")
        await third.until("queued")
        newest = daemon.cli("stop", "--queued", "ada", "--as", sender)
        assert (newest.returncode, newest.stdout) == (0, "Withdrawn: third\n")
        runs = (await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs
        (run_id,) = [info.run_id for info in runs if info.sender == sender and info.instruction == "second"]
        assert f"{run_id} ada as {sender} · queued · 0.0 s" in daemon.cli("trace", run_id).stdout
        assert "A request is recorded once its answer has come." in daemon.cli("trace", run_id, "--prompt").stderr
        assert f"Stopped {run_id}" in daemon.cli("stop", run_id).stdout
        # It never began, so it took no time.
        assert "0 steps, 0 tokens, 0.0 s" in daemon.cli("trace", run_id).stdout
        # Stopped already: the same again is no error.
        assert daemon.cli("stop", run_id).returncode == 0
        assert (await second.end()).outcome == "cancelled"
        assert daemon.cli("stop", "--queued", "ada", "--as", sender).returncode != 0
        provider.release()
        assert (await first.end()).outcome == "completed"
    assert daemon.cli("stop").returncode == 2


async def test_the_chat_takes_a_message_back_and_the_up_arrow_brings_its_text(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        first = await busy(talk, provider, sender)
        with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
            person.wait_for("busy")
            person.enter("too hasty")
            person.wait_for("queued")
            person.enter("/withdraw")
            person.wait_for("withdrawn: too hasty")
            person.wait_for("the up arrow brings its text back")
            assert "› too hasty" not in person.rows.text
            person.type(UP)
            person.wait_on_screen("› too hasty")
            # It is said once.
            assert "before its turn came" not in person.rows.text
            # What was for a guest is for the guest again.
            person.type(CONTROL_U)
            person.enter("@bob too soon")

            async def is_queued() -> bool:
                return list((await talk.history("ada", sender)).queued) == ["too soon"]

            await eventually(is_queued)
            person.enter("/withdraw")
            person.wait_for("withdrawn: too soon")
            person.wait_for("the up arrow brings its text back")
            person.type(UP)
            person.wait_on_screen("› @bob too soon")
            provider.release()
            await first.end()
            person.wait_for("done")
            # Clears the line, then leaves.
            person.type(CONTROL_U + CONTROL_D)
            assert person.wait_for_exit() == 0
        assert [content for role, _, content in await talk.told("ada", sender) if role == "user"] == ["busy"]


async def test_a_message_that_begins_while_it_is_stopped_is_stopped(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        for attempt in range(10):
            provider.reset()
            first = await busy(talk, provider, f"{sender}:{attempt}")
            second = talk.start("ada", f"second {attempt}", f"{sender}:{attempt}")
            await second.until("queued")
            listed = (await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs
            run_id = next(info.run_id for info in listed if info.instruction == f"second {attempt}")
            provider.program({"match": "^second", "text": "done", "hold": True})
            provider.release()
            if attempt % 2:
                await first.until("chunk")
            # Meanwhile the run ahead ends.
            stopped = await talk.ask(stop_run=pb.StopRunMsg(run_id=run_id))
            assert [info.outcome for info in stopped.run_list.runs] == ["cancelled"]
            assert (await second.end()).outcome == "cancelled"
            assert (await first.end()).outcome == "completed"
