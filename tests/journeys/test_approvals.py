"""A tool that could do harm waits for its owner: bound, single use, expiring, and there after a restart."""

from pathlib import Path

import pytest

from moot.client.connection import connect
from moot.domain.errors import BadRequest, Conflict, Forbidden, NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG, PROVIDER_CONFIG, DaemonProcess, Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
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
    with daemon_thread(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            assert (ask.tool, ask.attempt) == ("set_title", 1)
            assert "always need approval" in ask.reason
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
    with daemon_thread(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            assert (await decide(talk, ask, "deny")).state == "denied"
            await speech.end()
            assert "owner denied" in speech.text
            assert await title(talk) == ""


async def test_a_decision_must_name_the_ask_the_attempt_and_what(asking: Home) -> None:
    with daemon_thread(asking) as daemon:
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
    with daemon_thread(asking) as daemon:
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
    with daemon_thread(asking) as daemon:
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
    asking.write_config(CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"') + ASKING)
    with daemon_thread(asking) as daemon:
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
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("ada", "call it boats")
            assert "nobody to ask" in speech.text
            assert (speech.outcome, await title(talk)) == ("denied", "")
            assert "nobody to ask" in speech.ended.error
            assert (await talk.say("ada", "only words")).outcome == "completed"
        done = daemon.cli("ask", "ada", "call it boats")
        assert len(daemon.cli_json("doctor")["data"]["traces"]["failed"]) == 2
    assert done.returncode == 4
    assert "nobody to ask" in done.stdout
    assert "nobody to ask" in done.stderr


async def test_the_chain_can_be_seen_with_what_it_did(asking: Home) -> None:
    with daemon_thread(asking) as daemon:
        async with daemon.client() as talk:
            speech, ask = await waiting(talk)
            await decide(talk, ask, "once")
            await speech.end()
            hooks = (await talk.connection.request(pb.ClientMessage(list_hooks=pb.ListHooksMsg()))).hook_list.hooks
            gate = next(hook for hook in hooks if hook.name == "ApprovalGate")
            assert (gate.phase, dict(gate.counts)) == ("pre-execute", {"asked": 1, "granted": 1})


# ---- what only a tool may know -----------------------------------------------------------------

CANARY = "canary-81c0f4e2a9"
STORE = {"name": "secrets_store", "arguments": {"name": "api", "value": CANARY}}
USE = {"name": "exec", "arguments": {"command": "printf %s {{secret:api}} | rev"}}


@pytest.fixture
def keeping(home: Home, provider: Provider) -> Home:
    return home.furnish(config=PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url))


def stopped(daemon: DaemonProcess, end: str) -> None:
    if end == "kill":
        daemon.kill_9()
    else:
        daemon.terminate()
        assert daemon.reap() == 0


def everything(home: Home) -> bytes:
    return b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())


async def allowed(talk: Talking, speech: Speech) -> list[str]:
    ask = await speech.until("approval_opened")
    await decide(talk, ask, "once", attempt=ask.attempt)
    await speech.end()
    return [result.output for result in speech.of("tool_result")]


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_an_approval_of_a_call_with_a_secret_argument_outlives_a_restart(
    keeping: Home, provider: Provider, tmp_path: Path, end: str
) -> None:
    provider.program({"calls": [STORE]}, {"text": "Kept."}, {"calls": [USE]}, {"text": "Used."})
    with running(keeping) as daemon:
        async with daemon.client() as talk:
            ask = await talk.start("ada", "keep it").until("approval_opened")
            assert CANARY not in str(ask)
            assert CANARY.encode() not in everything(keeping)
        stopped(daemon, end)
    with daemon_thread(keeping) as daemon:
        async with daemon.client() as talk:
            (info,) = await asks(talk)
            assert (info.ask_id, info.attempt) == (ask.ask_id, 1)
            (stored,) = await allowed(talk, talk.attach("ada"))
            assert "stored" in stored
            # The very value the model gave is in the vault.
            (used,) = await allowed(talk, talk.start("ada", "use it", cwd=str(tmp_path)))
            assert CANARY[::-1] in used
    assert CANARY.encode() not in everything(keeping)
    assert CANARY not in str(provider.bodies())


def lose_the_key(home: Home) -> None:
    (home.path / "data" / "vault.key").unlink()


async def test_a_secret_argument_that_cannot_be_unsealed_is_told_precisely_and_nobody_is_asked_any_more(
    keeping: Home, provider: Provider
) -> None:
    provider.program({"calls": [STORE]}, {"text": "Oh."})
    with running(keeping) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "keep it").until("approval_opened")
        daemon.kill_9()
    lose_the_key(keeping)
    with daemon_thread(keeping) as daemon:
        provider.requests(at_least=2)
        async with daemon.client() as talk:
            assert await asks(talk) == []
            # The model may be asked before the result is on disk.
            await eventually(talk.is_idle)
            (result,) = [entry for entry in (await talk.history("ada")).messages if entry.role == "tool"]
            assert result.is_error
            assert "cannot be unsealed" in result.content
            assert "Make the call again" in result.content


# ---- what the grammar wants looked at ------------------------------------------------------------

DOUBTFUL = "rm -rf .git"


@pytest.mark.parametrize(
    "settings",
    [
        'policy = "none"',
        'policy = "configured"',
        'exempt_tools = ["exec"]',
        'policy = "none"\nexempt_tools = ["*"]',
    ],
)
async def test_a_doubtful_command_is_asked_about_whatever_the_policy(
    keeping: Home, provider: Provider, tmp_path: Path, settings: str
) -> None:
    config = (keeping.path / "config.toml").read_text() + f"\n[security.interceptor]\n{settings}\n"
    keeping.write_config(config)
    plain = {"name": "exec", "arguments": {"command": "echo plain"}}
    doubtful = {"name": "exec", "arguments": {"command": DOUBTFUL}}
    provider.program({"calls": [plain]}, {"text": "One."}, {"calls": [doubtful]}, {"text": "Two."})
    with daemon_thread(keeping) as daemon:
        async with daemon.client() as talk:
            first = await talk.say("ada", "plain", cwd=str(tmp_path))
            assert first.of("approval_opened") == []
            second = talk.start("ada", "doubtful", cwd=str(tmp_path))
            ask = await second.until("approval_opened")
            assert "has to be reviewed" in ask.reason
            assert "history" in ask.reason
            await decide(talk, ask, "deny")
            await second.end()


async def test_only_a_rule_for_exactly_this_command_lets_a_doubtful_one_through(
    keeping: Home, provider: Provider, tmp_path: Path
) -> None:
    config = (keeping.path / "config.toml").read_text() + '\n[security.interceptor]\npolicy = "none"\n'
    keeping.write_config(config)

    def run(command: str) -> None:
        provider.program({"calls": [{"name": "exec", "arguments": {"command": command}}]}, {"text": "Done."})

    with daemon_thread(keeping) as daemon:
        async with daemon.client() as talk:
            run(DOUBTFUL)
            first = talk.start("ada", "once", cwd=str(tmp_path))
            ask = await first.until("approval_opened")
            bound = f"allow exec: {DOUBTFUL} in {tmp_path}, in a sandbox without a network for ada as user"
            assert (await decide(talk, ask, "always")).rule == bound
            await first.end()
            run(DOUBTFUL)
            assert (await talk.say("ada", "again", cwd=str(tmp_path))).of("approval_opened") == []
            run(f"{DOUBTFUL} notes")
            other = talk.start("ada", "another", cwd=str(tmp_path))
            await decide(talk, await other.until("approval_opened"), "deny")
            await other.end()
            run(DOUBTFUL)
            stranger = talk.start("bob", "somebody else's", cwd=str(tmp_path))
            await decide(talk, await stranger.until("approval_opened"), "deny")
            await stranger.end()


async def test_with_nobody_to_ask_a_doubtful_command_is_refused(
    keeping: Home, provider: Provider, tmp_path: Path
) -> None:
    settings = '\n[security.interceptor]\npolicy = "none"\nunattended = true\n'
    keeping.write_config((keeping.path / "config.toml").read_text() + settings)
    (tmp_path / ".git").mkdir()
    provider.program({"calls": [{"name": "exec", "arguments": {"command": DOUBTFUL}}]}, {"text": "No."})
    with daemon_thread(keeping) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("ada", "remove it", cwd=str(tmp_path))
    assert "nobody to ask" in speech.of("tool_result")[0].output
    assert (tmp_path / ".git").exists()
