"""Paths in the daemon's own texts for a token."""

import pytest

from moot.daemon.path_mask import PATH, PathMask


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("cannot read /srv/models/a.gguf", f"cannot read {PATH}"),
        ("local:/srv/models/a.gguf is missing", f"local:{PATH} is missing"),
        ("line 3:/etc/moot/config.toml", f"line 3:{PATH}"),
        ("file:///srv/models/a.gguf", f"file:{PATH}"),
        ("FILE://localhost/srv/models/a.gguf", f"FILE:{PATH}"),
        ("(/srv/models)", f"({PATH}"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("agents/ada/AGENT.md and ./a/b", "agents/ada/AGENT.md and ./a/b"),
        ("/home/of owner/x y", f"{PATH} y"),
    ],
)
def test_a_path_is_replaced_wherever_it_stands(text: str, masked: str) -> None:
    assert PathMask(["/home/of owner"]).apply(text) == masked
