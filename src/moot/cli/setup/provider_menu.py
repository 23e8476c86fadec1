"""Lets a person choose a provider from a menu, or give the address of a server. Used by `moot init`."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.cli import output, prompts
from moot.cli.render import sanitize
from moot.cli.setup.providers import BY_KEY, OWN_SERVER, WITH_HANDS, Candidate
from moot.daemon.config.model_keys import find_url_problem


def choose_provider(detected: Sequence[Candidate]) -> Candidate:
    there = {each.name for each in detected}
    found = [*detected, WITH_HANDS, *(each for each in BY_KEY if each.name not in there), OWN_SERVER]
    for number, each in enumerate(found, 1):
        output.print_note(f"  {number}. {each.title}{_describe_source(each, is_found=each.name in there)}")
    chosen = found[prompts.ask_number("Which one", default=1, most=len(found)) - 1]
    if chosen.provider == "local":
        return chosen
    if chosen.is_own:
        address = _ask_address()
        return replace(chosen, title=address, base_url=address)
    return replace(chosen, model=prompts.ask_line("Model (empty lets Moot choose)", default=chosen.model))


def _ask_address() -> str:
    """The address of an OpenAI-compatible server; prompts until it can be one."""
    while True:
        address = prompts.ask_line("Address, such as http://127.0.0.1:8000/v1")
        problem = find_url_problem(address) if address else ""
        if address and not problem:
            return address
        if problem:
            output.print_note(output.wrap_prose(problem.replace("`base_url`", "The address", 1) + "."))


def _describe_source(candidate: Candidate, *, is_found: bool) -> str:
    model = f", {sanitize.name(candidate.model)}" if candidate.model and candidate.provider != "local" else ""
    if not candidate.variable:
        return model
    return f" ({candidate.variable} is set){model}" if is_found else " (asks for a key)"
