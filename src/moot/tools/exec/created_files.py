"""Which files the runs of a tree created themselves, and which older ones a command would delete or overwrite.

Used by `exec_tools`; the log of the file tools knows what these created.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from threading import Lock

from moot.domain.ports.tool import RunContext

_MOST_TREES = 1_000
_MOST_FILES = 1_000
_MOST_ENTRIES = 1_000

# Whether the file tools created the file at a real path in the tree of runs of this root.
HasCreated = Callable[[str, str], bool]


class CreatedFiles:
    """In memory: after a restart, every file that exists counts as older than the run."""

    def __init__(self, has_created: HasCreated) -> None:
        self._has_created = has_created
        # Tools work in threads.
        self._lock = Lock()
        self._created: OrderedDict[str, set[str]] = OrderedDict()

    def note(self, names: Sequence[str], context: RunContext) -> None:
        """Note which files a command is about to create. `names` are those it writes if they exist or not."""
        fresh = {place for place in _resolve(names, context.cwd) if not os.path.lexists(place)}
        if not fresh:
            return
        with self._lock:
            created = self._created.setdefault(_root(context), set())
            if len(created) + len(fresh) <= _MOST_FILES:
                created |= fresh
            self._created.move_to_end(_root(context))
            if len(self._created) > _MOST_TREES:
                self._created.popitem(last=False)

    def find_older(self, names: Sequence[str], context: RunContext) -> list[str]:
        """Return the files below the working directory that would be lost and that this tree of runs did not create.

        A command can write nowhere else. An empty file has nothing to lose.
        """
        top = os.path.realpath(context.cwd)
        places = _resolve(names, context.cwd)
        return [os.path.relpath(place, top) for place in places if self._is_older(place, context)]

    def _is_older(self, place: str, context: RunContext) -> bool:
        if place.endswith("/"):
            return any(self._is_older(each, context) for each in _list_folder(place))
        if os.path.isfile(place) and os.path.getsize(place):
            with self._lock:
                is_own = place in self._created.get(_root(context), ())
            return not is_own and not self._has_created(_root(context), place)
        return False


def _root(context: RunContext) -> str:
    return context.root_id or context.run_id


def _resolve(names: Sequence[str], cwd: str) -> list[str]:
    """The real paths below the working directory; a name that ends in / keeps that."""
    top = os.path.realpath(cwd)
    found = []
    for name in names:
        try:
            place = os.path.realpath(os.path.join(top, name))
        except OSError:
            # A link that was replaced meanwhile. Without it the path is still compared as it is written.
            place = os.path.normpath(os.path.join(top, name))
        if place == top or place.startswith(f"{top}/"):
            found.append(f"{place}/" if name.endswith("/") else place)
    return list(dict.fromkeys(found))


def _list_folder(folder: str) -> list[str]:
    """The first files in a folder and below it."""
    files = (os.path.join(above, name) for above, _, names in os.walk(folder) for name in names)
    return list(islice(files, _MOST_ENTRIES))
