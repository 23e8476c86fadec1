"""An agent with the role assistant: only what it sends with send_user_message reaches the person."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from moot.client import Moot, Text
from moot.domain.errors import MootError
from moot.domain.user_message import MAX_MESSAGE_BYTES
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.raw_client import http_address
from tests.scripting import call, say, script
from tests.talking import Talking
from tests.terminal import terminal

CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[models.silent]
provider = "scripted"
script = "script.toml"
tools = "none"
[listen]
http = "127.0.0.1:0"
tcp = "off"
"""


def send(message: str, status: str = "normal", **more: Any) -> dict[str, Any]:
    return call("send_user_message", message=message, status=status, **more)


def with_text(text: str, step: dict[str, Any]) -> dict[str, Any]:
    return {"reply": text, **step}


SCRIPT = script(
    {
        "match": "^report",
        "steps": [
            with_text("secret plan one", send("Working on it.")),
            send("Done: 3 files.", attachments=["out.txt", "./out.txt"]),
            say("secret end"),
        ],
    },
    {"match": "^quiet", "reply": "secret thought"},
    {"match": "^empty after", "steps": [send("All I have."), {"reply": ""}]},
    {"match": "^wrong (?P<what>.*)", "steps": [send("x", attachments=["{what}"]), say("secret: {result}")]},
    {"match": "^too long", "steps": [send("x" * (MAX_MESSAGE_BYTES + 1)), say("secret: {result}")]},
    {"match": "^nine", "steps": [send("x", attachments=[f"{n}.txt" for n in range(9)]), say("secret: {result}")]},
    {"match": "^badly", "steps": [send("x", status="loud"), say("secret: {result}")]},
    {"match": "^mutter", "thinking": "secret reasoning", "steps": [send("Said.", "proactive"), say("secret end")]},
    {"match": "^which", "steps": [call("ask_user", questions=[{"question": "Which?"}]), send("Thanks.")]},
    {"reply": "Plain: {user}"},
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDaemon]:
    home = make_home(Home(tmp_path_factory.mktemp("home")))
    with daemon_thread(home) as started:
        yield started


def make_home(home: Home) -> Home:
    home.furnish(script=SCRIPT, config=CONFIG, agents=("ada", "bob", "cyd"))
    for name, model in (("ada", ""), ("cyd", "silent")):
        path = home.write_agent(name, model=model)
        path.write_text(path.read_text(encoding="utf-8").replace("\n---\n", "\nrole: assistant\n---\n", 1), "utf-8")
    work = home.path / "work"
    work.mkdir(exist_ok=True)
    (work / "out.txt").write_text("x" * 1234)
    return home


async def test_only_messages_reach_the_person_in_every_command(daemon: LiveDaemon, sender: str) -> None:
    work = str(daemon.home.path / "work")
    asked = daemon.cli("ask", "ada", "report", "--as", sender, "--cwd", work)
    assert asked.returncode == 0
    assert asked.stdout == "Working on it.\n\nDone: 3 files.\n"
    assert "attached: out.txt (1.2 KB)" in asked.stderr
    assert "secret" not in asked.stdout + asked.stderr
    shown = daemon.cli("history", "ada", "--as", sender)
    assert "ada › Working on it.\nada › Done: 3 files.\n  attached: out.txt (1.2 KB)" in shown.stdout
    assert "secret" not in shown.stdout
    assert "send_user_message" not in shown.stdout
    everything = daemon.cli("history", "ada", "--as", sender, "--all").stdout
    assert "ada (not sent) › secret plan one" in everything
    assert "ada (not sent) › secret end" in everything
    assert "secret" not in daemon.cli("history", "ada", "--as", sender, "--json").stdout
    assert "secret end" in daemon.cli("history", "ada", "--as", sender, "--json", "--all").stdout
    entries = daemon.cli_json("history", "ada", "--as", sender)["data"]["messages"]
    assert [entry["sent"] for entry in entries if entry.get("sent")] == [
        [{"content": "Working on it.", "status": "normal", "attachments": []}],
        [{"content": "Done: 3 files.", "status": "normal", "attachments": [{"path": "out.txt", "size": 1234}]}],
    ]
    # The text is stored once, in the call.
    ((count,),) = daemon.home.query("SELECT count(*) FROM runs WHERE reply LIKE '%Done: 3%'")
    assert count == 0
    assert daemon.home.query("SELECT count(*) FROM messages WHERE content LIKE '%Done: 3%'") == [(0,)]


async def test_the_json_of_ask_has_the_messages_and_all_shows_the_rest(daemon: LiveDaemon, sender: str) -> None:
    found = daemon.cli_json("ask", "ada", "mutter", "--as", sender)["data"]
    assert (found["content"], found["outcome"]) == ("Said.", "completed")
    assert found["messages"] == [{"content": "Said.", "status": "proactive", "attachments": []}]
    assert "secret" not in json.dumps(found)
    loud = daemon.cli("ask", "ada", "mutter", "--as", sender, "--all")
    assert loud.stdout == "Said.\n"
    assert "· secret end" in loud.stderr
    run = daemon.cli("run", "empty after", "--agent", "ada", "--as", sender)
    assert (run.returncode, run.stdout) == (0, "All I have.\n")


async def test_a_turn_without_a_message_says_so_and_where_the_text_is(daemon: LiveDaemon, sender: str) -> None:
    asked = daemon.cli("ask", "ada", "quiet", "--as", sender)
    assert (asked.returncode, asked.stdout) == (0, "")
    command = asked.stderr.partition("ada finished without a message. Its text: moot ")[2].split()
    assert "secret" not in asked.stderr
    assert "secret thought" in daemon.cli(*command).stdout
    assert "secret" not in daemon.cli("logs", command[1]).stdout
    assert daemon.cli_json("ask", "ada", "quiet", "--as", sender)["data"]["messages"] == []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("wrong missing.txt", "there is no file missing.txt"),
        ("wrong ../script.toml", "outside"),
        ("wrong .", "is a folder"),
        ("too long", f"`message` is {MAX_MESSAGE_BYTES + 1} bytes, max {MAX_MESSAGE_BYTES}"),
        ("nine", "9 attachments, max 8"),
        ("badly", "status"),
    ],
)
async def test_a_message_that_cannot_be_sent_is_refused_and_not_shown(
    daemon: LiveDaemon, sender: str, message: str, told: str
) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("ada", message, sender, cwd=str(daemon.home.path / "work"))
        assert not speech.of("user_message")
        assert told in "".join(chunk.content for chunk in speech.of("private_text"))
        assert not any(entry.sent for entry in await history(talk, sender))


async def history(talk: Talking, sender: str, agent: str = "ada") -> list[pb.HistoryMessage]:
    answer = await talk.ask(get_history=pb.GetHistoryMsg(agent=agent, sender=sender))
    return list(answer.history.messages)


async def test_others_speak_as_usual_and_do_not_have_the_tool(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        # No role; a model without tools, which could not send anything; and a guest, which has no tools.
        assert (await talk.say("bob", "report", sender)).text == "secret plan onesecret end"
        assert (await talk.say("cyd", "hello", sender)).text == "Plain: hello"
        assert (await talk.say("bob", "hello", sender, guest="ada")).text == "Plain: hello"
        assert not any(entry.sent or entry.private for entry in await history(talk, sender, "bob"))


async def test_programs_get_the_messages(daemon: LiveDaemon, sender: str) -> None:
    token = daemon.cli_json("tokens", "new", "bot", "--sender", "test:*")["data"]["token"]
    url, headers = f"{http_address(daemon)}/v1/chat/completions", {"Authorization": f"Bearer {token}"}
    asked = {"model": "ada", "user": sender, "messages": [{"role": "user", "content": "mutter"}]}
    async with aiohttp.ClientSession() as client:
        async with client.post(url, headers=headers, json=asked) as response:
            whole = await response.json()
        async with client.post(url, headers=headers, json=asked | {"stream": True}) as response:
            streamed = await response.text()
        asked["messages"] = [{"role": "user", "content": "quiet"}]
        async with client.post(url, headers=headers, json=asked) as response:
            silent = await response.json()
    assert whole["choices"][0]["message"]["content"] == "Said."
    assert '"content":"Said."' in streamed
    assert "secret" not in json.dumps(whole) + streamed + json.dumps(silent)
    assert "ada finished without a message" in silent["choices"][0]["message"]["content"]
    async with daemon.client() as talk:
        answer = await talk.send("ada", "mutter", sender, client_message_id="once")
        again = await talk.say("ada", "mutter", sender, client_message_id="once")
    assert (answer.content, [each.status for each in answer.messages]) == ("Said.", ["proactive"])
    assert [each.content for each in again.of("user_message")] == ["Said."]


def test_the_python_client_has_the_messages(daemon: LiveDaemon, sender: str) -> None:
    with Moot(home=daemon.home.path) as moot:
        reply = moot.ask("ada", "mutter", sender=sender)
        assert (reply.text, [each.status for each in reply.messages]) == ("Said.", ["proactive"])
        items = list(moot.stream("ada", "mutter", sender=sender))
        assert [item.text for item in items if isinstance(item, Text)] == ["Said."]
        found = moot.history("ada", sender=sender)
        assert [sent.text for message in found for sent in message.sent] == ["Said.", "Said."]


def test_the_chat_shows_messages_and_on_request_the_rest(daemon: LiveDaemon, sender: str) -> None:
    work = str(daemon.home.path / "work")
    with terminal(daemon.home, "chat", "ada", "--as", sender, "--cwd", work, columns=60) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("report")
        person.wait_for("ada › Done: 3 files.")
        person.wait_for("attached: out.txt (1.2 KB)")
        assert "\n  attached: out.txt (1.2 KB)" in person.rows.text
        person.enter("quiet")
        person.wait_for("ada finished without a message")
        # Nobody needs to look at it.
        logged = map(json.loads, daemon.home.log.read_text().splitlines())
        assert {line["level"] for line in logged if "without a message" in line["message"]} == {"info"}
        assert "secret" not in person.rows.text
        person.enter("/all")
        person.wait_for("text that is not sent to you is shown")
        person.enter("mutter")
        person.wait_for("ada (proactive) › Said.")
        person.wait_for("· secret end")
        assert "send_user_message" not in person.rows.text
        person.type("\x04")
        assert person.wait_for_exit() == 0
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=60) as person:
        person.wait_for("ada (proactive) › Said.")
        person.wait_on_screen("Ctrl-D leaves")
        assert "secret" not in person.rows.text


async def test_a_crash_after_sending_repeats_nothing_in_the_history(tmp_path: Path) -> None:
    home = make_home(Home(tmp_path / "home"))
    home.write_script(script({"match": "^go", "steps": [send("Half way."), say("secret end")]}))
    with running(home, MOOT_FAIL_AT="tool.after") as daemon:
        async with daemon.client() as talk:
            with suppress(MootError, OSError):
                await talk.say("ada", "go", "me")
        assert daemon.process.wait(60) == -signal.SIGKILL
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "go", "me")
            found = await history(talk, "me")
            assert [sent.content for entry in found for sent in entry.sent] == ["Half way.", "Half way."]
            assert [entry.outcome for entry in found if entry.role == "user"] == ["interrupted", "completed"]


def go_away(daemon: LiveDaemon, sender: str, seconds: int = 20_000) -> None:
    """Let everything in a conversation have happened that many seconds earlier."""
    number = "SELECT id FROM conversations WHERE sender = ?"
    for statement in (
        f"UPDATE messages SET created_at = created_at - {seconds} WHERE id >> 32 IN ({number})",
        f"UPDATE runs SET ended_at = ended_at - {seconds} WHERE conversation IN ({number})",
        f"UPDATE conversations SET visited_at = max(0, visited_at - {seconds}) WHERE id IN ({number})",
    ):
        daemon.home.change(statement, [(sender,)])


async def test_who_returns_is_shown_what_happened_meanwhile(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "mutter", sender)
        await talk.ask(send_mail=pb.SendMailMsg(agent="ada", sender=sender, content="the plan\nis long"))
    ask = ("ask", "ada", "empty after", "--as", sender)
    # Away for a short time: only what nobody has read is shown, once.
    with terminal(daemon.home, *ask, columns=80) as person:
        person.wait_for("ada (proactive) › Said.")
        assert person.wait_for_exit() == 0
        assert "While you were away" not in person.rows.text
    with terminal(daemon.home, *ask, columns=80) as person:
        assert person.wait_for_exit() == 0
        assert "Said." not in person.rows.text
    async with daemon.client() as talk:
        await talk.say("ada", "mutter", sender)
        await talk.ask(send_mail=pb.SendMailMsg(agent="ada", sender=sender, content="the plan\nis long"))
    go_away(daemon, sender)
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=60) as person:
        person.wait_for("While you were away (5 h): 1 message, 1 run ended, 1 mail")
        person.wait_for("message ada: Said.")
        person.wait_for("the plan")
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("/digest")
        person.wait_for("run ada: completed: mutter")
        person.type("\x04")
        assert person.wait_for_exit() == 0
    again = daemon.cli_json("digest", "ada", "--as", sender)["data"]
    assert [item["kind"] for item in again["items"]] == ["message", "run", "mail"]
    assert "While you were away" in daemon.cli("digest", "ada", "--as", sender).stdout
    # It was shown.
    with terminal(daemon.home, *ask, columns=80) as person:
        assert person.wait_for_exit() == 0
        assert "While you were away" not in person.rows.text


async def test_asks_that_wait_are_in_the_digest_and_zero_turns_it_off(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = talk.start("ada", "which", sender)
        await speech.until("ask_user")
        visit = await talk.ask(visit=pb.VisitMsg(agent="ada", sender=sender, away_seconds=0))
        assert not visit.digest.is_due
        assert [(item.kind, item.agent) for item in visit.digest.items] == [("ask", "ada")]
        await talk.reply("ada", "red", sender)
        await speech.end()
        nobody = await talk.ask(visit=pb.VisitMsg(agent="ada", sender=f"{sender}-nobody", away_seconds=1))
        assert not nobody.digest.items
