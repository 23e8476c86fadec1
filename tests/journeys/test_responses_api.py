"""OpenAI's Responses API: a response is a run, and the previous response names the conversation."""

import asyncio
import json
import re
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import LiveDaemon
from tests.journeys.test_openai_api import CONFIG as CHAT_CONFIG
from tests.journeys.test_openai_api import SCRIPT as CHAT_SCRIPT
from tests.journeys.test_openai_api import Chat, chatting

CONFIG, SCRIPT = CHAT_CONFIG, CHAT_SCRIPT


async def create(chat: Chat, text: Any, **more: Any) -> tuple[int, dict[str, Any]]:
    body = {"model": "ada", "input": text, **more}
    async with chat.client.post(f"{chat.url}/v1/responses", headers=chat.headers, json=body) as response:
        return response.status, await response.json()


async def retrieve(chat: Chat, id_: str) -> tuple[int, dict[str, Any]]:
    async with chat.client.get(f"{chat.url}/v1/responses/{id_}", headers=chat.headers) as response:
        return response.status, await response.json()


def text_of(response: dict[str, Any]) -> str:
    (item,) = response["output"]
    return "".join(part["text"] for part in item["content"])


async def stream(chat: Chat, text: str, **more: Any) -> list[dict[str, Any]]:
    body = {"model": "ada", "input": text, "stream": True, "user": chat.user, **more}
    async with chat.client.post(f"{chat.url}/v1/responses", headers=chat.headers, json=body) as response:
        assert response.status == 200, await response.text()
        told = [event for event in (await response.text()).split("\n\n") if event and not event.startswith(":")]
    events = []
    for event in told:
        kind, data = event.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert kind == f"event: {events[-1]['type']}"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


async def test_a_response_continues_the_conversation_of_the_one_before(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        status, first = await create(chat, "hello", user=sender)
        assert (status, first["object"], first["status"], text_of(first)) == (
            200, "response", "completed", "You said: hello",
        )  # fmt: skip
        assert (first["usage"]["input_tokens"], first["usage"]["output_tokens"]) == (10, 3)
        parts = [{"type": "input_text", "text": "again"}]
        messages = [{"role": "user", "content": "hello"}, {"role": "user", "content": parts}]
        _, second = await create(chat, messages, previous_response_id=first["id"])
        assert (text_of(second), second["previous_response_id"]) == ("You said: again", first["id"])
        assert [content for role, _, content in await chat.history() if role == "user"] == ["hello", "again"]
        assert text_of((await retrieve(chat, first["id"]))[1]) == "You said: hello"


async def test_a_streamed_response_has_openais_events(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        events = await stream(chat, "think")
        kinds = list(dict.fromkeys(event["type"].removeprefix("response.") for event in events))
        assert kinds == [
            "created", "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
            "content_part.done", "output_item.done", "completed",
        ]  # fmt: skip
        assert "".join(event.get("delta", "") for event in events) == "I thought."
        done = events[-1]["response"]
        assert (text_of(done), done["id"], done["status"]) == ("I thought.", events[0]["response"]["id"], "completed")
        *_, failed = await stream(chat, "fail")
        assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
        assert "on fire" in failed["response"]["error"]["message"]


async def test_a_response_that_waits_for_a_person_says_so_and_is_read_later(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        _, asked = await create(chat, "a question, please", user=sender)
        assert (asked["status"], asked["moot"]["status"]) == ("completed", "waiting_for_answer")
        _, answered = await create(chat, "blue", previous_response_id=asked["id"])
        assert (text_of(answered), answered["id"]) == ("You chose blue.", asked["id"])

        _, waiting = await create(chat, "name it", user=sender)
        assert (waiting["status"], waiting["moot"]["status"]) == ("in_progress", "waiting_for_approval")
        assert f"then read GET /v1/responses/{waiting['id']} for the answer" in waiting["moot"]["how"]
        assert text_of(waiting).endswith(waiting["moot"]["how"])
        *_, behind = await stream(chat, "hello")
        assert f"read GET /v1/responses/{behind['response']['id']} for" in behind["response"]["moot"]["how"]
        assert (behind["type"], behind["response"]["status"]) == ("response.incomplete", "incomplete")
        assert (behind["response"]["incomplete_details"], behind["response"]["moot"]["status"]) == (
            {"reason": "queued"}, "queued",
        )  # fmt: skip
        assert (await retrieve(chat, waiting["id"]))[1]["moot"] == waiting["moot"]
        decided = pb.DecideAskMsg(ask_id=waiting["moot"]["ask_id"], attempt=1, decision="once")
        await talk.ask(decide_ask=decided)
        assert text_of((await retrieve(chat, waiting["id"]))[1]) == "Named."
        assert text_of((await retrieve(chat, behind["response"]["id"]))[1]) == "You said: hello"


async def test_an_answer_after_a_denial_is_no_plain_one(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        _, waiting = await create(chat, "name it", user=sender)
        await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=waiting["moot"]["ask_id"], attempt=1, decision="deny"))
        _, denied = await retrieve(chat, waiting["id"])
        assert (denied["status"], denied["incomplete_details"]) == ("incomplete", {"reason": "denied"})
        state = {
            "status": "denied",
            "run_id": waiting["moot"]["run_id"],
            "error": "Denied: set_title. Nothing was changed.",
        }
        assert (text_of(denied), denied["moot"]) == ("Named.", state)
        _, answered, _ = await chat.post(chat.body("", moot={"run_id": state["run_id"]}))
        (choice,) = answered["choices"]
        assert (choice["finish_reason"], choice["message"]["content"], answered["moot"]) == ("stop", "Named.", state)


async def test_an_answer_after_a_failed_change_is_no_plain_one(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        _, failed = await create(chat, "edit it", user=sender)
        assert (failed["status"], failed["incomplete_details"]) == ("incomplete", {"reason": "tool_error"})
        assert (text_of(failed), failed["moot"]["error"]) == (
            "Edited.",
            "Failed: fs_edit. No other call changed anything.",
        )


async def test_what_would_have_no_effect_is_refused_and_other_conversations_stay_closed(
    daemon: LiveDaemon, sender: str
) -> None:
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        unsupported: list[dict[str, Any]] = [
            {"temperature": 0.5}, {"tools": []}, {"instructions": "x"}, {"store": False}, {"background": True},
        ]  # fmt: skip
        for more in unsupported:
            status, refused = await create(chat, "hello", user=sender, **more)
            assert (status, refused["error"]["code"]) == (400, "bad_request")
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]
        for wrong in (image, [{"role": "assistant", "content": "x"}], 5):
            assert (await create(chat, wrong, user=sender))[0] == 400
        foreign = f"resp_{(await talk.say('ada', 'hello', 'somebody-else')).of('start')[0].run_id}"
        assert (await retrieve(chat, foreign))[0] == 404
        assert (await create(chat, "hello", previous_response_id=foreign))[0] == 404
        assert (await retrieve(chat, "nothing"))[0] == 404
        _, own = await create(chat, "hello", user=sender)
        assert (await create(chat, "hello", previous_response_id=own["id"], model="bob"))[0] == 400


async def test_openais_own_client_reads_both(daemon: LiveDaemon, sender: str) -> None:
    openai = pytest.importorskip("openai")
    async with chatting(daemon, sender) as chat:

        def talk() -> None:
            client = openai.OpenAI(base_url=f"{chat.url}/v1", api_key=chat.token)
            first = client.responses.create(model="ada", input="hello", user=sender)
            second = client.responses.create(model="ada", input="again", previous_response_id=first.id)
            assert (second.output_text, client.responses.retrieve(first.id).output_text) == (
                "You said: again", "You said: hello",
            )  # fmt: skip
            with client.responses.stream(model="ada", input="think", user=sender) as events:
                assert events.get_final_response().output_text == "I thought."
            messages = [{"role": "user", "content": "name it"}]
            waiting = client.chat.completions.create(model="ada", user=sender, messages=messages)
            assert waiting.moot["status"] == "waiting_for_approval"
            assert (
                f'then send "moot": {{"run_id": "{waiting.moot["run_id"]}"}} with any user message for'
                in waiting.moot["how"]
            )
            # What it says is what the client then does.
            named = client.responses.create(model="ada", input="name it", user=f"{sender}:named")
            (path,) = re.findall(r"GET /v1/responses/(\S+)", named.output_text)
            assert client.responses.retrieve(path).moot == named.moot
            for text in ("name it again", "name it"):
                *_, last = client.responses.create(model="ada", input=text, user=f"{sender}:stream", stream=True)
                assert (last.type, last.response.status) == ("response.incomplete", "incomplete")
                assert last.response.incomplete_details.reason == last.response.moot["status"]
            assert client.responses.retrieve(last.response.id).status == "queued"

        await asyncio.to_thread(talk)
