"""make_asker: lets a tool ask a person, during one call of a run. Used by loop.py."""

from collections.abc import Sequence
from itertools import count

from moot.domain.ask import Ask, AskKind, Question
from moot.domain.message import ToolCall
from moot.domain.ports.tool import AskHuman
from moot.engine.asks import Asks
from moot.engine.deadline import Deadline, Waiting
from moot.engine.turn_state import TurnState


def make_asker(asks: Asks, state: TurnState, call: ToolCall, waiting: Waiting, tool_deadline: Deadline) -> AskHuman:
    turn, request, number = state.turn, state.turn.request, count(1)

    async def ask(questions: Sequence[Question]) -> str:
        opened = Ask(
            # After a restart the same id finds the same question.
            id=f"ask-{request.id}-{call.id}-{next(number)}",
            kind=AskKind.QUESTION,
            key=request.asks_in,
            run_id=request.id,
            call_id=call.id,
            speaker=request.speaker,
            chain=request.chain,
            tool=call.name,
            questions=tuple(questions),
            is_resumable=state.toolbox.is_repeatable(call.name),
        )
        with waiting(), tool_deadline.pause():
            return await asks.ask_question(opened, turn.emit, seconds=turn.config.ask_seconds)

    return ask
