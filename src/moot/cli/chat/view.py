"""View of one run in the chat: takes stream events, returns finished lines, keeps the unfinished one. No I/O."""

from collections.abc import Callable

from moot.cli.chat import lines
from moot.cli.markdown.styles import INDENT, Line, count_columns
from moot.cli.markdown.text_format import MessageText, TextFormat
from moot.cli.program import hint
from moot.cli.render import calls, colours, preparation, questions, sanitize
from moot.cli.render.questions import ASK_TOOL
from moot.domain.user_message import SEND_USER_MESSAGE
from moot.wire import moot_pb2 as pb

_THOUGHT_COLUMNS = 70


class RunView:
    """Shows one stream. `take` returns finished lines; `tail` are the lines of what is incomplete.

    `status` says in a few words what the run is doing, `since` when that started.
    """

    def __init__(
        self,
        primary: str,
        clock: Callable[[], float],
        *,
        echo: str = "",
        text_format: TextFormat = TextFormat(),  # noqa: B008 - a frozen value
    ) -> None:
        self._primary = primary
        self._clock = clock
        self._echo = echo
        self._format = text_format
        # The message that is being written, if any, and whether its speaker was printed.
        self._message: MessageText | None = None
        self._thought = ""
        # Text that is not sent, if it is shown.
        self._private = ""
        self._named = False
        self._calls: dict[str, pb.ToolCallInfo] = {}
        # The content that the agents received, if known.
        self.content = ""
        self.speaker = primary
        self.position = 0
        # What the run ahead in the queue waits for a person with, if it does.
        self.ask_kind = ""
        self.user_seq = 0
        self.acknowledged = False
        self.started = False
        self.status = "sending"
        self.since = self.began = clock()
        self._answered_elsewhere = False
        self._is_withdrawn = False
        # Whether the message is for the active run, and whether that was shown it.
        self.steers = False
        self._is_steered = False
        self.question: pb.AskUserEvent | None = None
        self.approvals: dict[str, pb.ApprovalEvent] = {}
        # Decisions made in this chat, until the daemon confirms them.
        self.decisions: dict[str, pb.DecideAskMsg] = {}
        self.end: pb.StreamEnd | None = None

    @property
    def echo(self) -> str:
        """The user's message, until it has been printed."""
        return self._echo

    @property
    def tail(self) -> list[Line]:
        """What is incomplete: text, or reasoning while there is no text yet."""
        rows = self._message.tail() if self._message is not None else []
        if rows:
            first, *more = rows
            return [[*self._render_speaker(), *first], *map(lines.indent_line, more)]
        return [[("class:dim", f"∴ {sanitize.line(self._thought[-_THOUGHT_COLUMNS:])}")]] if self._thought else []

    def take(self, event: pb.StreamEvent) -> list[Line]:
        kind = event.WhichOneof("event")
        handler = getattr(self, f"_on_{kind}", None)
        shown: list[Line] = handler(getattr(event, kind)) if handler is not None and kind else []
        return shown

    # ---- one method per event, named after it ----

    def _on_queued(self, event: pb.QueuedEvent) -> list[Line]:
        self.acknowledged = True
        self.position, self.ask_kind = event.position, event.ask_kind
        self._set_status("queued")
        return []

    def _on_withdrawn(self, event: pb.WithdrawnEvent) -> list[Line]:
        self._is_withdrawn = True
        self._echo = ""
        return [lines.render_withdrawn(event.content)]

    def _on_steered(self, event: pb.SteeredEvent) -> list[Line]:
        if not self.started:
            # The run that was shown the message prints it.
            self._is_steered = True
            self._echo = ""
            return []
        finished = self._flush()
        self._named = False
        return [*finished, [], *lines.render_speech(colours.USER, event.content, self._primary)]

    def _on_start(self, event: pb.StreamStart) -> list[Line]:
        self.acknowledged = self.started = True
        self.position = 0
        self.speaker = event.agent or self._primary
        self.user_seq = event.user_seq
        self._set_status("thinking")
        self.began = self._clock()
        return self.take_echo()

    def _on_thinking(self, event: pb.StreamThinking) -> list[Line]:
        self._set_status("thinking")
        self._thought += event.content
        return []

    def _on_thinking_end(self, _: pb.ThinkingEndEvent) -> list[Line]:
        thought, self._thought = sanitize.line(self._thought, _THOUGHT_COLUMNS), ""
        seconds = self._clock() - self.since
        return [[("class:dim", f"∴ thought for {seconds:.0f}s · {thought}")]] if thought else []

    def _on_chunk(self, event: pb.StreamChunk) -> list[Line]:
        self._set_status("writing")
        if self._message is None:
            self._message = self._format.open_message(count_columns(self._render_speaker()))
        return self._name_rows(self._message.feed(sanitize.clean(event.content)))

    def _on_user_message(self, event: pb.UserMessageInfo) -> list[Line]:
        return [*self._flush(), *lines.render_user_message(self.speaker, event, self._primary, self._format)]

    def _on_private_text(self, event: pb.StreamChunk) -> list[Line]:
        self._set_status("working")
        if self._format.shows_private():
            self._private += event.content
        return []

    def _on_text_end(self, _: pb.TextEndEvent) -> list[Line]:
        return self._flush()

    def _on_tool_start(self, event: pb.ToolStartEvent) -> list[Line]:
        for call in event.calls:
            self._calls[call.call_id] = call
        finished = self._flush()
        self._named = False
        self._set_status(self._running_calls())
        return finished

    def _on_tool_result(self, event: pb.ToolResultEvent) -> list[Line]:
        call = self._calls.pop(event.call_id, None) or pb.ToolCallInfo(name=event.name)
        if call.name == SEND_USER_MESSAGE and not event.is_error:
            return []
        if call.name == ASK_TOOL and not event.is_error:
            elsewhere, self._answered_elsewhere = self._answered_elsewhere, False
            # The question and its answer were shown already, unless another client answered.
            return lines.render_speech(colours.USER, event.output, self._primary) if elsewhere else []
        if self._calls:
            self.status = self._running_calls()
        return [lines.render_tool_call(call, event, self._format.width())]

    def _on_tools_complete(self, _: pb.ToolsCompleteEvent) -> list[Line]:
        self._set_status("thinking")
        return []

    def _on_ask_user(self, event: pb.AskUserEvent) -> list[Line]:
        self.question = event
        self._set_status("waiting for you")
        return self._flush()

    def _on_ask_closed(self, _: pb.AskClosedEvent) -> list[Line]:
        ask, self.question = self.question, None
        self._set_status("working")
        if ask is None:
            return []
        # Answered elsewhere: this chat forgets a question when it answers it.
        self._answered_elsewhere = True
        return [[("class:dim", line)] for question in ask.questions for line in questions.render_question(question)]

    def _on_approval_opened(self, event: pb.ApprovalEvent) -> list[Line]:
        self.approvals[event.ask_id] = event
        self._set_status("waiting for you")
        return [*self._flush(), *lines.render_approval(event)]

    def _on_approval_closed(self, event: pb.ApprovalClosedEvent) -> list[Line]:
        approval = self.approvals.pop(event.ask_id, None)
        if not self.approvals:
            self._set_status(self._running_calls())
        here = self.decisions.pop(event.ask_id, pb.DecideAskMsg())
        return [] if approval is None else [lines.render_decision(approval, event.state, here.decision, here.pattern)]

    def _on_preparing(self, event: pb.PreparingEvent) -> list[Line]:
        self.status = preparation.render_preparing(event)
        return []

    def _on_retrying(self, event: pb.RetryingEvent) -> list[Line]:
        self._set_status("waiting to try again")
        again = f"the model failed ({sanitize.line(event.reason, 80)}); again in {event.delay_ms / 1000:.1f}s"
        return [lines.render_notice(again)]

    def _on_compacting(self, _: pb.CompactingEvent) -> list[Line]:
        self._set_status("compacting the history")
        return []

    def _on_compacted(self, event: pb.CompactedEvent) -> list[Line]:
        self._set_status("thinking")
        return [lines.render_divider(f"compacted into archive {event.number}: {event.title}")]

    def _on_discarded(self, _: pb.DiscardedEvent) -> list[Line]:
        self._message, self._thought = None, ""
        taken_back, self._named = self._named, False
        return [[("class:dim", "  (the text above was discarded)")]] if taken_back else []

    def _on_end(self, event: pb.StreamEnd) -> list[Line]:
        self.end = event
        self.question = None
        self.approvals = {}
        if self._is_steered:
            return []
        finished = self.take_echo() + self._flush()
        if self._is_withdrawn:
            return finished
        if event.outcome != "completed":
            finished.append(lines.render_ending(event.outcome, event.error))
        elif event.error:
            finished.append(lines.dim(hint(event.error)))
        return finished

    # ---- helpers ----

    def take_echo(self) -> list[Line]:
        """Return the user's message once, when its turn starts."""
        echo, self._echo = self._echo, ""
        return [[], *lines.render_speech(colours.USER, echo, self._primary)] if echo else []

    def _running_calls(self) -> str:
        """The calls without a result, each as its tool describes it."""
        return " · ".join(calls.render_call(call, 0) for call in self._calls.values()) or "working"

    def _set_status(self, status: str) -> None:
        if status != self.status:
            self.status, self.since = status, self._clock()

    def _render_speaker(self) -> Line:
        return INDENT if self._named else lines.render_speaker(self.speaker, self._primary)

    def _name_rows(self, rows: list[Line]) -> list[Line]:
        """Put the speaker before the first row of a message, and an indentation before the others."""
        named: list[Line] = []
        for row in rows:
            named.append(lines.indent_line(row) if self._named else [*self._render_speaker(), *row])
            self._named = True
        return named

    def _flush(self) -> list[Line]:
        message, self._message = self._message, None
        private, self._private = self._private, ""
        finished = self._name_rows(message.finish()) if message is not None else []
        return [*lines.render_private(private), *finished]
