"""TurnState: a turn inside the loop. Builds the next prompt from history and framing, and estimates its cost."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.events import EventBody
from moot.domain.message import Message, Role, ToolCall, assistant, user
from moot.domain.ports.model import Model, ToolSupport
from moot.domain.ports.tool import ToolResult
from moot.domain.prompt import Prompt, ToolSpec, Transcript
from moot.domain.run import Outcome
from moot.domain.scope import TOOL_SEARCH
from moot.domain.tokens import estimate_message, estimate_text, estimate_tools
from moot.domain.usage import Need
from moot.domain.user_message import SEND_USER_MESSAGE
from moot.engine.budget import NOTHING_NEEDED, Hold
from moot.engine.deadline import Deadline
from moot.engine.framing import (
    make_context_message,
    make_guest_reminder,
    make_last_step_note,
    make_nudge,
    make_refusal_note,
    render_assistant_framing,
    render_brief_guest_framing,
    render_for_speaker,
    render_guest_framing,
    render_plain_place_framing,
)
from moot.engine.gate import Toolbox
from moot.engine.held_text import HeldText, emit_private
from moot.engine.offer import Offer
from moot.engine.outcome import Repetition
from moot.engine.project_framing import ProjectFraming
from moot.engine.step import ModelReply
from moot.engine.tool_search import choose_loaded, find_loaded
from moot.engine.turn import Briefing, RunProgress, Turn

# The assumed maximum length of a reply if the configuration has none.
_REPLY = 8_192
# An estimate that exceeds a provider's count by this factor is not only inexact: the request has become longer.
_GROWN = 1.25
# The most characters of its instruction of which a guest is reminded.
_REMINDED = 400
_NATIVE = ToolSupport.NATIVE


class TurnState(Struct, kw_only=True):
    turn: Turn
    progress: RunProgress
    deadline: Deadline
    briefing: Briefing
    toolbox: Toolbox
    # The tools that fit, and the rest; and what the next request offers, with the tools that were loaded.
    offer: Offer
    specs: tuple[ToolSpec, ...] = ()
    # Whether the text of the next step is not for the person: the speaker can send messages instead.
    is_private: bool = False
    repetition: Repetition
    # Seconds used by the whole tree when this run began, and how many more nudges are allowed.
    began: float
    nudges: int
    # What it is told of the project in its working directory.
    project: ProjectFraming = ProjectFraming()
    # Whether tokens or money are limited, for this run or its tree; and whether money is.
    spends: bool = False
    spends_money: bool = False
    # Messages beside the history: a reply whose calls were refused, and messages for the next request only.
    refused: ModelReply | None = None
    aside: tuple[Message, ...] = ()
    was_reminded: bool = False
    # Whether the next step is the last one of the tree, reserved for the answer.
    is_last_step: bool = False
    # A shortened transcript for the next request, if the whole history does not fit the context window.
    view: Transcript | None = None
    was_shortened: bool = False
    cannot_compact: bool = False
    # The estimated tokens of a request that the model refused as too long; 0 if there was none.
    refused_tokens: int = 0
    # The tokens of the last request as counted by its provider.
    context_tokens: int = 0
    held_text: HeldText | None = None
    # The system blocks of a request with tools, and of one without: the same in all steps.
    systems: dict[bool, tuple[str, ...]] = {}

    def __post_init__(self) -> None:
        self.load_tools()
        own, shared = self.turn.limits, self.turn.budget.limits
        self.spends_money = own.spend is not None or shared.spend is not None
        self.spends = own.tokens is not None or shared.tokens is not None or self.spends_money

    def load_tools(self) -> None:
        """Offer the tools that searches in the history have found, besides those that always fit."""
        if self.is_last_step:
            return
        offer = self.offer
        self.specs, self.is_private = offer.specs, offer.can_message
        if offer.left_out and offer.specs and (loaded := find_loaded(self.turn.history.searches)):
            self.specs = (*offer.specs, *choose_loaded(offer.left_out, loaded, self.turn.model.window))
            self.is_private = any(spec.name == SEND_USER_MESSAGE for spec in self.specs)

    def list_loadable(self) -> tuple[ToolSpec, ...]:
        """Return the tools that the run may use and is not offered."""
        if self.specs is self.offer.specs:
            return self.offer.left_out
        names = {spec.name for spec in self.specs}
        return tuple(spec for spec in self.offer.left_out if spec.name not in names)

    def reject_unloaded(self, name: str) -> ToolResult | None:
        """Return the error result for a tool that has not been loaded; None if the model has been offered it.

        A scripted model calls the tools of its script, whatever it is offered.
        """
        if name not in self.offer.left_out_names or self.turn.model.provider == "scripted":
            return None
        if all(spec.name != name for spec in self.list_loadable()):
            return None
        if all(spec.name != TOOL_SEARCH for spec in self.offer.specs):
            return None
        text = f"{name} is not loaded. Load it with {TOOL_SEARCH}(query={name!r}), then call it."
        return ToolResult(content=text, is_error=True)

    def make_message(self, reply: ModelReply, text: str, *, calls: tuple[ToolCall, ...] = ()) -> Message:
        """Return the message that is stored for a reply, with this text and these calls."""
        return Message(
            role=Role.ASSISTANT,
            content=text,
            agent=self.turn.request.guest,
            taint=self.project.taint,
            tool_calls=calls,
            thinking=tuple(reply.thinking),
            context_tokens=self.context_tokens,
            is_private=self.is_private,
        )

    def reserve_step(self, *, is_teammate: bool) -> Hold | None:
        """Reserve the next call if only steps are limited and one is left; else None."""
        if self.spends:
            return None
        return self.turn.budget.reserve_step(self.turn.limits, self.progress.steps, is_teammate=is_teammate)

    @property
    def has_room(self) -> bool:
        """Whether the limits allow another step. Without one, what has arrived would be shown to no model."""
        turn = self.turn
        is_teammate = bool(turn.request.parent_id)
        return not turn.budget.is_used_up(self.need(), turn.limits, self.progress.spent, is_teammate=is_teammate)

    def may_nudge(self, outcome: Outcome) -> bool:
        """Whether the run continues instead of ending with this outcome. Uses up one nudge and adds its message."""
        if not self.nudges or self.is_last_step:
            return False
        self.nudges -= 1
        self.aside = (make_nudge(outcome),)
        return True

    def ask_for_answer(self) -> None:
        """Make the next step the last: no tools are offered and the speaker is asked for its answer."""
        if self.specs and not self.is_last_step:
            self.is_last_step, self.specs, self.is_private = True, (), False
            self.aside = (*self.aside, make_last_step_note())

    def is_looping(self, calls: Sequence[ToolCall]) -> bool:
        """Whether the latest calls only repeat earlier ones."""
        results = [self.progress.results[call.id] for call in calls]
        if any(result.waited for result in results):
            self.repetition.begin_anew()
            return False
        return self.repetition.add_step(calls, [result.content for result in results])

    def may_remind(self, words: str) -> bool:
        """Whether the run continues because it would leave work unfinished.

        The speaker is shown `words` and the reminder.
        """
        unfinished = "" if self.was_reminded or self.is_last_step else self.briefing.conduct.unfinished()
        if not unfinished:
            return False
        self.was_reminded, self.held_text = True, None
        self.aside = (render_for_speaker(assistant(words, agent=self.turn.request.guest)), user(unfinished))
        return True

    def event_sink(self) -> Callable[[EventBody], None]:
        """Return where the next step's events go.

        Text that may not be final is held back: it could report unfinished work as done.
        """
        self.held_text = None
        if self.is_private:
            return partial(emit_private, self.turn.emit, self.deadline.reset_idle)
        may_remind = not self.was_reminded and not self.is_last_step and self.briefing.conduct.unfinished()
        self.held_text = HeldText(self.turn.emit, self.deadline.reset_idle) if may_remind else None
        return self.held_text or self.turn.emit

    def release(self) -> None:
        """Publish the held-back text of the last step."""
        if self.held_text is not None:
            self.held_text.release()

    @property
    def is_misrouted(self) -> bool:
        """Whether the task belongs to another agent: every call was of a tool of another agent."""
        made = self.progress.made
        return self.briefing.conduct.escalates and 0 < made == self.progress.refused

    def need(self) -> Need:
        """Return the estimated need of the next call. Nothing is estimated if nothing is limited."""
        if not self.spends:
            return NOTHING_NEEDED
        model = self.turn.config.models.get(self.turn.model.name)
        return Need(
            prompt=self.estimate_tokens(),
            reply=(model.max_output_tokens if model is not None else 0) or _REPLY,
            price=self.turn.model.cost,
        )

    def prompt(self, hold: Hold) -> Prompt:
        briefing, turn, refused = self.briefing, self.turn, self.refused
        # The briefing's tail is sent only with the first request; later steps have newer messages at the end.
        tail: tuple[Message, ...] = () if self.progress.steps else briefing.tail
        if turn.request.guest and self._is_small:
            who = self._instruction[:_REMINDED]
            tail += (make_guest_reminder(guest=turn.request.speaker, primary=turn.request.key.agent, instruction=who),)
        if refused is not None:
            own = render_for_speaker(assistant(refused.text, agent=turn.request.guest))
            own_text = (own,) if refused.text.strip() else ()
            tail = (*tail, *own_text, make_refusal_note([call.name for call in refused.calls]))
        tail, self.aside = (*tail, *self.aside), ()
        return Prompt(
            system=self._build_system(),
            transcript=self.view or turn.history.transcript(with_tools=bool(self.specs)),
            context=self._build_context(),
            tail=tail,
            tools=self.specs,
            max_tokens=hold.reply if self.spends else None,
        )

    def render_remarks(self, reply: ModelReply) -> str:
        """Return remarks for the user about a reply: it was truncated, or part of the history was left out."""
        remarks = ["The reply was cut off at the model's output limit."] if reply.truncated else []
        if self.was_shortened:
            name = self.turn.model.name
            remarks.append(f"Part of the conversation was left out: it does not fit the context window of {name}.")
        if self.is_private and not self.progress.has_messaged and not self.turn.request.author:
            remarks.append(_render_silence(self.turn))
        return " ".join(remarks)

    def _build_system(self) -> tuple[str, ...]:
        """Return the system blocks: instructions first, then framing, so that the prefix is stable between turns."""
        has_tools = bool(self.specs)
        if (built := self.systems.get(has_tools)) is not None:
            return built
        turn, request = self.turn, self.turn.request
        guest = ""
        if request.guest:
            framing = render_brief_guest_framing if self._is_small else render_guest_framing
            guest = framing(guest=request.speaker, primary=request.key.agent)
        # Also in the last step, which offers no tools: the beginning of the request stays the same.
        own = render_assistant_framing() if self.offer.can_message else guest
        built = list_standing_blocks(turn.agent, turn.model, self.briefing, own, has_tools=has_tools)
        self.systems[has_tools] = built
        return built

    @property
    def _is_small(self) -> bool:
        return self.turn.model.config.small

    @property
    def _instruction(self) -> str:
        return choose_instruction(self.turn.agent, self.turn.model)

    @property
    def _knows_paths(self) -> bool:
        return _knows_paths(self.turn.model)

    def _build_context(self) -> tuple[Message, ...]:
        """Return what may differ between turns.

        It is placed after the user message, so that everything before it can be cached.
        """
        turn = self.turn
        primary = turn.request.key.agent if turn.history.guests and not turn.request.guest else ""
        cwd = turn.cwd if self.specs and self._knows_paths else ""
        surroundings = "" if turn.request.guest else self.project.surroundings
        if not (primary or cwd or surroundings):
            return ()
        return (make_context_message(primary=primary, cwd=cwd, surroundings=surroundings),)

    def estimate_tokens(self) -> int:
        """Return the tokens of the next request: the provider's count plus an estimate of the rest."""
        counted = self.turn.history.count_tokens(self.turn.request.guest)
        return counted + self._estimate_growth(counted) if counted else self.estimate_text_tokens()

    def count_context(self, tokens: int) -> None:
        """Keep the provider's count of the last request, unless the speaker saw only part of the history."""
        if tokens and self.view is None:
            self.context_tokens = tokens
            self.turn.history.counted_with[self.turn.request.guest] = self._build_system(), self.specs

    def _estimate_growth(self, counted: int) -> int:
        """Estimate by how many tokens instructions and tools have grown since the request that was counted last.

        A reload changes them, a search loads tools, and the last step of a budget has none. If they have shrunk the
        count stands, because not every provider counts them.
        """
        now = self._build_system(), self.specs
        before = self.turn.history.counted_with.get(self.turn.request.guest)
        if before is None:
            # An earlier daemon has sent it, and nothing tells with which instructions and tools.
            estimated = self.estimate_text_tokens()
            return estimated - counted if estimated > counted * _GROWN else 0
        return 0 if before == now else max(0, _estimate_standing(*now) - _estimate_standing(*before))

    def estimate_text_tokens(self) -> int:
        """Estimate the tokens of the next request from its text alone."""
        return self.turn.history.estimate_tokens() + self.estimate_fixed_tokens()

    def estimate_fixed_tokens(self) -> int:
        """Estimate the tokens of what is sent beside the conversation: instructions, framing and tools."""
        beside = sum(map(estimate_message, (*self._build_context(), *self.briefing.tail)))
        return _estimate_standing(self._build_system(), self.specs) + beside


def _estimate_standing(system: tuple[str, ...], specs: tuple[ToolSpec, ...]) -> int:
    return sum(map(estimate_text, system)) + estimate_tools(specs)


def _render_silence(turn: Turn) -> str:
    return f"{turn.request.speaker} finished without a message. Its text: moot logs {turn.request.id} --all"


def choose_instruction(agent: Agent, model: Model) -> str:
    return (agent.brief if model.config.small else "") or agent.instruction


def list_standing_blocks(
    agent: Agent, model: Model, briefing: Briefing, manner: str = "", *, has_tools: bool
) -> tuple[str, ...]:
    """Return the system blocks of an agent, which are the same in every turn; `manner` says how it speaks here."""
    place = render_plain_place_framing() if has_tools and not _knows_paths(model) else ""
    return (*briefing.preamble, choose_instruction(agent, model), *briefing.system, *filter(None, (manner, place)))


def _knows_paths(model: Model) -> bool:
    return model.tools is _NATIVE
