"""The table [rag] of config.toml: what may be indexed, and what vectors are made with. Read by `daemon/config`."""

from msgspec import Struct

# Vectors from the words of a text, with what ships with Moot.
LOCAL_EMBEDDINGS = "local"
# No vectors: passages are found by their words alone.
NO_EMBEDDINGS = "none"


class RagConfig(Struct, frozen=True, kw_only=True):
    """[rag]. `embeddings` is `local` or `none`."""

    enabled: bool = True
    embeddings: str = LOCAL_EMBEDDINGS
    # The limits of a folder, of a file, of the text in it, and of all that one agent indexes for one sender.
    max_files: int = 10_000
    max_file_bytes: int = 20_971_520
    max_characters: int = 4_000_000
    max_passages: int = 200_000
    # How long one file may take to be read.
    read_seconds: float = 30.0
    # How often a search looks whether files have changed, and how long it waits until they are indexed.
    check_seconds: float = 5.0
    refresh_seconds: float = 10.0
