"""Renders questions of a run and parses the answers. Pure."""

from collections.abc import Sequence

from moot.cli.render import sanitize
from moot.cli.render.numbers import read_number
from moot.client import turn
from moot.domain.visible import show_block
from moot.wire import moot_pb2 as pb

# The tool that asks questions; its call is not shown where the question is.
ASK_TOOL = "ask_user"


def render_prompt(question: pb.AskQuestion) -> list[str]:
    """The question, its numbered options and how to choose, sanitized."""
    shown = render_question(question)
    if question.options:
        several = "Numbers such as 1,3" if question.multi_select else "A number"
        shown.append(f"  {several}, or free text.")
    return shown


def render_question(question: pb.AskQuestion) -> list[str]:
    """The question and its numbered options, sanitized."""
    head = f"{sanitize.name(question.header)}: " if question.header else ""
    shown = [head + show_block(question.question)]
    for number, option in enumerate(question.options, 1):
        description = f" — {sanitize.name(option.description)}" if option.description else ""
        shown.append(f"  {number}. {sanitize.name(option.label)}{description}")
    return shown


def parse_answer(question: pb.AskQuestion, typed: str) -> str:
    """The typed answer with option numbers replaced by labels; anything else is kept as text."""
    words = typed.strip()
    picks = words.replace(",", " ").split()
    numbers = [number for number in map(read_number, picks) if number is not None]
    in_range = all(1 <= number <= len(question.options) for number in numbers)
    if not numbers or len(numbers) != len(picks) or not in_range:
        return words
    if len(numbers) > 1 and not question.multi_select:
        return words
    return ", ".join(question.options[number - 1].label for number in dict.fromkeys(numbers))


def address_reply(ask: pb.AskUserEvent | pb.AskInfo, agent: str, sender: str, content: str) -> pb.ReplyToAsk:
    """The reply to exactly this attempt of the question."""
    return pb.ReplyToAsk(agent=agent, sender=sender, content=content, ask_id=ask.ask_id, attempt=ask.attempt)


def build_reply(questions: Sequence[pb.AskQuestion], answers: Sequence[str]) -> str:
    """The reply to an ask: the answer, or for several questions a JSON object from question to answer."""
    return turn.build_reply([question.question for question in questions], answers)
