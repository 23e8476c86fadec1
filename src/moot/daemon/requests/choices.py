"""Chooses what a request names, and fills pages of lists. Used by graph.py and knowledge.py."""

from collections.abc import Callable, Iterable, Mapping, MutableSequence
from typing import TypeVar

from google.protobuf.message import Message

from moot.daemon.requests.pages import PAGE_BYTES
from moot.domain.errors import BadRequest
from moot.domain.near_names import suggest_name

T = TypeVar("T")


Info = TypeVar("Info", bound=Message)


def choose(table: Mapping[str, T], name: str, what: str) -> T:
    """Return the entry with this name. Raise BadRequest with the nearest name if there is none."""
    found = table.get(name)
    if found is None:
        raise BadRequest(f"{name[:40]!r} is not a {what}", fix=f"{suggest_name(name, table)}Use {', '.join(table)}.")
    return found


def fill_page(page: MutableSequence[Info], found: Iterable[T], describe: Callable[[T], Info], *, most: int) -> T | None:
    """Add the infos that fit into one answer. Return the last item on the page if there may be more, else None."""
    room, last, left = PAGE_BYTES, None, 0
    items = list(found)
    for number, item in enumerate(items):
        info = describe(item)
        room -= info.ByteSize()
        if room < 0 and page:
            left = len(items) - number
            break
        page.append(info)
        last = item
    return last if left or len(items) == most else None
