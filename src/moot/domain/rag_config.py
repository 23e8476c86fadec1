"""The table [rag] of config.toml: what may be indexed, and what vectors are made with. Read by `daemon/config`."""

from collections.abc import Collection

from msgspec import Struct

# Vectors from the words of a text, with what ships with Moot.
LOCAL_EMBEDDINGS = "local"
# No vectors: passages are found by their words alone.
NO_EMBEDDINGS = "none"
# Vectors from a model of a configured provider: provider:NAME/MODEL.
PROVIDER_EMBEDDINGS = "provider:"


class RagConfig(Struct, frozen=True, kw_only=True):
    """[rag]. `embeddings` is `local`, `none` or `provider:NAME/MODEL`."""

    enabled: bool = True
    embeddings: str = LOCAL_EMBEDDINGS
    # The limits of a folder, of a file, of the text in it, and of all that one agent indexes for one sender.
    max_files: int = 10_000
    max_file_bytes: int = 20_971_520
    # What one archive unpacks to.
    max_unpacked_bytes: int = 104_857_600
    max_characters: int = 4_000_000
    max_passages: int = 200_000
    # How long one file may take to be read.
    read_seconds: float = 30.0
    # How often a search looks whether files have changed, and how long it waits until they are indexed.
    check_seconds: float = 5.0
    refresh_seconds: float = 10.0

    @property
    def has_provider(self) -> bool:
        """Whether vectors are made elsewhere."""
        return self.embeddings.startswith(PROVIDER_EMBEDDINGS)


def split_embeddings(embeddings: str, names: Collection[str]) -> tuple[str, str] | None:
    """Return NAME and MODEL of `provider:NAME/MODEL`, where NAME is one of the configured; None if it is not so.

    Both may have slashes in them.
    """
    parts = embeddings.removeprefix(PROVIDER_EMBEDDINGS).split("/")
    splits = [("/".join(parts[:place]), "/".join(parts[place:])) for place in range(len(parts) - 1, 0, -1)]
    return next(((name, model) for name, model in splits if name in names and model.strip("/ ")), None)
