"""Lists the models of a server through the daemon, and chooses one. Used by `moot init`."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from moot.cli import output, prompts
from moot.cli.connect import daemon_client
from moot.cli.render import sanitize
from moot.cli.setup.providers import Candidate, describe_server, pick_name
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb

# So many models of a server are listed.
_LISTED = 30


async def list_through_daemon(candidate: Candidate, environ: Mapping[str, str]) -> list[str]:
    """The models of a server whose key, or the address of the proxy before it, only the daemon can read."""
    server = describe_server(candidate, environ)
    given = pb.ModelCandidate(
        provider=server.provider, base_url=server.base_url, key=server.key, api_key=candidate.api_key
    )
    request = pb.ListServerModelsMsg(name=server.name, server=given, variable=server.variable)
    async with daemon_client(notify=False) as connection:
        # The file may name another proxy than the one the daemon has read.
        await connection.request(pb.ClientMessage(reload=pb.ReloadMsg()))
        found = await connection.request(pb.ClientMessage(list_server_models=request))
    return list(found.server_models.names)


def choose_model(candidate: Candidate, names: Sequence[str], *, may_ask: bool, may_pick: bool) -> Candidate:
    """The candidate with one of these models.

    If it is not known which are good ones, a person chooses; with `may_pick` it is the first. Raises BadRequest if
    there is nobody to choose.
    """
    best = pick_name(names, candidate.prefer)
    if len(names) > 1 and not best:
        if may_ask:
            return replace(candidate, model=_ask_model(names))
        if not may_pick:
            raise BadRequest(
                f"{sanitize.line(candidate.title)} lists {len(names)} models: {_join(names)}",
                fix="Choose one with --model NAME, or add --yes for the first one.",
            )
    best = best or names[0]
    if len(names) > 1:
        note = f"Using {sanitize.line(best)}, one of {len(names)} models ({_join(names)}); --model NAME uses another."
        output.print_note(output.wrap_prose(note, indent="  "))
    return replace(candidate, model=best)


def _join(names: Sequence[str]) -> str:
    return sanitize.line(", ".join(names[:_LISTED])) + (", …" if len(names) > _LISTED else "")


def _ask_model(names: Sequence[str]) -> str:
    """Let the person choose by number or by name."""
    output.print_note("The server lists these models:")
    for number, name in enumerate(names[:_LISTED], 1):
        output.print_note(f"  {number}. {sanitize.line(name)}")
    if len(names) > _LISTED:
        output.print_note(f"  and {len(names) - _LISTED} more, which can be given by name.")
    while True:
        typed = prompts.ask_line("Which one", default="1")
        if typed in names:
            return typed
        if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(names):
            return names[int(typed) - 1]
        output.print_note(f"A number from 1 to {len(names)}, or a name, please.")
