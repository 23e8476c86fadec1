"""Elicitation: turns the form of an MCP server into questions, and the answers into its values."""

from typing import Any

from moot.domain.ask import Option, Question
from moot.domain.ports.tool import AskHuman
from moot.domain.text import clean, defuse

MOST_FIELDS = 8
MOST_OPTIONS = 24
_DECLINE = Option(label="Decline", description="Do not answer the server.")
# What a person may be asked to open.
_WEB = ("https://", "http://")
_NEVER = "Never give a server a password or a key this way."

Answers = dict[str, Any]


class Declined(Exception):
    """The person declined, or the answer does not fit the form."""


async def fill_form(ask: AskHuman, *, server: str, message: str, schema: dict[str, Any]) -> Answers:
    """Ask for each field in turn and return the answers. Raise Declined, or MootError if nobody answers."""
    text = f"The MCP server {server} asks: {_clean_words(message, 1000)}"
    fields = schema.get("properties")
    if not isinstance(fields, dict) or not fields:
        await _confirm(ask, text, server=server, accept="Accept")
        return {}
    if len(fields) > MOST_FIELDS:
        raise Declined(f"it asked for more than {MOST_FIELDS} values")
    answers: Answers = {}
    for name, described in fields.items():
        field = described if isinstance(described, dict) else {}
        question = Question(
            question=f"{text}\n{_field_label(name, field)}. {_NEVER}",
            header=f"mcp {server}"[:12],
            options=(*_field_options(field), _DECLINE),
        )
        answer = (await ask([question])).strip()
        if answer.casefold() == _DECLINE.label.casefold():
            raise Declined("the person declined")
        answers[name] = _parse_value(answer, field)
    return answers


async def confirm_visit(ask: AskHuman, *, server: str, message: str, url: str) -> None:
    """Ask the user to open a page; nothing is opened automatically."""
    if not url.lower().startswith(_WEB):
        # Other addresses can open a file of this machine, or start a program.
        raise Declined("it is not an address of the web")
    text = f"The MCP server {server} asks you to open {_clean_words(url, 1000)}: {_clean_words(message, 1000)}"
    await _confirm(ask, text, server=server, accept="Done")


async def _confirm(ask: AskHuman, text: str, *, server: str, accept: str) -> None:
    question = Question(question=text, header=f"mcp {server}"[:12], options=(Option(label=accept), _DECLINE))
    if (await ask([question])).strip().casefold() != accept.casefold():
        raise Declined("the person declined")


def _field_label(name: str, field: dict[str, Any]) -> str:
    title = _clean_words(str(field.get("title") or name), 100)
    more = _clean_words(str(field.get("description") or ""), 400)
    return f"{title}: {more}" if more else title


def _field_options(field: dict[str, Any]) -> tuple[Option, ...]:
    if field.get("type") == "boolean":
        return (Option(label="Yes"), Option(label="No"))
    choices = field.get("enum")
    if isinstance(choices, list):
        return tuple(Option(label=_clean_words(str(choice), 100)) for choice in choices[:MOST_OPTIONS])
    return ()


def _parse_value(answer: str, field: dict[str, Any]) -> Any:
    kind = field.get("type", "string")
    choices = field.get("enum")
    if isinstance(choices, list) and answer not in map(str, choices):
        raise Declined("the answer is not one of the choices")
    try:
        if kind == "boolean":
            return {"yes": True, "true": True, "no": False, "false": False}[answer.casefold()]
        return {"string": str, "integer": int, "number": float}[str(kind)](answer)
    except (KeyError, ValueError) as error:
        raise Declined(f"the answer is not of type {kind}") from error


def _clean_words(text: str, length: int) -> str:
    return defuse(clean(" ".join(text.split())))[:length]
