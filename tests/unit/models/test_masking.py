"""A model is told masks and heard without them, and what was encoded of a transcript stays good."""

import asyncio
import gc
import json
from collections.abc import AsyncGenerator

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.message import Message, Role, Thinking, ToolCall, assistant, tool_result, user
from moot.domain.ports.model import (
    CallReady,
    Finished,
    ModelEvent,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ThinkingDone,
    ToolSupport,
)
from moot.domain.prompt import Prompt, ToolSpec, Transcript
from moot.domain.usage import Usage
from moot.models.masking import PromptMasker
from moot.redaction.masks import ModelMasks
from moot.redaction.redactor import Redactor

SECRET = "zq-9f8e7d6c5b4a"
MAIL = "ada@example.org"


class Recording:
    """A model that keeps what it is told and says what it was given to say."""

    name = provider = model = "recording"
    window = 1000
    window_is_assumed = False
    tools = ToolSupport.NATIVE

    def __init__(self) -> None:
        self.told: list[Prompt] = []
        self.says: list[ModelEvent | ModelError] = [Finished(None)]
        self.given: AsyncGenerator[ModelEvent, None] | None = None

    def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        self.told.append(prompt)
        self.given = self._events()
        return self.given

    async def find_window(self) -> None:
        raise AssertionError("the window is known")

    async def _events(self) -> AsyncGenerator[ModelEvent, None]:
        for event in self.says:
            if isinstance(event, ModelError):
                raise event
            yield event

    @property
    def config(self) -> ModelConfig:
        return ModelConfig(name=self.name, provider=self.provider)

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        return prompt

    def cost(self, usage: Usage) -> float:
        return 0.0

    async def has_price(self) -> bool:
        return True

    async def close(self) -> None: ...


class Rig:
    def __init__(self, *, personal: bool = False) -> None:
        self.redactor = Redactor()
        self.personal = personal
        self.masks = ModelMasks(self.redactor, wanted=lambda: self.personal, key=lambda: b"key")
        self.masker = PromptMasker(self.masks)
        self.inner = Recording()
        self.model = self.masker.over(self.inner)

    def ask(self, prompt: Prompt) -> list[ModelEvent]:
        async def listen() -> list[ModelEvent]:
            return [event async for event in self.model.stream(prompt)]

        return asyncio.run(listen())

    def placeholder(self, value: str) -> str:
        return self.masks.mask_personal(value, {})


def prompt(*messages: Message, system: tuple[str, ...] = (), **more: object) -> Prompt:
    return Prompt(system=system, transcript=Transcript(messages), **more)  # type: ignore[arg-type]


def test_with_nothing_to_hide_the_prompt_and_the_events_are_the_models_own() -> None:
    rig = Rig()
    asked = prompt(user(f"{SECRET} {MAIL}"))
    stream = rig.model.stream(asked)
    assert rig.inner.told == [asked]
    assert rig.inner.told[0] is asked
    assert stream is rig.inner.given


def test_a_secret_is_masked_everywhere_in_a_prompt() -> None:
    rig = Rig()
    rig.redactor.register("api", SECRET)
    call = ToolCall(id="call_1", name="exec", arguments=json.dumps({"command": f"echo {SECRET}\n"}))
    escaped = ToolCall(id="call_2", name="exec", arguments='{"command": "\\u007aq-9f8e7d6c5b4a"}')
    spec = ToolSpec(name="t", description=f"uses {SECRET}", parameters={"properties": {"a": {"default": SECRET}}})
    rig.ask(
        prompt(
            user(f"it is {SECRET}"),
            Message(
                role=Role.ASSISTANT,
                content="",
                tool_calls=(call, escaped),
                thinking=(Thinking(text=f"hm {SECRET}", signature="signed"), Thinking(text="ok", signature="signed")),
            ),
            tool_result("call_1", f"{SECRET}\n"),
            system=(f"You know {SECRET}.",),
            tail=(assistant(f"or {SECRET}"),),
            tools=(spec,),
        )
    )
    (told,) = rig.inner.told
    assert SECRET not in repr(told)
    asked, made, result = told.transcript.messages
    assert asked.content == "it is [SECRET:api]"
    assert [json.loads(each.arguments)["command"] for each in made.tool_calls] == [
        "echo [SECRET:api]\n",
        "[SECRET:api]",
    ]
    # A signature vouches for words that are no longer there.
    assert made.thinking == (Thinking(text="hm [SECRET:api]"), Thinking(text="ok", signature="signed"))
    assert result.content == "[SECRET:api]\n"
    assert (told.system, told.tail[0].content) == (("You know [SECRET:api].",), "or [SECRET:api]")
    assert told.tools[0].description == "uses [SECRET:api]"


def test_a_secret_that_was_said_before_it_was_kept_is_masked_from_then_on() -> None:
    rig = Rig()
    asked = prompt(user(f"my key is {SECRET}"))
    rig.ask(asked)
    rig.redactor.register("api", SECRET)
    rig.ask(asked)
    assert SECRET in rig.inner.told[0].transcript.messages[0].content
    assert rig.inner.told[1].transcript.messages[0].content == "my key is [SECRET:api]"


def test_a_transcript_with_nothing_to_hide_is_handed_on_itself() -> None:
    rig = Rig(personal=True)
    rig.redactor.register("api", SECRET)
    spec = ToolSpec(name="t", description="d", parameters={})
    asked = prompt(user("hello"), system=("Be kind.",), tools=(spec,))
    rig.ask(asked)
    (told,) = rig.inner.told
    assert told.transcript is asked.transcript
    assert told.tools is asked.tools


def test_a_masked_transcript_grows_and_keeps_what_was_encoded_of_it() -> None:
    rig = Rig()
    rig.redactor.register("api", SECRET)
    asked = prompt(user("hello"), user(f"it is {SECRET}"))
    rig.ask(asked)
    asked.transcript.extend([assistant("Thank you."), user("bye")])
    rig.ask(asked)
    rig.redactor.register("other", "quite-another-value")
    rig.ask(asked)
    first, second, third = (told.transcript for told in rig.inner.told)
    assert first is second is third
    assert [message.content for message in third.messages] == ["hello", "it is [SECRET:api]", "Thank you.", "bye"]


def test_nothing_of_a_transcript_is_kept_once_it_is_gone() -> None:
    rig = Rig(personal=True)
    rig.ask(prompt(user(f"write to {MAIL}")))
    rig.inner.told.clear()
    gc.collect()
    assert len(rig.masker._masked) == 0


def test_personal_data_is_told_as_placeholders_and_heard_as_what_it_is() -> None:
    rig = Rig(personal=True)
    held = rig.placeholder(MAIL)
    rig.inner.says = [
        ThinkingDelta(f"to {held[:4]}"),
        ThinkingDelta(f"{held[4:]}?"),
        ThinkingDone(Thinking(text=f"to {held}?")),
        TextDelta("Writing to [EM"),
        TextDelta(held[3:-1]),
        TextDelta(held[-1] + " now [E"),
        CallReady(ToolCall(id="call_12345678", name="send", arguments=json.dumps({"to": [held], held: "x\n"}))),
        Finished(None),
    ]
    events = rig.ask(prompt(user(f"write to {MAIL}"), system=("I am root@example.org.",)))
    (told,) = rig.inner.told
    assert told.transcript.messages[0].content == f"write to {held}"
    assert "root@example.org" not in told.system[0]
    assert events[:3] == [
        ThinkingDelta("to "),
        ThinkingDelta(f"{MAIL}?"),
        ThinkingDone(Thinking(text=f"to {MAIL}?")),
    ]
    assert events[3:-2] == [TextDelta("Writing to "), TextDelta(f"{MAIL} now "), TextDelta("[E")]
    made = events[-2]
    assert isinstance(made, CallReady)
    assert json.loads(made.call.arguments) == {"to": [MAIL], MAIL: "x\n"}


def test_a_signed_thought_is_kept_as_its_model_wrote_it() -> None:
    rig = Rig(personal=True)
    thought = Thinking(text=f"to {rig.placeholder(MAIL)}", signature="signed")
    rig.inner.says = [ThinkingDone(thought), Finished(None)]
    assert rig.ask(prompt(user(MAIL)))[0] == ThinkingDone(thought)


def test_arguments_with_personal_data_stay_json_whatever_stands_before_it() -> None:
    rig = Rig(personal=True)
    call = ToolCall(id="call_1", name="send", arguments=json.dumps({"text": f"\n{MAIL}\t{MAIL}"}))
    rig.ask(prompt(user("go"), assistant("", tool_calls=(call,))))
    (told,) = rig.inner.told
    held = rig.placeholder(MAIL)
    assert json.loads(told.transcript.messages[1].tool_calls[0].arguments) == {"text": f"\n{held}\t{held}"}


def test_placeholders_are_the_same_for_another_daemon_with_the_same_key() -> None:
    told = []
    for _ in range(2):
        rig = Rig(personal=True)
        rig.ask(prompt(user(f"{MAIL} or bob@example.org"), assistant(f"{MAIL}, yes"), system=("bob@example.org",)))
        told.append(repr(rig.inner.told[0].transcript.messages) + repr(rig.inner.told[0].system))
    assert told[0] == told[1]


def test_what_a_model_says_of_a_secret_is_masked_however_it_is_cut() -> None:
    rig = Rig()
    rig.redactor.register("api", SECRET)
    rig.inner.says = [
        Retrying(1, 0.1, f"refused {SECRET}"),
        *(TextDelta(each) for each in f"It is {SECRET}."),
        CallReady(ToolCall(id=SECRET, name=SECRET, arguments='{"a": "\\u007aq-9f8e7d6c5b4a"}'), f"bad {SECRET}"),
        ModelError(f"said {SECRET}", fix=f"not {SECRET}"),
    ]
    heard: list[ModelEvent] = []

    async def listen() -> str:
        try:
            async for event in rig.model.stream(prompt(user("?"))):
                heard.append(event)  # noqa: PERF401  what came before a failure is kept
        except ModelError as error:
            return f"{error.message} {error.fix} {error}"
        return ""

    told = asyncio.run(listen())
    assert SECRET not in repr(heard) + told
    assert "".join(event.text for event in heard if isinstance(event, TextDelta)) == "It is [SECRET:api]."
    assert told.count("[SECRET:api]") >= 2
