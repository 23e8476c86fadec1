"""Masks secrets and personal data in prompts and restores placeholders in answers. Wraps every model.

While there is nothing to hide, the model's own events are passed through unchanged.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from moot.domain.errors import ModelError
from moot.domain.masks import map_json_strings, map_strings
from moot.domain.message import Message, Thinking, ToolCall
from moot.domain.ports.masks import Masks, UnmaskedText
from moot.domain.ports.model import CallReady, Model, ModelEvent, Retrying, TextDelta, ThinkingDelta, ThinkingDone
from moot.domain.prompt import Prompt, ToolSpec, Transcript
from moot.models.wrapped import ModelWrapper

# Names and ids allow only certain characters.
_HIDDEN_NAME = "hidden_secret"
_MOST_KEPT = 1_024
_SPOKEN = (TextDelta, ThinkingDelta)


class PromptMasker:
    """Masks prompts. Each message of a growing transcript is masked once, so that its encodings stay valid."""

    def __init__(self, masks: Masks) -> None:
        self.masks = masks
        self._masked: WeakKeyDictionary[Transcript, _MaskedTranscript] = WeakKeyDictionary()
        self._edition = 0
        # Instructions and tools are the same in every request.
        self._texts: dict[str, str] = {}
        self._tools: dict[int, tuple[ToolSpec, ToolSpec]] = {}

    def over(self, model: Model) -> Model:
        return MaskedModel(model, self)

    def prompt(self, prompt: Prompt) -> tuple[Prompt, dict[str, str]]:
        """Return the masked prompt, and the values of the placeholders in it."""
        edition = self.masks.edition
        if edition != self._edition or len(self._texts) + len(self._tools) > _MOST_KEPT:
            self._edition = edition
            self._texts.clear()
            self._tools.clear()
        masked_transcript = self._mask_transcript(prompt.transcript, edition)
        known = dict(masked_transcript.known)
        system = tuple(self.masks.mask_personal(self._mask_fixed(text), known) for text in prompt.system)
        context = tuple(mask_message(message, self.masks, known) for message in prompt.context)
        tail = tuple(mask_message(message, self.masks, known) for message in prompt.tail)
        tools = tuple(map(self._mask_tool, prompt.tools))
        if all(masked is spec for masked, spec in zip(tools, prompt.tools, strict=True)):
            # An adapter identifies the tools it has encoded by the tuple object.
            tools = prompt.tools
        transcript = prompt.transcript if masked_transcript.copy is None else masked_transcript.copy
        masked = replace(prompt, system=system, transcript=transcript, context=context, tail=tail, tools=tools)
        return masked, known

    def _mask_transcript(self, transcript: Transcript, edition: int) -> "_MaskedTranscript":
        cached = self._masked.get(transcript)
        if cached is not None and cached.edition == edition:
            cached.advance(transcript, self.masks)
            return cached
        fresh = _MaskedTranscript(edition)
        fresh.advance(transcript, self.masks)
        if cached is not None:
            fresh.keep_encodings(cached)
        self._masked[transcript] = fresh
        return fresh

    def _mask_fixed(self, text: str) -> str:
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = self.masks.mask_secrets(text)
        return found

    def _mask_tool(self, spec: ToolSpec) -> ToolSpec:
        kept = self._tools.get(id(spec))
        if kept is None:
            described = replace(
                spec,
                description=self.masks.mask_secrets(spec.description),
                parameters=map_strings(spec.parameters, self.masks.mask_secrets),
            )
            # The spec is kept too, so that its id() cannot be reused by another object.
            kept = self._tools[id(spec)] = (spec, spec if described == spec else described)
        return kept[1]


class _MaskedTranscript:
    """The masked form of a transcript: `copy` is None until a message has something to hide."""

    __slots__ = ("copy", "count", "edition", "known")

    def __init__(self, edition: int) -> None:
        self.edition = edition
        self.count = 0
        self.known: dict[str, str] = {}
        self.copy: Transcript | None = None

    def advance(self, transcript: Transcript, masks: Masks) -> None:
        messages = transcript.messages
        for message in messages[self.count :]:
            masked = mask_message(message, masks, self.known)
            if self.copy is None and masked is not message:
                self.copy = Transcript(messages[: self.count])
            if self.copy is not None:
                self.copy.extend((masked,))
            self.count += 1
        if self.copy is not None:
            self.copy.newest_message = transcript.newest_message

    def keep_encodings(self, earlier: "_MaskedTranscript") -> None:
        """Keep the earlier copy and its encodings if the new masks give the same result."""
        if self.copy is not None and earlier.copy is not None and self.copy.messages == earlier.copy.messages:
            self.copy = earlier.copy


def mask_message(message: Message, masks: Masks, known: dict[str, str]) -> Message:
    """Return the masked message; the same object if nothing is hidden."""

    def hide(text: str) -> str:
        return masks.mask_personal(masks.mask_secrets(text), known)

    content = hide(message.content)
    calls = tuple(_replace_arguments(call, map_json_strings(call.arguments, hide)) for call in message.tool_calls)
    thinking = tuple(_mask_thinking(thought, masks) for thought in message.thinking)
    if content == message.content and calls == message.tool_calls and thinking == message.thinking:
        return message
    return replace(message, content=content, tool_calls=calls, thinking=thinking)


def _replace_arguments(call: ToolCall, arguments: str) -> ToolCall:
    return call if arguments == call.arguments else replace(call, arguments=arguments)


def _mask_thinking(thought: Thinking, masks: Masks) -> Thinking:
    """Mask thinking. The signature is valid only for the original text, so changed text is sent without it."""
    text = masks.mask_secrets(thought.text)
    return thought if text == thought.text else Thinking(text=text)


class MaskedModel(ModelWrapper[Model]):
    """A model that is sent masked prompts, and whose answers are unmasked."""

    def __init__(self, inner: Model, masker: PromptMasker) -> None:
        super().__init__(inner)
        self._masker = masker
        # The last prompt passed to `mask_prompt`; it is usually about to be sent.
        self._masked: tuple[Prompt, Prompt, dict[str, str]] | None = None

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        if not self._masker.masks.edition:
            return prompt
        self._masked = (prompt, *self._masker.prompt(prompt))
        return self._masked[1]

    def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        masks = self._masker.masks
        masked, self._masked = self._masked, None
        if masked is None or masked[0] is not prompt:
            if not masks.edition:
                return self.inner.stream(prompt)
            masked = (prompt, *self._masker.prompt(prompt))
        return _unmask_events(self.inner.stream(masked[1]), _EventUnmasker(masks, masked[2]))


async def _unmask_events(
    events: AsyncGenerator[ModelEvent, None], unmasker: "_EventUnmasker"
) -> AsyncGenerator[ModelEvent, None]:
    try:
        async with aclosing(events):
            async for event in events:
                for unmasked in unmasker.take(event):
                    yield unmasked
    except ModelError as error:
        for held in unmasker.rest():
            yield held
        error.message, error.fix = unmasker.whole(error.message), unmasker.whole(error.fix)
        error.args = (error.message,)
        raise


class _EventUnmasker:
    """Restores placeholders and redacts secrets in the events of one answer. Held-back text precedes later events."""

    def __init__(self, masks: Masks, known: dict[str, str]) -> None:
        self._masks = masks
        self._known = known
        self._kind: type[TextDelta] | type[ThinkingDelta] = TextDelta
        self._text: UnmaskedText = masks.unmask_stream(known)

    def take(self, event: ModelEvent) -> list[ModelEvent]:
        if not isinstance(event, _SPOKEN):
            return [*self.rest(), self._unmask_event(event)]
        kind = type(event)
        before = self.rest() if kind is not self._kind else []
        self._kind = kind
        text = self._text.feed(event.text)
        if text == event.text:
            return [*before, event]
        return [*before, kind(text)] if text else before

    def rest(self) -> list[ModelEvent]:
        text = self._text.rest()
        return [self._kind(text)] if text else []

    def whole(self, text: str) -> str:
        return self._masks.unmask(text, self._known)

    def _unmask_event(self, event: ModelEvent) -> ModelEvent:
        if isinstance(event, CallReady):
            call = replace(
                event.call,
                id=self._unmask_name(event.call.id),
                name=self._unmask_name(event.call.name),
                arguments=map_json_strings(event.call.arguments, self.whole),
            )
            return CallReady(call, self.whole(event.flaw))
        if isinstance(event, ThinkingDone):
            thought = event.thinking
            if thought.signature:
                return ThinkingDone(_mask_thinking(thought, self._masks))
            return ThinkingDone(replace(thought, text=self.whole(thought.text)))
        if isinstance(event, Retrying):
            return replace(event, reason=self.whole(event.reason))
        return event

    def _unmask_name(self, name: str) -> str:
        return name if self._masks.mask_secrets(name) == name else _HIDDEN_NAME
