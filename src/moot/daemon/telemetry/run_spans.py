"""RunSpans: makes OpenTelemetry spans of runs, model requests and tool calls from the events of the bus.

A run is the parent of its requests and calls; a teammate is a child of the call that spawned it. span_export.py
sends the spans. Built only if [telemetry] is enabled.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from moot.daemon.telemetry import span_names as names
from moot.daemon.telemetry.labels import describe_kind, describe_mail_sender, describe_outcome
from moot.daemon.telemetry.span_content import SpanContent
from moot.domain.conversation import ConversationKey
from moot.domain.events import (
    Event,
    EventSource,
    MailRead,
    MailSent,
    RunEnded,
    RunSpawned,
    RunStarted,
    ToolFinished,
    ToolsStarted,
    make_event_source,
)
from moot.domain.run import Outcome
from moot.domain.text import clean
from moot.domain.usage import Usage
from moot.engine.bus import Bus
from moot.models.observed import ModelCall

K = TypeVar("K")

# The most open spans of each kind; the oldest are dropped. A run that could not be stored has no end.
_MAX_OPEN = 4_096
# A model may invent names of tools.
_LONGEST_NAME = 100
# Outcomes that are not errors.
_FINE = frozenset({Outcome.COMPLETED, Outcome.ESCALATED, Outcome.CANCELLED})


class RunSpans:
    def __init__(self, bus: Bus, tracer: Tracer, content: SpanContent | None) -> None:
        self._tracer = tracer
        self._content = content
        # By run id, by (run id, call id), and by model call.
        self._runs: OrderedDict[str, Span] = OrderedDict()
        self._calls: OrderedDict[tuple[str, str], Span] = OrderedDict()
        self._requests: OrderedDict[int, Span] = OrderedDict()
        # The call that spawned a run which has not begun.
        self._spawning: OrderedDict[str, Span] = OrderedDict()
        bus.observe(self._read, RunSpawned, RunStarted, ToolsStarted, ToolFinished, RunEnded)
        bus.observe(self._add_mail, MailSent, MailRead)

    # ---- events -------------------------------------------------------------------------------

    def _read(self, event: Event) -> None:
        source = event.source
        match event.body:
            case RunSpawned(call_id=call_id):
                if (call := self._calls.get((source.parent_id, call_id))) is not None:
                    _keep(self._spawning, source.run_id, call)
            case RunStarted():
                self._open_run(source, event.at)
            case ToolsStarted() as body:
                for made in body.calls:
                    self._open_call(source, made.id, made.name, made.arguments, event.at)
            case ToolFinished() as body:
                self._end_call(source, body, event.at)
            case RunEnded() as body:
                self._end_run(source, body, event.at)
            case _:
                return

    def _add_mail(self, event: Event) -> None:
        """Add an event to the span of the run that sends or reads mail. A person who sends mail has no run."""
        span = self._runs.get(event.source.run_id)
        if span is None or not isinstance(event.body, MailSent | MailRead):
            return
        mail = event.body.mail
        attributes: dict[str, AttributeValue] = {
            names.MAIL_ID: mail.id,
            names.MAIL_FROM: describe_mail_sender(mail)[:_LONGEST_NAME],
            names.MAIL_TO: clean(mail.to_agent)[:_LONGEST_NAME],
            names.MAIL_SIZE: len(mail.body.encode()),
        }
        is_read = isinstance(event.body, MailRead)
        if is_read:
            attributes[names.MAIL_WAIT] = max(0.0, event.at - mail.sent_at)
        name = names.MAIL_READ if is_read else names.MAIL_SENT
        span.add_event(name, attributes, timestamp=int(event.at * 1e9))

    def _open_run(self, source: EventSource, at: float) -> Span:
        """Return the span of the run, opened if it is not open: its first request may begin before it is stored."""
        span = self._runs.get(source.run_id)
        if span is not None:
            return span
        parent = self._spawning.pop(source.run_id, None) or self._runs.get(source.parent_id)
        agent = clean(source.speaker)[:_LONGEST_NAME]
        attributes: dict[str, AttributeValue] = {
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT_NAME: agent,
            names.CONVERSATION_ID: _digest(source.key),
            names.RUN_ID: source.run_id,
            names.RUN_KIND: describe_kind(source),
            names.GUEST: source.speaker != source.key.agent,
        }
        if source.parent_id:
            attributes[names.PARENT_RUN_ID] = source.parent_id
        span = self._start(f"{names.INVOKE_AGENT} {agent}", SpanKind.INTERNAL, parent, attributes, at)
        _keep(self._runs, source.run_id, span)
        return span

    def _end_run(self, source: EventSource, body: RunEnded, at: float) -> None:
        end = body.end
        span = self._open_run(source, at - max(0.0, end.seconds))
        del self._runs[source.run_id]
        for key in [each for each in self._calls if each[0] == source.run_id]:
            self._end(self._calls.pop(key), at, error=str(end.outcome))
        span.set_attributes({names.OUTCOME: str(end.outcome), **_describe_usage(end.usage)})
        if end.model:
            span.set_attributes({names.PROVIDER_NAME: end.provider, names.REQUEST_MODEL: end.model})
        if end.cost:
            span.set_attribute(names.COST, end.cost)
        self._end(span, at, error="" if end.outcome in _FINE else str(end.outcome))

    def _open_call(self, source: EventSource, call_id: str, name: str, arguments: str, at: float) -> None:
        tool = clean(name)[:_LONGEST_NAME]
        attributes: dict[str, AttributeValue] = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: tool,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL_ID: call_id,
            names.RUN_ID: source.run_id,
        }
        if self._content is not None:
            attributes[names.TOOL_ARGUMENTS] = self._content.render_text(arguments)
        parent = self._runs.get(source.run_id)
        span = self._start(f"{names.EXECUTE_TOOL} {tool}", SpanKind.INTERNAL, parent, attributes, at)
        _keep(self._calls, (source.run_id, call_id), span)

    def _end_call(self, source: EventSource, body: ToolFinished, at: float) -> None:
        span = self._calls.pop((source.run_id, body.call_id), None)
        if span is None:
            return
        if self._content is not None:
            span.set_attribute(names.TOOL_RESULT, self._content.render_text(body.output))
        self._end(span, at, error="tool_error" if body.is_error else "")

    # ---- model requests -----------------------------------------------------------------------

    def on_call_started(self, call: ModelCall) -> None:
        model = call.model
        attributes: dict[str, AttributeValue] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER_NAME: model.provider,
            names.REQUEST_MODEL: model.model,
            names.AGENT_NAME: clean(call.run.speaker)[:_LONGEST_NAME],
            names.RUN_ID: call.run.id,
        }
        if call.prompt.max_tokens:
            attributes[names.REQUEST_MAX_TOKENS] = call.prompt.max_tokens
        parent = self._open_run(make_event_source(call.run), call.started_at)
        span = self._start(f"{names.CHAT} {model.model}", SpanKind.CLIENT, parent, attributes, call.started_at)
        _keep(self._requests, id(call), span)

    def on_call_ended(self, call: ModelCall) -> None:
        span = self._requests.pop(id(call), None)
        if span is None:
            return
        if call.usage is not None:
            span.set_attributes(_describe_usage(call.usage))
        if call.first_token_seconds is not None:
            span.set_attribute(names.FIRST_CHUNK_SECONDS, call.first_token_seconds)
        if call.retries:
            span.set_attribute(names.RETRIES, call.retries)
        if call.error is None:
            reason = "length" if call.truncated else "tool_calls" if call.calls else "stop"
            span.set_attribute(names.FINISH_REASONS, (reason,))
        if self._content is not None:
            span.set_attribute(names.SYSTEM_INSTRUCTIONS, self._content.render_system(call))
            span.set_attribute(names.INPUT_MESSAGES, self._content.render_input(call))
            span.set_attribute(names.OUTPUT_MESSAGES, self._content.render_output(call))
        outcome = describe_outcome(call.error)
        error = type(call.error).__name__ if outcome == "error" else "" if outcome == "ok" else outcome
        self._end(span, call.started_at + call.seconds, error=error)

    # -------------------------------------------------------------------------------------------

    def _start(
        self, name: str, kind: SpanKind, parent: Span | None, attributes: Mapping[str, AttributeValue], at: float
    ) -> Span:
        context = set_span_in_context(parent) if parent is not None else Context()
        return self._tracer.start_span(
            name, context=context, kind=kind, attributes=dict(attributes), start_time=_nanoseconds(at)
        )

    def _end(self, span: Span, at: float, *, error: str) -> None:
        if error:
            span.set_attribute(names.ERROR_TYPE, error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_nanoseconds(at))


def _describe_usage(usage: Usage) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {names.INPUT_TOKENS: usage.prompt, names.OUTPUT_TOKENS: usage.completion}
    if usage.cache_hit:
        found[names.CACHE_READ_TOKENS] = usage.cache_hit
    if usage.reasoning:
        found[names.REASONING_TOKENS] = usage.reasoning
    return found


def _digest(key: ConversationKey) -> str:
    """Return an id of the conversation that does not reveal the sender."""
    return hashlib.sha256(f"{key.agent}\0{key.sender}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)


def _keep(spans: "OrderedDict[K, Span]", key: K, span: Span) -> None:
    spans[key] = span
    if len(spans) > _MAX_OPEN:
        spans.popitem(last=False)
