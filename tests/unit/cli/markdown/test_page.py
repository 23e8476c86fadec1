"""Pages of documentation: paragraphs are joined, and nothing else is."""

import pytest

from moot.cli.markdown.page import join_paragraphs, render_page


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("One\ntwo.\n\nThree.", "One two.\n\nThree."),
        ("# Title\nText\nmore.", "# Title\nText more."),
        ("- an item\n  goes on\n- another", "- an item goes on\n- another"),
        ("Code:\n\n    first   # a\n    second  # b", "Code:\n\n    first   # a\n    second  # b"),
        ("```\nfirst\nsecond\n```\nText\nmore.", "```\nfirst\nsecond\n```\nText more."),
        ("| a | b |\n|---|---|\n| c | d |\nText.", "| a | b |\n|---|---|\n| c | d |\nText."),
    ],
)
def test_only_paragraphs_and_items_are_joined(text: str, joined: str) -> None:
    assert join_paragraphs(text) == f"{joined}\n"


def test_colours_are_escape_sequences_and_only_where_they_are_wanted() -> None:
    assert render_page("Use `moot up`.", 40, colours=False) == "Use moot up.\n"
    assert "\x1b[" in render_page("Use `moot up`.", 40, colours=True)
