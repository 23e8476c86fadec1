"""Inquiries through a running daemon: found in conversations, asked once, answered, dismissed, and never lost."""

import asyncio
import json
from typing import Any

import pytest

from moot.engine.librarian import LIBRARIAN_MARK
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG + "[librarian]\nenabled = true\ninquiryCooldownTurns = 2\n[project]\ninstructions = false\n"
ASKED = "Something about this person is not known"
FINDINGS = {
    "knowledge": [
        {"key": "tea", "category": "preference", "content": "Ann drinks green tea.", "confidence": "high"},
        {"key": "mood", "category": "fact", "content": "Ann may be tired.", "confidence": "low"},
    ],
    "gaps": [
        {"topic": "time zone", "question": "Which time zone do you work in?", "priority": "high"},
        {"topic": "editor", "question": "Which editor do you use?", "priority": "low"},
        {"topic": "third", "question": "One too many?", "priority": "low"},
    ],
}


def say(text: str, match: str) -> dict[str, Any]:
    return {"match": f"{match}$", "text": text}


def find(**found: Any) -> dict[str, Any]:
    return {"match": "Open questions:", "text": json.dumps(found)}


def prompts(provider: Provider, words: str) -> list[str]:
    """The requests for the message with these words, as text."""
    found = [json.dumps(each, ensure_ascii=False) for each in provider.requests()]
    return [each for each in found if words in each and LIBRARIAN_MARK not in each]


def pending(daemon: LiveDaemon, sender: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.cli_json("knowledge", "inquiries", "--as", sender)["data"]
    return found


async def test_what_is_not_known_is_asked_once_and_the_answer_is_kept(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    mine = ("--as", sender)
    async with daemon.client() as talk:
        used = {"prompt": 5_000, "completion": 90}
        provider.program(say("Hello.", "one"), say("Yes.", "two"), find(**FINDINGS) | {"usage": used})
        await talk.say("ada", "one", sender)
        await talk.say("ada", "two", sender)
        await eventually(lambda: len(pending(daemon, sender)) == 2)
        # What the analysis took is counted for the conversation it was about.
        (spent,) = await talk.usage(agent="ada", sender=sender)
        assert (spent.runs, spent.prompt > 5_000, spent.completion > 90) == (2, True, True)
        assert [each["topic"] for each in pending(daemon, sender)] == ["time zone", "editor"]
        assert [each["key"] for each in daemon.cli_json("knowledge", *mine)["data"]] == ["tea"]
        assert not any(ASKED in each for each in prompts(provider, "two"))
        # The next turn asks the most important one, and only that turn.
        (first,) = pending(daemon, sender)[:1]
        answer = {"inquiry_id": first["id"], "answer": "In Lisbon time.", "confidence": "high"}
        # One that is no answer keeps nothing else from being found.
        answers = [answer | {"answer": " "}, answer | {"answer": "a" * 4_001}, answer]
        provider.program(say("Fine. Which time zone?", "three"), say("Noted.", "four"), find(answers=answers))
        await talk.say("ada", "three", sender)
        assert any(ASKED in each and "Which time zone do you work in?" in each for each in prompts(provider, "three"))
        await talk.say("ada", "four", sender)
        assert not any(ASKED in each for each in prompts(provider, "four"))
        # The answer in the conversation resolves it.
        await eventually(lambda: [each["topic"] for each in pending(daemon, sender)] == ["editor"])
        (entry,) = daemon.cli_json("knowledge", "search", "Lisbon", *mine)["data"]
        assert (entry["key"], entry["content"]) == ("time zone", "Which time zone do you work in?\nIn Lisbon time.")
        # What was asked is not asked again, even if it is found again; the other one comes after the pause.
        provider.program(say("Good.", "five"), say("Good.", "six"), find(gaps=FINDINGS["gaps"][:1]))
        await talk.say("ada", "five", sender)
        assert any("Which editor do you use?" in each and ASKED in each for each in prompts(provider, "five"))
        await talk.say("ada", "six", sender)
        await eventually(lambda: sum(LIBRARIAN_MARK in json.dumps(each) for each in provider.requests()) == 3)
        everything = daemon.cli_json("knowledge", "inquiries", "--all", *mine)["data"]
        assert [each["status"] for each in everything] == ["resolved", "pending"]


async def test_an_inquiry_is_answered_or_dismissed_by_command_and_tool(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    mine = ("--as", sender)
    async with daemon.client() as talk:
        provider.program(say("Hello.", "one"), say("Yes.", "two"), find(gaps=FINDINGS["gaps"]))
        await talk.say("librarian", "one", sender)
        await talk.say("librarian", "two", sender)
        await eventually(lambda: len(pending(daemon, sender)) == 2)
        first, second = pending(daemon, sender)
        calls = [
            {"name": "librarian_pending_inquiries", "arguments": {}},
            {"name": "librarian_dismiss_inquiry", "arguments": {}},
            {"name": "librarian_dismiss_inquiry", "arguments": {"inquiry_id": "nobody"}},
            {"name": "librarian_dismiss_inquiry", "arguments": {"inquiry_id": second["id"]}},
        ]
        provider.program(*({"match": "three$", "calls": [each]} for each in calls), say("Done.", "three"))
        speech = await talk.say("librarian", "three", sender)
        listed, missing, unknown, dismissed = [each.output for each in speech.of("tool_result")]
        assert [each["Question"] for each in json.loads(listed)["inquiries"]] == [first["question"], second["question"]]
        assert missing == "missing inquiry_id parameter"
        assert unknown.startswith("invalid inquiry_id: ")
        assert json.loads(dismissed)["status"] == "dismissed"
    assert [each["id"] for each in pending(daemon, sender)] == [first["id"]]
    assert "Which time zone" in daemon.cli("knowledge", "inquiries", *mine).stdout
    # Nobody else can answer it.
    assert daemon.cli("knowledge", "answer", first["id"], "Lisbon", "--as", f"{sender}-2").returncode != 0
    assert daemon.cli("knowledge", "answer", first["id"][:8], "Lisbon", *mine).stdout.startswith("Saved.")
    assert daemon.cli("knowledge", "dismiss", first["id"], *mine).returncode != 0
    assert pending(daemon, sender) == []
    assert daemon.cli_json("knowledge", "show", "time zone", *mine)["data"]["content"].endswith("\nLisbon")


async def test_an_inquiry_is_dismissed_however_many_there_were_before(home: Home, provider: Provider) -> None:
    home.write_config(CONFIG.replace("PROVIDER_URL", provider.url))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            provider.program(say("Hello.", "one"), say("Yes.", "two"), find(gaps=FINDINGS["gaps"][1:2]))
            await talk.say("librarian", "one")
            await talk.say("librarian", "two")
            await eventually(lambda: len(pending(daemon, "user")) == 1)
        (newest,) = pending(daemon, "user")
    home.change(
        "INSERT INTO inquiries (id, agent, sender, topic, question, context, priority, status, taint, created_at,"
        " fingerprint, subject) VALUES (?1, 'librarian', 'user', ?1, ?1, '', 'high', 'resolved', '', 1.0, ?1, ?1)",
        [(f"earlier {number}",) for number in range(600)],
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            dismiss = {"name": "librarian_dismiss_inquiry", "arguments": {"inquiry_id": newest["id"]}}
            provider.program({"match": "three$", "calls": [dismiss]}, say("Done.", "three"))
            (result,) = (await talk.say("librarian", "three")).of("tool_result")
        assert json.loads(result.output)["status"] == "dismissed"
        assert pending(daemon, "user") == []


def test_without_the_librarian_nothing_is_analysed_and_there_are_no_tools(home: Home, provider: Provider) -> None:
    home.write_config(PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url))
    with daemon_thread(home) as daemon:
        listed = {each["name"]: each for each in daemon.cli_json("agents", "tools")["data"]["categories"]}
        assert listed["librarian"]["reason"] == "enabled is false in [librarian]"
        home.write_config((home.path / "config.toml").read_text() + "[librarian]\nenabled = true\n")
        daemon.cli("reload")
        listed = {each["name"]: each for each in daemon.cli_json("agents", "tools")["data"]["categories"]}
        assert listed["librarian"]["tools"] == ["librarian_dismiss_inquiry", "librarian_pending_inquiries"]


@pytest.mark.parametrize("point", ["commit.inquiry", "committed.inquiry", "commit.inquiry:2", "committed.inquiry:2"])
async def test_a_kill_while_an_inquiry_is_stored_or_asked_neither_loses_nor_repeats_it(
    home: Home, provider: Provider, point: str
) -> None:
    home.write_config(CONFIG.replace("PROVIDER_URL", provider.url))
    one = FINDINGS["gaps"][:1]
    with running(home, MOOT_FAIL_AT=point) as daemon:
        async with daemon.client() as talk:
            provider.program(say("Hello.", "one"), say("Yes.", "two"), find(gaps=one), say("Fine.", "three"))
            await talk.say("ada", "one")
            # The daemon may be gone before the end of this turn has arrived.
            talk.start("ada", "two")
            if point.endswith(":2"):
                await eventually(lambda: home.query("SELECT count(*) FROM inquiries") == [(1,)])
                talk.start("ada", "three")
            await asyncio.to_thread(daemon.reap)
    provider.program(say("Fine.", "four"), say("Fine.", "five"), find(gaps=one), say("Fine.", "six"), find())
    with running(home) as daemon:
        async with daemon.client() as talk:
            for word in ("four", "five", "six"):
                await talk.say("ada", word)
            await eventually(lambda: home.query("SELECT topic FROM inquiries") == [("time zone",)])
    shown = [each for each in map(json.dumps, provider.requests()) if ASKED in each]
    assert len(shown) <= 1


async def test_an_analysis_that_cannot_be_read_is_made_again_and_the_most_important_gaps_are_kept(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    gaps = [
        {"topic": "pen", "question": "Which pen do you use?", "priority": "low"},
        {"topic": "desk", "question": "Which desk is yours?", "priority": "medium"},
        {"topic": "language", "question": "Which language do you prefer?", "priority": "high"},
    ]
    unreadable = {"match": "Open questions:", "text": "I found nothing of note."}
    async with daemon.client() as talk:
        provider.program(say("Hello.", "one"), say("Yes.", "two"), unreadable, find(gaps=gaps))
        await talk.say("ada", "one", sender)
        await talk.say("ada", "two", sender)
        await eventually(lambda: len(pending(daemon, sender)) == 2)
    # Two may be open: those that matter most, however they were listed.
    assert [each["topic"] for each in pending(daemon, sender)] == ["language", "desk"]
