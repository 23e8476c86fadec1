"""A tool that could do harm waits for its owner: bound, single use, expiring, and there after a restart."""

import pytest

from moot.client.connection import connect
from moot.domain.errors import BadRequest, Conflict, Forbidden, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG, Home, running
from tests.talking import Speech, Talking

ASKING = """
[security.interceptor]
sensitive_tools = ["set_title"]
"""
SCRIPT = """
[[rule]]
match = "^call it (?P<name>.*)"
calls = [{ name = "set_title", arguments = { title = "Boats" } }]
after_tool = "The tool said: {result}"

[[rule]]
reply = "You said: {user}"
"""


@pytest.fixture
def asking(home: Home) -> Home:
    return home.furnish(script=SCRIPT, config=CONFIG + ASKING)


async def waiting(talk: Talking, sender: str = "user") -> tuple[Speech, pb.ApprovalEvent]:
    speech = talk.start("ada", "call it boats", sender)
    return speech, await speech.until("approval_opened")


async def decide(talk: Talking, ask: pb.ApprovalEvent, decision: str, *, attempt: int = 1) -> pb.AskDecided:
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=attempt, decision=decision)
    return (await talk.connection.request(pb.ClientMessage(decide_ask=message))).ask_decided


async def asks(talk: Talking) -> list[pb.AskInfo]:
    return list((await talk.connection.request(pb.ClientMessage(list_asks=pb.ListAsksMsg()))).ask_list.asks)


async def rules(talk: Talking) -> list[pb.RuleInfo]:
    return list((await talk.connection.request(pb.ClientMessage(list_rules=pb.ListRulesMsg()))).rule_list.rules)


async def title(talk: Talking) -> str:
    found = await talk.connection.request(pb.ClientMessage(list_conversations=pb.ListConversationsMsg(agent="ada")))
    return next((info.title for info in found.conversation_list.conversations), "")


async def test_a_yes_lets_the_one_call_through(asking: Home) -> None:
    with running(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            assert (ask.tool, ask.attempt) == ("set_title", 1)
            assert "always ask" in ask.reason
            assert [info.kind for info in await asks(talk)] == ["approval"]
            assert await title(talk) == ""
            assert (await decide(talk, ask, "once")).state == "granted"
            await speech.end()
            assert speech.outcome == "completed"
            assert await title(talk) == "Boats"
            assert (await asks(talk), await rules(talk)) == ([], [])
            with pytest.raises(Conflict):
                await decide(talk, ask, "once")
            _, second = await waiting(talk)
            assert second.ask_id != ask.ask_id


async def test_a_no_is_told_to_the_model_and_nothing_happens(asking: Home) -> None:
    with running(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            assert (await decide(talk, ask, "deny")).state == "denied"
            await speech.end()
            assert "said no" in speech.text
            assert await title(talk) == ""


async def test_a_decision_must_name_the_ask_the_attempt_and_what(asking: Home) -> None:
    with running(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            with pytest.raises(Conflict):
                await decide(talk, ask, "once", attempt=2)
            with pytest.raises(BadRequest):
                await decide(talk, ask, "perhaps")
            with pytest.raises(NotFound):
                await decide(talk, pb.ApprovalEvent(ask_id="ask-nothing"), "once")
            with pytest.raises(NotFound):
                await talk.reply("ada", "yes, do it")
            assert len(await asks(talk)) == 1
            await talk.kill("ada")
            await speech.end()
            assert speech.outcome == "cancelled"
            assert await asks(talk) == []
            with pytest.raises(Conflict):
                await decide(talk, ask, "once")


async def test_always_writes_a_rule_that_can_be_seen_and_taken_back(asking: Home) -> None:
    with running(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            decided = await decide(talk, ask, "always")
            assert decided.rule == ask.rule
            await speech.end()
            again = await talk.say("ada", "call it boats")
            assert again.outcome == "completed"
            (rule,) = await rules(talk)
            assert (rule.tool, rule.agent, rule.sender, rule.created_by) == ("set_title", "ada", "user", "owner")
            await talk.connection.request(pb.ClientMessage(delete_rule=pb.DeleteRuleMsg(number=rule.number)))
            _, asked = await waiting(talk)
            assert asked.tool == "set_title"


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_an_approval_is_there_after_a_restart_with_its_id(asking: Home, end: str) -> None:
    with running(asking) as daemon:
        async with daemon.client() as talk:
            _, ask = await waiting(talk)
        if end == "kill":
            daemon.kill_9()
        else:
            daemon.terminate()
            assert daemon.reap() == 0
    with running(asking) as daemon:
        async with daemon.client() as talk:
            (info,) = await asks(talk)
            assert (info.ask_id, info.attempt) == (ask.ask_id, 1)
            speech = talk.attach("ada")
            await speech.until("approval_opened")
            assert (await decide(talk, ask, "once")).state == "granted"
            await speech.end()
            assert speech.outcome == "completed"
            assert await title(talk) == "Boats"
            assert [entry.role for entry in (await talk.history("ada")).messages] == [
                "user",
                "assistant",
                "tool",
                "assistant",
            ]


async def test_nobody_but_the_owner_decides(asking: Home) -> None:
    asking.write_config(CONFIG.replace('tcp = "off"', 'tcp = ""') + ASKING)
    with running(asking) as daemon:
        async with daemon.client() as talk:
            created = await talk.connection.request(
                pb.ClientMessage(new_token=pb.NewTokenMsg(name="phone", senders=["user"]))
            )
            _, ask = await waiting(talk)
            stats = (await talk.connection.request(pb.ClientMessage(get_stats=pb.GetStats()))).stats
            async with connect(stats.tcp, token=created.token_created.token) as other:
                message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=1, decision="once")
                with pytest.raises(Forbidden):
                    await other.request(pb.ClientMessage(decide_ask=message))


async def test_with_nobody_to_ask_it_is_refused_at_once(home: Home) -> None:
    home.furnish(script=SCRIPT, config=CONFIG + ASKING + "unattended = true\n")
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("ada", "call it boats")
            assert "nobody to ask" in speech.text
            assert await title(talk) == ""


async def test_the_chain_can_be_seen_with_what_it_did(asking: Home) -> None:
    with running(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            await decide(talk, ask, "once")
            await speech.end()
            hooks = (await talk.connection.request(pb.ClientMessage(list_hooks=pb.ListHooksMsg()))).hook_list.hooks
            gate = next(hook for hook in hooks if hook.name == "ApprovalGate")
            assert (gate.phase, dict(gate.counts)) == ("pre-execute", {"asked": 1, "granted": 1})
