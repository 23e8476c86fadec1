"""Chooses one of the models that a server lists. Used by `moot init`."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.cli import output, prompts
from moot.cli.render import sanitize
from moot.cli.setup.providers import Candidate, pick_name

# So many models of a server are listed.
_LISTED = 30


def choose_model(candidate: Candidate, names: Sequence[str], *, may_ask: bool) -> Candidate:
    """The candidate with one of these models; a person chooses, unless it is known which are good ones."""
    best = pick_name(names, candidate.prefer)
    if len(names) > 1 and may_ask and not candidate.prefer:
        best = _ask_model(names, best)
    elif len(names) > 1:
        listed = sanitize.line(", ".join(names[:_LISTED])) + (", …" if len(names) > _LISTED else "")
        told = f"Using {sanitize.line(best)}, one of {len(names)} models ({listed}); --model NAME uses another."
        output.print_note(output.wrap_prose(told, indent="  "))
    return replace(candidate, model=best)


def _ask_model(names: Sequence[str], best: str) -> str:
    """Let the person choose by number or by name."""
    output.print_note("The server lists these models:")
    for number, name in enumerate(names[:_LISTED], 1):
        output.print_note(f"  {number}. {sanitize.line(name)}")
    if len(names) > _LISTED:
        output.print_note(f"  and {len(names) - _LISTED} more, which can be given by name")
    while True:
        typed = prompts.ask_line("Which one", default=str(names.index(best) + 1))
        if typed in names:
            return typed
        if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(names):
            return names[int(typed) - 1]
        output.print_note(f"A number from 1 to {len(names)}, or a name, please.")
