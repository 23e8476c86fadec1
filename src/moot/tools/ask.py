"""The `ask_user` tool: asks a question and waits for the answer."""

import re
from typing import Any

import msgspec

from moot.domain.ask import Option, Question
from moot.domain.errors import BadRequest
from moot.domain.ports.tool import RunContext
from moot.domain.prompt import Safety, ToolSpec

HEADER_LENGTH = 12
_MOST = 4
_SHAPE = (
    'Each is an object such as {"question": "Which colour?", "header": "Colour", "options": [{"label": "Red",'
    ' "description": "as a rose"}], "multi_select": false}; only question is needed.'
)


class AskUser:
    spec = ToolSpec(
        name="ask_user",
        safety=Safety.SAFE,
        group="conversation",
        # After a restart the same ask is opened again.
        repeatable=True,
        description="Ask the person one or more questions and wait for the answer. Use it when going on "
        "without the answer could be wrong.",
        parameters={
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": _MOST,
                    "items": {
                        "type": "object",
                        "properties": {
                            "question": {"type": "string"},
                            "header": {
                                "type": "string",
                                "description": f"At most {HEADER_LENGTH} characters.",
                            },
                            "options": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
                                    "required": ["label"],
                                },
                            },
                            "multi_select": {"type": "boolean"},
                        },
                        "required": ["question"],
                    },
                }
            },
            "required": ["questions"],
        },
    )

    def line(self, arguments: dict[str, Any]) -> str:
        given = arguments.get("questions")
        texts = [str(each.get("question", "")) for each in given or () if isinstance(each, dict)]
        return f"ask: {' / '.join(texts)}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        try:
            questions = msgspec.convert(arguments["questions"], list[_Question])
        except msgspec.ValidationError as error:
            raise BadRequest(_describe_complaint(str(error)), fix=_SHAPE) from None
        if not 1 <= len(questions) <= _MOST:
            raise BadRequest(f"ask between one and {_MOST} questions at a time")
        return await context.ask([question.value() for question in questions])


def _describe_complaint(complaint: str) -> str:
    """Describe what is wrong, with the 1-based number of the question."""
    what, _, place = complaint.partition(" - at `$")
    number = re.match(r"\[(\d+)\]", place)
    where = f"question {int(number[1]) + 1}" if number else "questions"
    inside = place[number.end() :].strip("`.") if number else ""
    return f"{where} is not valid: {what}{f' in {inside}' if inside else ''}"


class _Option(msgspec.Struct):
    label: str
    description: str = ""


class _Question(msgspec.Struct):
    question: str
    header: str = ""
    options: list[_Option] = []
    multi_select: bool = False

    def value(self) -> Question:
        return Question(
            question=self.question,
            header=self.header[:HEADER_LENGTH],
            options=tuple(Option(label=option.label, description=option.description) for option in self.options),
            multi_select=self.multi_select,
        )
