"""The shape of a call: the facts that patterns of rules look at. Tools describe it, asks keep it. Pure."""

from msgspec import Struct


class CallShape(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What patterns look at in a call: the words of a plain command, the files it edits, or the host it reads from."""

    # The words of a plain command, and the real path that each would have as a path.
    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    # The real working directory.
    cwd: str = ""
    # The real paths of the files that an edit changes, and the directory that edits below are offered for.
    places: tuple[str, ...] = ()
    # Where pages or results come from: a scheme with host and port, or the name of a search provider.
    host: str = ""
