"""TurnState: a turn inside the loop. Builds the next prompt from history and framing, and estimates its cost."""

from asyncio import Semaphore
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from moot.domain.events import EventBody
from moot.domain.message import Message, ToolCall, assistant, user
from moot.domain.ports.model import ToolSupport
from moot.domain.prompt import Prompt, ToolSpec, Transcript
from moot.domain.run import Outcome
from moot.domain.tokens import estimate_message, estimate_text, estimate_tools
from moot.domain.usage import RunUsage
from moot.engine.budget import Hold, Need
from moot.engine.deadline import Deadline
from moot.engine.framing import (
    context_message,
    guest_framing,
    last_step_note,
    nudge,
    place_framing,
    plain_place_framing,
    primary_framing,
    refusal,
    render_for_speaker,
)
from moot.engine.gate import AT_ONCE, Toolbox
from moot.engine.held_text import HeldText
from moot.engine.outcome import Repetition
from moot.engine.step import Reply
from moot.engine.turn import Briefing, Progress, Turn

# How long a reply is taken to be at most where the configuration does not say.
_REPLY = 8_192
_NOTHING_NEEDED = Need()


class TurnState(Struct, kw_only=True):
    turn: Turn
    progress: Progress
    deadline: Deadline
    briefing: Briefing
    toolbox: Toolbox
    specs: tuple[ToolSpec, ...]
    repetition: Repetition
    # The time of the whole tree when this run began, and how often it may still be told to go on.
    began: float
    nudges: int
    # What prompts have to say beside the history: calls where there are no tools; and what the next one alone says.
    refused: Reply | None = None
    aside: tuple[Message, ...] = ()
    was_reminded: bool = False
    # Whether the next step is the last of the tree's, kept for the answer.
    is_last_step: bool = False
    # What the next request shows of the history where its model has no room for all of it.
    view: Transcript | None = None
    was_shortened: bool = False
    cannot_compact: bool = False
    # The estimated tokens of a request that the model refused as too long; 0 where none was.
    refused_tokens: int = 0
    # The tokens of the last request as its provider counted them.
    context_tokens: int = 0
    held_text: HeldText | None = None
    at_work: Semaphore = field(default_factory=lambda: Semaphore(AT_ONCE))

    def may_nudge(self, outcome: Outcome) -> bool:
        """Whether the run goes on instead of ending this way; it is told why, this once."""
        if not self.nudges or self.is_last_step:
            return False
        self.nudges -= 1
        self.aside = (nudge(outcome),)
        return True

    def ask_for_answer(self) -> None:
        """The next step is the last: it is for the answer, and nothing can be called any more."""
        if self.specs and not self.is_last_step:
            self.is_last_step, self.specs = True, ()
            self.aside = (*self.aside, last_step_note())

    def runs_in_circles(self, calls: Sequence[ToolCall]) -> bool:
        """Whether the calls just made only repeat what was done before."""
        results = [self.progress.results[call.id] for call in calls]
        if any(result.waited for result in results):
            self.repetition.begin_anew()
            return False
        return self.repetition.add_step(calls, [result.content for result in results])

    def may_remind(self, words: str) -> bool:
        """Whether the run goes on because it would leave something unfinished; it sees its words, and is told what."""
        unfinished = "" if self.was_reminded or self.is_last_step else self.briefing.conduct.unfinished()
        if not unfinished:
            return False
        self.was_reminded, self.held_text = True, None
        self.aside = (render_for_speaker(assistant(words, agent=self.turn.request.guest)), user(unfinished))
        return True

    def hears(self) -> Callable[[EventBody], None]:
        """Where the next step's events go. Words are held back that may not be the last: they could tell of work as
        done that is not."""
        may_remind = not self.was_reminded and not self.is_last_step and self.briefing.conduct.unfinished()
        self.held_text = HeldText(self.turn.emit, self.deadline.stir) if may_remind else None
        return self.held_text or self.turn.emit

    def release(self) -> None:
        """The words of the last step are kept."""
        if self.held_text is not None:
            self.held_text.release()

    @property
    def out_of_place(self) -> bool:
        """Whether the task is for another: all that was tried belongs to somebody else."""
        made = self.progress.made
        return self.briefing.conduct.escalates and 0 < made == self.progress.refused

    @property
    def spends(self) -> bool:
        """Whether tokens or money are limited, of this run or of all it belongs to."""
        own, shared = self.turn.limits, self.turn.budget.limits
        return own.tokens is not None or shared.tokens is not None or self.spends_money

    @property
    def spends_money(self) -> bool:
        return self.turn.limits.spend is not None or self.turn.budget.limits.spend is not None

    def need(self) -> Need:
        """What the next call may take. Nothing is estimated where nothing is limited."""
        if not self.spends:
            return _NOTHING_NEEDED
        model = self.turn.config.models.get(self.turn.model.name)
        return Need(
            prompt=self.estimate_tokens(),
            reply=(model.max_output_tokens if model is not None else 0) or _REPLY,
            price=self.turn.model.cost,
        )

    def prompt(self, hold: Hold) -> Prompt:
        briefing, turn, refused = self.briefing, self.turn, self.refused
        # What stands behind the message is said once; after a step there is something newer to look at.
        tail: tuple[Message, ...] = () if self.progress.steps else briefing.tail
        if refused is not None:
            own = render_for_speaker(assistant(refused.text, agent=turn.request.guest))
            said = (own,) if refused.text.strip() else ()
            tail = (*tail, *said, refusal([call.name for call in refused.calls]))
        tail, self.aside = (*tail, *self.aside), ()
        return Prompt(
            system=tuple(self._system()),
            transcript=self.view or turn.history.transcript(with_tools=bool(self.specs)),
            context=self._context(),
            tail=tail,
            tools=self.specs,
            max_tokens=hold.reply if self.spends else None,
        )

    def remarks(self, reply: Reply) -> str:
        """What a person should know of a reply that was given."""
        remarks = ["The reply was cut off at the model's output limit."] if reply.truncated else []
        if self.was_shortened:
            name = self.turn.model.name
            remarks.append(f"Part of the conversation was left out: it does not fit the context window of {name}.")
        return " ".join(remarks)

    def time_of_tree(self, spent: RunUsage) -> float:
        return self.began + spent.seconds

    def _system(self) -> list[str]:
        """Instructions first, framing after: what is before it stays the same from turn to turn."""
        turn = self.turn
        blocks = [turn.agent.instruction, *self.briefing.system]
        request = turn.request
        if request.guest:
            blocks.append(guest_framing(guest=request.speaker, primary=request.key.agent))
        if self.specs and not self._knows_paths:
            blocks.append(plain_place_framing())
        return blocks

    @property
    def _knows_paths(self) -> bool:
        return self.turn.model.tools is ToolSupport.NATIVE

    def _context(self) -> tuple[Message, ...]:
        """What may be different in the next turn: it stands behind the message and leaves what is before it alone."""
        turn, told = self.turn, []
        if turn.history.guests and not turn.request.guest:
            told.append(primary_framing(primary=turn.request.key.agent))
        if self.specs and self._knows_paths:
            told.append(place_framing(turn.cwd))
        return (context_message(told),) if told else ()

    def estimate_tokens(self) -> int:
        """Tokens of the next request: as far as the provider counted them, and an estimate of the rest."""
        return self.turn.history.counted_tokens(self.turn.request.guest) or self.estimate_text_tokens()

    def estimate_text_tokens(self) -> int:
        """The same by an estimate alone."""
        return self.turn.history.estimate_tokens() + self.estimate_fixed_tokens()

    def estimate_fixed_tokens(self) -> int:
        """What is sent beside the conversation: instructions, framing and tools."""
        told = sum(map(estimate_text, self._system()))
        told += sum(map(estimate_message, (*self._context(), *self.briefing.tail)))
        return told + estimate_tools(self.specs)
