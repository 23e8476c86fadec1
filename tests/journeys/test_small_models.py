"""Small models are told less, are reminded of the task, and show what they do before they answer."""

from pathlib import Path
from typing import Any

import pytest

from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG.replace("retries = 1\n[models.claude]", 'tools = "schema"\nsmall = true\n[models.claude]')
AGENTS = ("ada", "bob")
SAY = '{"tool": "say", "text": "Done."}'


def choose(tool: str, **arguments: str) -> dict[str, Any]:
    shown = ", ".join(f'"{name}": "{value}"' for name, value in arguments.items())
    return {"text": f'{{"tool": "{tool}", "arguments": {{{shown}}}}}'}


def system(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


async def test_a_small_model_is_told_less(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.reset()
    path = daemon.home.write_agent("cyd")
    path.write_text(path.read_text().replace("name: cyd", "name: cyd\nbrief: You are short."))
    provider.program(*({"text": SAY} for _ in range(2)))
    async with daemon.client() as talk:
        await talk.say("moot", "hello", sender)
        await talk.say("cyd", "hello", sender)
    moot, cyd = map(system, provider.bodies())
    assert len(moot) < 2_500
    assert '{"tool": "fs_read", "arguments": {"path": "notes.txt"}} read a file' in moot
    assert "set_title" not in moot
    assert '"tool": "recall"' in moot
    assert cyd.startswith("You are short.")


async def test_a_small_leader_is_told_which_teammates_to_start_and_has_no_memory_to_search(
    home: Home, provider: Provider
) -> None:
    config = CONFIG.replace("PROVIDER_URL", provider.url)
    home.write_config(f"{config}\n[agent]\nmultiAgent = true\n[project]\ninstructions = false\n")
    for name in ("scribe", "clerk"):
        path = home.write_agent(name, description="Writes files.")
        path.write_text(path.read_text().replace(f"name: {name}", f'name: {name}\nprefixes: ["fs_*"]'))
    provider.program({"text": SAY})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "Have scribe write 'a' into a.txt, and have clerk write 'b' into b.txt.")
    (leader,) = provider.bodies()
    assert '"tool": "agent_spawn"' in system(leader)
    assert '"tool": "recall"' not in system(leader)
    advice = str(leader["messages"][-1]["content"])
    assert all(f'agent_spawn(agent="{name}", …)' in advice for name in ("scribe", "clerk"))


async def test_a_small_leader_gives_a_whole_task_to_one_teammate_and_no_placeholder(
    home: Home, provider: Provider
) -> None:
    config = CONFIG.replace("PROVIDER_URL", provider.url)
    home.write_config(f"{config}\n[agent]\nmultiAgent = true\n[project]\ninstructions = false\n")
    for name in ("scribe", "clerk"):
        path = home.write_agent(name, description="Writes files.")
        path.write_text(path.read_text().replace(f"name: {name}", f'name: {name}\nprefixes: ["fs_*"]'))
    provider.program(choose("agent_spawn", agent="operator", instruction="…"), {"text": SAY})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "Write the text 'Ahoy' into a new file called a.txt.")
    leader, refused = provider.bodies()
    advice = str(leader["messages"][-1]["content"])
    assert 'Give it the whole task: agent_spawn(agent="operator", …)' in advice
    assert "clerk" not in advice
    assert "agent_spawn: instruction is a placeholder and not a value; nothing was done." in str(refused["messages"])


async def test_after_a_call_it_is_reminded_of_the_task_and_of_errors(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    provider.reset()
    edit = choose("fs_edit", path="a.txt", oldText="a", newText="b")
    look = choose("fs_list", path=".")
    provider.program(choose("fs_read", path="a.txt"), look, edit, look, {"text": SAY})
    async with daemon.client() as talk:
        assert (await talk.say("ada", "Look for a.txt", sender, cwd=str(tmp_path))).text == "Done."
    _, failed, listed, _, unedited = [body["messages"][-1]["content"] for body in provider.bodies()]
    assert "That call failed, and nothing was done by it. The task was: Look for a.txt" in failed
    assert "That was the result. The task was: Look for a.txt\nIs something of it left to do?" in listed
    assert "That was the result. The task was: Look for a.txt\nBut fs_edit failed before" in unedited


async def test_a_guest_is_reminded_who_it_is(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    provider.reset()
    provider.program({"text": SAY}, {"text": "I am bob."})
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
        await talk.say("ada", "Who are you?", sender, guest="bob")
        assert (await talk.told("ada", sender))[-1] == ("assistant", "bob", "I am bob.")
    asked = provider.bodies()[-1]["messages"][-1]["content"]
    assert asked.startswith("Who are you?\n\n(This is for bob, not for ada.")


READING = {"text": SAY, "progress": [(0, 500), (200, 500), (500, 500)]}


async def test_a_client_sees_how_much_of_the_prompt_was_read(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.reset()
    provider.program(READING)
    async with daemon.client() as talk:
        speech = await talk.say("ada", "hello", sender)
    assert [(event.stage, event.percent) for event in speech.of("preparing")] == [
        ("reading", 0),
        ("reading", 40),
        ("reading", 100),
    ]


@pytest.mark.parametrize("command", ["chat", "ask"])
@pytest.mark.parametrize("columns", [60, 120])
def test_a_person_sees_how_much_of_the_prompt_was_read(
    home: Home, provider: Provider, command: str, columns: int
) -> None:
    # Silent after the second event of progress.
    provider.program({**READING, "stall_after": 3})
    with daemon_thread(home) as daemon:
        arguments = ["ask", "ada", "hello"] if command == "ask" else ["chat", "ada"]
        with terminal(home, *arguments, columns=columns) as person:
            if command == "chat":
                person.type("hello\n")
            person.wait_on_screen("eading the prompt 40 %")
            daemon.cli("kill", "ada")
            person.wait_for("killed")
