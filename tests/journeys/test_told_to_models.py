"""What models are told through a running daemon: no secret it holds, and no personal data where that is configured."""

import json
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG
SECRET = "zq-canary-81f0c2d95b7e"
MAIL = "ada.lovelace@example.org"
PHONE = "+49 171 2345678"
WIRES = ("fake", "claude")


def personal(home: Home) -> Home:
    home.write_config((home.path / "config.toml").read_text() + "\n[security.interceptor]\nredact_personal = true\n")
    return home


async def keep(talk: Talking, name: str, value: str) -> None:
    await talk.ask(set_secret=pb.SetSecretMsg(name=name, value=value))


def texts(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False)


def placeholders(text: str) -> list[str]:
    return [f"[{part.split(']')[0]}]" for part in text.split("[")[1:] if part.startswith(("EMAIL_", "PHONE_"))]


@pytest.mark.parametrize("model", WIRES)
async def test_a_secret_is_in_no_request_whether_it_was_said_before_it_was_kept_or_after(
    home: Home, provider: Provider, model: str
) -> None:
    home.write_agent("ada", f"You are Ada. The key is {SECRET}.", model=model)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"before: {SECRET}")
            await keep(talk, "api", SECRET)
            speech = await talk.say("ada", f"after: {SECRET}")
            told = await talk.told("ada")
    first, second = map(texts, provider.bodies())
    assert first.count(SECRET) == 2
    assert SECRET not in second
    assert second.count("[SECRET:api]") == 4
    assert speech.text == "echo: after: [SECRET:api]"
    # What was typed once it was held is nowhere written down.
    assert told[2][2] == "after: [SECRET:api]"
    assert provider.faults() == []


async def test_a_secret_kept_by_an_agent_is_masked_from_the_next_step_on(home: Home, provider: Provider) -> None:
    home.write_config(
        (home.path / "config.toml").read_text() + '\n[security.interceptor]\nexempt_tools = ["secrets_store"]\n'
    )
    store = {"name": "secrets_store", "arguments": {"name": "api", "value": SECRET}}
    provider.program(
        {"calls": [store]}, {"text": "Kept."}, {"calls": [store | {"id": "call_again_1"}]}, {"text": "Oh."}
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"keep {SECRET}")
            again = await talk.say("ada", f"keep {SECRET} again")
    told = [texts(body) for body in provider.bodies()]
    assert SECRET in told[0]
    assert not any(SECRET in each for each in told[1:])
    # A model that is told the mask cannot store it in the place of the secret.
    assert again.of("tool_result")[0].is_error


@pytest.mark.parametrize("model", WIRES)
async def test_personal_data_is_a_placeholder_for_the_model_and_nobody_else(
    home: Home, provider: Provider, model: str
) -> None:
    home.write_agent("ada", "You are Ada, root@example.org.", model=model)
    with daemon_thread(personal(home)) as daemon:
        async with daemon.client() as talk:
            heard = await talk.say("ada", f"write to {MAIL} or {PHONE}")
            mail, phone = placeholders(texts(provider.bodies()[0]["messages"][-1]))
            task = {"name": "task_create", "arguments": {"title": f"call {phone}", "description": f"or\n{mail}"}}
            provider.program({"calls": [task]}, {"tokens": [*f"I wrote to {mail}, not [EMAIL_0]."]})
            said = await talk.say("ada", "do it")
            told = await talk.told("ada")
            calls = [call for entry in (await talk.history("ada")).messages for call in entry.tool_calls]
    for body in map(texts, provider.bodies()):
        assert not any(value in body for value in (MAIL, PHONE, "root@example.org"))
    assert heard.text == f"echo: write to {MAIL} or {PHONE}"
    assert said.text == f"I wrote to {MAIL}, not [EMAIL_0]."
    assert [content for role, _, content in told if role != "tool"] == [
        f"write to {MAIL} or {PHONE}",
        heard.text,
        "do it",
        "",
        said.text,
    ]
    assert json.loads(calls[0].arguments) == {"title": f"call {PHONE}", "description": f"or\n{MAIL}"}
    assert home.query("SELECT title, description FROM tasks") == [(f"call {PHONE}", f"or\n{MAIL}")]
    assert provider.faults() == []


async def test_a_request_begins_as_the_one_before_it_also_after_a_restart(home: Home, provider: Provider) -> None:
    personal(home)
    for turn in range(3):
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", f"turn {turn}: {MAIL} and user{turn}@example.org")
    bodies = provider.bodies()
    for before, after in zip(bodies, bodies[1:], strict=False):
        *earlier, newest = before["messages"]
        assert after["messages"][: len(earlier)] == earlier
        assert newest["content"].startswith(after["messages"][len(earlier)]["content"])
    assert len(set(placeholders(texts(bodies[-1])))) == 4


async def test_a_summary_is_made_of_placeholders_and_kept_without_them(home: Home, provider: Provider) -> None:
    with daemon_thread(personal(home)) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"write to {MAIL}")
            (mail,) = set(placeholders(texts(provider.bodies()[0])))
            provider.program({"text": f"Mail to {mail}. It was wished."})
            await talk.compact("ada")
            (archive,) = await talk.archives("ada")
            await talk.say("ada", "and now?")
    assert archive.summary == f"Mail to {MAIL}. It was wished."
    assert all(MAIL not in texts(body) for body in provider.bodies())
    assert mail in texts(provider.bodies()[-1])


async def test_nobody_is_given_data_for_writing_its_placeholder(home: Home, provider: Provider) -> None:
    with daemon_thread(personal(home)) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"write to {MAIL}")
            (mail,) = set(placeholders(texts(provider.bodies()[0])))
            speech = await talk.say("ada", f"who is {mail}?", "somebody:else")
            # The very conversation that knows it does not tell either.
            own = await talk.say("ada", f"who is {mail}?")
    assert MAIL not in speech.text + own.text


async def test_without_being_asked_to_models_are_told_personal_data(daemon: LiveDaemon, provider: Provider) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", f"write to {MAIL}", "test:plain")
    assert MAIL in texts(provider.bodies()[0])


async def test_notes_are_made_of_placeholders_too(home: Home, provider: Provider) -> None:
    personal(home)
    home.write_config((home.path / "config.toml").read_text() + "\n[memory]\nobserve_every = 2\n")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"write to {MAIL}")

            ((content,),) = await eventually(lambda: home.query("SELECT content FROM notes"))
    assert MAIL in content
    assert len(provider.bodies()) == 2
    assert all(MAIL not in texts(body) for body in provider.bodies())


async def test_a_secret_in_an_imported_conversation_is_masked_before_it_is_stored(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", f"it is {SECRET}", "from")
            jsonl = await talk.export("ada", "from")
            await keep(talk, "api", SECRET)
            await talk.import_(jsonl, agent="ada", sender="into")
            told = await talk.told("ada", "into")
    assert SECRET in jsonl
    assert told[0][2] == "it is [SECRET:api]"
    assert SECRET not in json.dumps(told)
