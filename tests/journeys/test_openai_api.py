"""Any OpenAI client can talk to an agent: the shapes are OpenAI's, the history is ours."""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from moot.domain.errors import NotFound
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests.daemon_process import LiveDaemon, eventually
from tests.raw_client import http_address

CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
http = "127.0.0.1:0"
tcp = "off"
[security.interceptor]
sensitive_tools = ["set_title"]
"""

SCRIPT = """
[[rule]]
match = "fail"
error = "the model is on fire"

[[rule]]
match = "question"
calls = [{ name = "ask_user", arguments = { questions = [
  { question = "Which colour?", options = [{ label = "red", description = "warm" }, { label = "blue" }] } ] } }]
after_tool = "You chose {result}."

[[rule]]
match = "edit it"
calls = [{ name = "fs_edit", arguments = { path = "missing.txt", oldText = "a", newText = "b" } }]
after_tool = "Edited."

[[rule]]
match = "teleport it"
calls = [{ name = "fs_teleport", arguments = {} }]
after_tool = "Teleported."

[[rule]]
match = "name it"
calls = [{ name = "set_title", arguments = { title = "Boats" } }]
after_tool = "Named."

[[rule]]
match = "think"
thinking = "hm hm"
reply = "I thought."

[[rule]]
match = "empty"
empty = true

[[rule]]
match = "slowly"
token_seconds = 0.1
reply = "one two three four five six seven eight nine ten"

[[rule]]
reply = "You said: {user}"
usage = { prompt = 10, completion = 3, cache_hit = 4, reasoning = 1 }
"""

NOTE = "server; only the last user message was appended"


@dataclass
class Chat:
    """One token's way to the completions endpoint, as one sender."""

    client: aiohttp.ClientSession
    url: str
    token: str
    user: str
    daemon: LiveDaemon

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def body(self, text: str, **more: Any) -> dict[str, Any]:
        return {"model": "ada", "user": self.user, "messages": [{"role": "user", "content": text}], **more}

    async def post(self, body: Any, **headers: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        async with self.client.post(
            f"{self.url}/v1/chat/completions",
            headers=self.headers | {"Content-Type": "application/json"} | headers,
            data=io.BytesIO(json.dumps(body).encode()),
        ) as response:
            return response.status, await response.json(), dict(response.headers)

    async def say(self, text: str, **more: Any) -> str:
        status, body, _ = await self.post(self.body(text, **more))
        assert status == 200, body
        return str(body["choices"][0]["message"]["content"])

    async def stream(self, text: str, **more: Any) -> list[dict[str, Any]]:
        """The chunks of a streamed answer; that it is framed as OpenAI frames it is checked on the way."""
        async with self.client.post(
            f"{self.url}/v1/chat/completions", headers=self.headers, json=self.body(text, stream=True, **more)
        ) as response:
            assert response.status == 200, await response.text()
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert response.headers["x-moot-history"] == NOTE
            events = (await response.text()).split("\n\n")
        assert events.pop() == ""
        assert events.pop() == "data: [DONE]"
        data = [event for event in events if not event.startswith(":")]
        assert all(event.startswith("data: ") and "\n" not in event for event in data)
        return [json.loads(event.removeprefix("data: ")) for event in data]

    async def history(self) -> list[tuple[str, str, str]]:
        async with self.daemon.client() as talk:
            return list(await talk.told("ada", self.user))


@asynccontextmanager
async def chatting(daemon: LiveDaemon, user: str) -> AsyncIterator[Chat]:
    async with aiohttp.ClientSession() as client:
        yield Chat(client, http_address(daemon), _token(daemon), user, daemon)


def _token(daemon: LiveDaemon) -> str:
    """One token for the module; it may use the senders of the tests."""
    path = daemon.home.path / "token-of-the-tests"
    if not path.exists():
        made = daemon.cli_json("tokens", "new", "bot", "--sender", "test:*")
        path.write_text(made["data"]["token"])
    return path.read_text()


async def test_an_answer_has_openais_shape_and_says_where_the_history_is(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        status, body, headers = await chat.post(chat.body("hello"))

        assert status == 200
        assert headers["x-moot-history"] == NOTE
        assert re.fullmatch(r"chatcmpl-[0-9a-f]{24}", body.pop("id"))
        assert isinstance(body.pop("created"), int)
        assert body == {
            "object": "chat.completion",
            "model": "ada",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "You said: hello", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 3,
                "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        }


async def test_a_stream_is_chunks_then_a_reason_then_usage_then_done(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        chunks = await chat.stream("hello", stream_options={"include_usage": True})

        assert len({(chunk.pop("id"), chunk.pop("created")) for chunk in chunks}) == 1
        for chunk in chunks:
            assert (chunk.pop("object"), chunk.pop("model")) == ("chat.completion.chunk", "ada")
        usage = chunks.pop()
        assert usage["choices"] == []
        assert usage["usage"]["total_tokens"] == 13
        choices = [chunk["choices"][0] for chunk in chunks]
        assert all(set(choice) == {"index", "delta", "logprobs", "finish_reason"} for choice in choices)
        assert choices[0]["delta"] == {"role": "assistant", "content": ""}
        assert choices[-1] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
        assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
        assert "".join(choice["delta"]["content"] for choice in choices[:-1]) == "You said: hello"


async def test_usage_comes_only_when_asked_for(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        assert all("usage" not in chunk for chunk in await chat.stream("hello"))


async def test_words_arrive_while_the_agent_still_speaks(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        body = chat.body("slowly", stream=True)
        async with chat.client.post(f"{chat.url}/v1/chat/completions", headers=chat.headers, json=body) as response:
            async for line in response.content:
                if b'"content":"one' in line:
                    break
            async with daemon.client() as talk:
                assert [each.sender for each in await talk.active(sender=sender)] == [sender]
            assert b"[DONE]" in await response.content.read()


async def test_only_the_last_user_message_is_appended(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        await chat.say("first")
        resent = [
            {"role": "system", "content": "You are somebody else."},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "something it never said"},
            {"role": "user", "content": [{"type": "text", "text": "second"}, {"type": "text", "text": "part"}]},
            {"role": "assistant", "content": "a beginning to go on from"},
        ]
        status, _, _ = await chat.post(chat.body("", messages=resent))

        assert status == 200
        assert await chat.history() == [
            ("user", "", "first"),
            ("assistant", "", "You said: first"),
            ("user", "", "second\npart"),
            ("assistant", "", "You said: second\npart"),
        ]


async def test_without_a_user_the_sender_is_the_tokens_name(daemon: LiveDaemon) -> None:
    async with chatting(daemon, "bot") as chat:
        status, _, _ = await chat.post(chat.body("nobody in particular", user=None))
        assert status == 200
        assert ("user", "", "nobody in particular") in await chat.history()


async def test_a_guest_answers_as_itself(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        assert await chat.say("hello", model="ada@bob") == "You said: hello"
        assert await chat.history() == [("user", "", "hello"), ("assistant", "bob", "You said: hello")]


async def test_thinking_is_apart_from_the_answer(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        _, body, _ = await chat.post(chat.body("think"))
        message = body["choices"][0]["message"]
        assert (message["content"], message["reasoning_content"]) == ("I thought.", "hm hm")
        deltas = [chunk["choices"][0]["delta"] for chunk in await chat.stream("think")]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "hm hm"
        assert "".join(delta.get("content", "") for delta in deltas) == "I thought."


async def test_a_question_is_the_answer_and_the_next_message_answers_it(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        assert await chat.say("question me") == "Which colour?\n- red: warm\n- blue"
        assert await chat.say("blue") == "You chose blue."

        asked = await chat.stream("another question")
        assert asked[-1]["choices"][0]["finish_reason"] == "stop"
        told = await chat.stream("red")
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in told) == "You chose red."
        assert [content for role, _, content in await chat.history() if role == "user"] == [
            "question me",
            "another question",
        ]


async def test_a_message_to_a_guest_is_no_answer_to_the_primarys_question(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        assert (await chat.say("a question, please")).startswith("Which colour?")
        _, queued, _ = await chat.post(chat.body("red, bob?", model="ada@bob"))
        assert (queued["moot"]["status"], queued["moot"]["kind"]) == ("queued", "question")
        assert (await talk.history("ada", sender)).queued == ["red, bob?"]
        assert [ask.sender for ask in await talk.asks() if ask.sender == sender] == [sender]
        assert await chat.say("blue") == "You chose blue."
        assert await chat.say("ignored", moot={"run_id": queued["moot"]["run_id"]}) == "You said: red, bob?"
        assert [content for role, _, content in await chat.history() if role == "tool"] == ["blue"]


def attempt(number: int) -> dict[str, str]:
    """The header in which OpenAI's SDKs count how often they have sent a request."""
    return {"x-stainless-retry-count": str(number)}


async def test_a_retry_of_the_sdk_joins_the_turn_that_runs(daemon: LiveDaemon, sender: str) -> None:
    body = {"model": "ada", "user": sender, "messages": [{"role": "user", "content": "slowly"}]}
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        first = asyncio.create_task(chat.post(body, **attempt(0)))

        async def active() -> bool:
            return bool(await talk.active(sender=sender))

        await eventually(active)
        # The client's own time is up.
        first.cancel()
        status, answer, _ = await chat.post(body, **attempt(1))
        assert status == 200
        assert answer["choices"][0]["message"]["content"] == "one two three four five six seven eight nine ten"
        # And the same once it has ended; said anew it is another message.
        assert (await chat.post(body, **attempt(2)))[0] == 200
        assert [content for role, _, content in await chat.history() if role == "user"] == ["slowly"]
        assert (await chat.post(body, **attempt(0)))[0] == 200
        assert [content for role, _, content in await chat.history() if role == "user"] == ["slowly"] * 2


async def test_a_retry_of_another_body_is_another_message(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        await chat.post(chat.body("hello"), **attempt(0))
        # Its first attempt never came.
        await chat.post(chat.body("hello", temperature=0.5), **attempt(1))
        assert [content for role, _, content in await chat.history() if role == "user"] == ["hello"] * 2


async def test_a_retry_of_a_question_and_of_its_answer_join_the_turn_too(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        question, answer = chat.body("a question, please"), chat.body("blue")
        for number in range(2):
            _, asked, _ = await chat.post(question, **attempt(number))
            assert asked["choices"][0]["message"]["content"].startswith("Which colour?")
        for number in range(2):
            _, answered, _ = await chat.post(answer, **attempt(number))
            assert answered["choices"][0]["message"]["content"].endswith("You chose blue.")
        said = [content for role, _, content in await chat.history() if role in ("user", "tool")]
        assert said == ["a question, please", "blue"]


async def test_a_run_that_waits_for_an_approval_is_answered_with_that_state(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        status, first, _ = await chat.post(chat.body("name it"), **{"Idempotency-Key": "name"})
        assert status == 200
        (choice,), state = first["choices"], first["moot"]
        assert (choice["finish_reason"], state["status"], state["kind"]) == ("stop", "waiting_for_approval", "approval")
        assert (state["tool"], state["attempt"]) == ("set_title", 1)
        assert f"moot inbox approve {shorten_ask_id(state['ask_id'])}" in choice["message"]["content"]
        assert f'"run_id": "{state["run_id"]}"}} with any user message' in state["how"]
        # Asked for again, by the run or by the key, it still waits; nothing is sent twice.
        later = chat.body("ignored", moot={"run_id": state["run_id"]})
        assert (await chat.post(later))[1]["moot"] == state
        assert (await chat.post(chat.body("name it"), **{"Idempotency-Key": "name"}))[1]["moot"] == state
        # A message behind it is queued and says so; streamed, the state is in the last chunk.
        *_, last = await chat.stream("hello")
        behind = last["moot"]
        assert (behind["status"], behind["ask_id"]) == ("queued", state["ask_id"])
        assert (last["choices"][0]["finish_reason"], behind["run_id"] == state["run_id"]) == ("stop", False)

        await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=state["ask_id"], attempt=1, decision="once"))
        _, answered, _ = await chat.post(later)
        assert (answered["choices"][0]["message"]["content"], "moot" in answered) == ("Named.", False)
        chunks = await chat.stream("ignored", moot={"run_id": behind["run_id"]})
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "You said: hello"
        said = [content for role, _, content in await chat.history() if role == "user"]
        assert said == ["name it", "hello"]


async def test_a_question_says_what_it_is_and_another_tokens_run_cannot_be_read(
    daemon: LiveDaemon, sender: str
) -> None:
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        _, asked, _ = await chat.post(chat.body("a question, please"))
        state = asked["moot"]
        assert (state["status"], state["kind"], state["tool"]) == ("waiting_for_answer", "question", "")
        assert await chat.say("blue") == "You chose blue."
        speech = await talk.say("ada", "hello", "somebody-else")
        foreign = chat.body("x", moot={"run_id": speech.of("start")[0].run_id})
        assert (await chat.post(foreign))[0] == 404


async def test_the_same_idempotency_key_is_one_turn(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        answers = [await chat.post(chat.body("once"), **{"Idempotency-Key": "key-1"}) for _ in range(2)]

        assert [body["choices"][0]["message"]["content"] for _, body, _ in answers] == ["You said: once"] * 2
        assert len(await chat.history()) == 2


async def test_the_same_idempotency_key_is_one_question_and_one_answer_to_it(daemon: LiveDaemon, sender: str) -> None:
    """Sent again, the message does not answer the question it led to, and the answer is no message of its own."""
    async with chatting(daemon, sender) as chat:
        for text, heard in (("a question, please", "Which colour?"), ("blue", "You chose blue.")):
            # One key is the beginning of the other, and still another key.
            key = {"Idempotency-Key": f"key-{text[0]}"}
            for _ in range(2):
                _, body, _ = await chat.post(chat.body(text), **key)
                assert heard in body["choices"][0]["message"]["content"]
        assert [content for role, _, content in await chat.history() if role in ("user", "tool")] == [
            "a question, please", "blue",
        ]  # fmt: skip
        _, other, _ = await chat.post(chat.body("blue"), **{"Idempotency-Key": "key-"})
        assert other["choices"][0]["message"]["content"] == "You said: blue"


async def test_a_failed_run_is_an_error_that_clients_do_not_send_again(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        status, body, headers = await chat.post(chat.body("fail"))

        assert status == 502
        assert headers["x-should-retry"] == "false"
        error = body["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["type"], error["param"], error["code"]) == ("server_error", None, "model_error")
        assert "on fire" in error["message"]

        *_, last = await chat.stream("fail")
        assert last["error"]["code"] == "model_error"


async def test_whether_a_stopped_message_is_in_the_history_is_told(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat, daemon.client() as talk:
        running = asyncio.create_task(chat.post(chat.body("slowly")))
        await eventually(lambda: talk.active(sender=sender))
        waiting = asyncio.create_task(chat.post(chat.body("hello")))

        async def waits() -> bool:
            return bool((await talk.history("ada", sender)).queued)

        await eventually(waits)
        await talk.ask(withdraw=pb.WithdrawMsg(agent="ada", sender=sender))
        await talk.kill("ada", sender)
        for request, end in ((waiting, "not in the history.)"), (running, "kept in the history.)")):
            status, body, _ = await request
            assert (status, body["error"]["message"].endswith(f"(Your message is {end}")) == (409, True), body
        assert await chat.history() == [("user", "", "slowly")]


@pytest.mark.parametrize("request_text", ["edit it", "teleport it"])
async def test_an_answer_of_a_run_that_did_nothing_has_its_state_also_in_a_stream(
    daemon: LiveDaemon, sender: str, request_text: str
) -> None:
    async with chatting(daemon, sender) as chat:
        _, whole, _ = await chat.post(chat.body(request_text))
        assert whole["moot"]["status"] == "tool_error"
        *_, last = await chat.stream(f"{request_text}, please")
        assert (last["moot"]["status"], last["moot"]["error"]) == ("tool_error", whole["moot"]["error"])


async def test_an_agent_with_nothing_to_say_says_nothing(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        assert await chat.say("empty") == ""


async def test_a_client_that_hangs_up_does_not_stop_the_run(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        body = chat.body("slowly", stream=True)
        async with chat.client.post(f"{chat.url}/v1/chat/completions", headers=chat.headers, json=body) as response:
            async for line in response.content:
                if b'"content":"one' in line:
                    break
            response.close()
        async with daemon.client() as talk:
            # On a slow machine it may be over by now.
            with suppress(NotFound):
                await talk.attach("ada", sender).end()
        assert (await chat.history())[-1] == (
            "assistant",
            "",
            "one two three four five six seven eight nine ten",
        )


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"model": "ghost"}, 404, "not_found"),
        ({"model": "ada@ghost"}, 404, "not_found"),
        ({"model": "ada@ada"}, 400, "bad_request"),
        ({"model": ""}, 404, "not_found"),
        ({"model": 5}, 400, "bad_request"),
        ({"user": "somebody-else"}, 403, "forbidden"),
        ({"user": "run:1"}, 400, "bad_request"),
        ({"n": 2}, 400, "bad_request"),
        ({"messages": []}, 400, "bad_request"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "bad_request"),
        ({"messages": [{"role": "user", "content": ""}]}, 400, "bad_request"),
        ({"messages": [{"role": "user", "content": "a\0b"}]}, 400, "bad_request"),
        ({"messages": [{"role": "user", "content": None}]}, 400, "bad_request"),
        ({"messages": [{"role": "user", "content": 5}]}, 400, "bad_request"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            400,
            "bad_request",
        ),
        ({"messages": [{"role": "user", "content": "x" * 2_000_000}]}, 413, "too_large"),
    ],
    ids=range(16),
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_bad_request_is_one_error_and_leaves_nothing(
    daemon: LiveDaemon, sender: str, change: dict[str, Any], status: int, code: str, stream: bool
) -> None:
    user = sender[:60]
    async with chatting(daemon, user) as chat:
        answered, body, _ = await chat.post(chat.body("hi", stream=stream, **{"user": user, **change}))

        assert (answered, body["error"]["code"]) == (status, code)
        assert set(body["error"]) == {"message", "type", "param", "code"}
        async with daemon.client() as talk:
            assert [each for each in await talk.conversations() if each.sender == user] == []


async def test_half_a_surrogate_is_refused(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        text = '{"model": "ada", "messages": [{"role": "user", "content": "\\ud800"}]}'
        async with chat.client.post(
            f"{chat.url}/v1/chat/completions",
            headers=chat.headers | {"Content-Type": "application/json"},
            data=text,
        ) as response:
            assert response.status == 400
            assert (await response.json())["error"]["type"] == "invalid_request_error"


async def test_the_agents_are_the_models(daemon: LiveDaemon, sender: str) -> None:
    async with chatting(daemon, sender) as chat:
        async with chat.client.get(f"{chat.url}/v1/models", headers=chat.headers) as response:
            listed = await response.json()
        model = {"id": "ada", "object": "model", "created": 0, "owned_by": "moot"}
        assert listed["object"] == "list"
        assert model in listed["data"]
        # The navigator has no tools here; the operator has.
        assert {"navigator", "operator"} & {each["id"] for each in listed["data"]} == {"operator"}
        async with chat.client.get(f"{chat.url}/v1/models/ada", headers=chat.headers) as response:
            assert await response.json() == model
        async with chat.client.get(f"{chat.url}/v1/models/ghost", headers=chat.headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")


async def test_an_agent_that_is_not_active_is_no_model(daemon: LiveDaemon, sender: str) -> None:
    path = daemon.home.write_agent("zed")
    path.write_text(path.read_text().replace("---\n", "---\nstatus: draft\n", 1))
    async with chatting(daemon, sender) as chat:
        async with chat.client.get(f"{chat.url}/v1/models", headers=chat.headers) as response:
            assert "zed" not in [each["id"] for each in (await response.json())["data"]]
        async with chat.client.get(f"{chat.url}/v1/models/zed", headers=chat.headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")


async def test_an_agent_whose_file_is_broken_is_unavailable_and_says_what_to_mend(
    daemon: LiveDaemon, sender: str
) -> None:
    path = daemon.home.write_agent("rex")
    good = path.read_text()
    path.write_text(good.replace("---\n", "---\nstatus: sleeping\n", 1))
    async with chatting(daemon, sender) as chat:
        asked = [chat.body("hello", model="rex"), chat.body("hello", model="rex", stream=True)]
        for body in (*asked, chat.body("hello", model="ada@rex")):
            status, answer, headers = await chat.post(body)
            error = answer["error"]
            assert (status, error["type"], error["code"]) == (503, "server_error", "bad_config")
            # A token is told what to correct, not where the owner keeps it.
            assert "(a path of the owner):2: `status` must be one of" in error["message"]
            assert str(path) not in error["message"]
            assert "`moot agents validate`" in error["message"]
            # A file does not mend itself while a client tries again and again.
            assert headers["x-should-retry"] == "false"
        async with chat.client.get(f"{chat.url}/v1/models/rex", headers=chat.headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (503, "bad_config")
        with pytest.raises(NotFound):
            await chat.history()

        path.write_text(good)
        assert await chat.say("hello", model="rex") == "You said: hello"


async def test_names_and_headers_of_any_size_and_kind_are_refused_like_those_of_the_protocol(
    daemon: LiveDaemon, sender: str
) -> None:
    async with chatting(daemon, sender) as chat:
        long = "m" * 200_000
        for body, field in (
            (chat.body("hi", model=long), "agent"),
            (chat.body("hi", model=f"ada@{long}"), "guest"),
            (chat.body("hi", moot={"run_id": long}), "run_id"),
            (chat.body("hi", model="ada\0"), "agent"),
        ):
            status, refused, _ = await chat.post(body)
            assert status in (400, 413)
            assert field in refused["error"]["message"]
            assert len(str(refused)) < 1000
        answer = {"model": "ada", "input": "hi", "previous_response_id": f"resp_{long}"}
        async with chat.client.post(f"{chat.url}/v1/responses", headers=chat.headers, json=answer) as response:
            assert (response.status, len(await response.text()) < 1000) == (413, True)
        # More digits than Python converts.
        status, *_ = await chat.post(chat.body("hi"), **{"x-stainless-retry-count": "9" * 5000})
        assert status == 200
