"""Titles: the first sentence of whatever a model wrote as a summary."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.domain.title import TITLE_LENGTH, clip_title, title_of

FAMILY = "👨\u200d👩\u200d👧\u200d👦"


@pytest.mark.parametrize(
    ("summary", "title"),
    [
        ("Pricing analysis for solo dev tools. More follows.", "Pricing analysis for solo dev tools."),
        ("Version 2.5 is out! Good.", "Version 2.5 is out!"),
        ("no full stop", "no full stop"),
        ("two\nlines. here", "two lines."),
        ("x" * 80, "x" * 60),
        ("", ""),
        # Abbreviations, initials and ordinals.
        ("Dr. Smith met Mrs. Jones. They agreed.", "Dr. Smith met Mrs. Jones."),
        ("We compared breads, e.g. rye. Then wheat.", "We compared breads, e.g. rye."),
        ("Brot, z. B. Roggen, wurde besprochen. Danach Weizen.", "Brot, z. B. Roggen, wurde besprochen."),
        ("Brot, z.B. Roggen, wurde besprochen. Danach Weizen.", "Brot, z.B. Roggen, wurde besprochen."),
        ("Termin am 3. Oktober vereinbart. Ort ist offen.", "Termin am 3. Oktober vereinbart."),
        ("J. R. R. Tolkien was read. Then others.", "J. R. R. Tolkien was read."),
        ("Rye, wheat etc. were bought. More.", "Rye, wheat etc. were bought."),
        ("They bought rye etc. Ada paid.", "They bought rye etc."),
        ("See no. 5 of the list. More.", "See no. 5 of the list."),
        ("Ada said no. Bob agreed.", "Ada said no."),
        ("Es ging um Brot bzw. Kuchen. Mehr.", "Es ging um Brot bzw. Kuchen."),
        ("El Sr. García y la Dra. López hablaron. Luego más.", "El Sr. García y la Dra. López hablaron."),
        ("Un viaje a EE. UU. en mayo. Luego más.", "Un viaje a EE. UU. en mayo."),
        ("Es ging um 3 Mio. Euro. Mehr.", "Es ging um 3 Mio. Euro."),
        ("Il s'agit de l'art. 5 du code. Puis rien.", "Il s'agit de l'art. 5 du code."),
        ("Der Dipl.-Ing. Meier wohnt Hauptstr. 5. Mehr.", "Der Dipl.-Ing. Meier wohnt Hauptstr. 5."),
        ("Ada, a Ph.D. student, asked. More.", "Ada, a Ph.D. student, asked."),
        ("They don't. Bob does.", "They don't."),
        ("“Why?” asked Ada. Nobody knew.", "“Why?” asked Ada."),
        ("Ada wondered... and went. More.", "Ada wondered... and went."),
        ("It costs 1.50 at example.com now. More.", "It costs 1.50 at example.com now."),
        # Other scripts.
        ("讨论了面包。阿达喜欢黑麦。", "讨论了面包。"),
        ("パンを買った！次は牛乳。", "パンを買った！"),
        ("रोटी पर चर्चा हुई। फिर दूध।", "रोटी पर चर्चा हुई।"),
        ("هل نشتري الخبز؟ نعم.", "هل نشتري الخبز؟"),
        ("他说：「好。」然后走了。", "他说：「好。」"),
        # Markdown.
        ("# Bread\n\nAda likes rye.", "Bread"),
        ("## Summary\n\nAda likes **rye**. More.", "Ada likes rye."),
        ("**Bread and rye**\n\nAda likes it.", "Bread and rye"),
        ("**Title:** Bread. More.", "Bread."),
        ("Summary: Bread was bought. More.", "Bread was bought."),
        ("- Ada likes `rye`. \n- Bob likes wheat.", "Ada likes rye."),
        ("1. Ada likes rye\n2. Bob likes wheat", "Ada likes rye"),
        ("---\n\n> Ada *really* likes [rye](https://example.org/rye). More.", "Ada really likes rye."),
        ("```\ncode\n```\nAda likes rye.", "code"),
        ("Set max_tokens in config_file. More.", "Set max_tokens in config_file."),
        ("Use HashMap<From, To> here. More.", "Use HashMap<From, To> here."),
        ("**", "**"),
        # Cut on what a reader takes for one character.
        ("x" * 58 + FAMILY + " and more. Rest.", "x" * 58),
        ("x" * 53 + FAMILY + " and more. Rest.", "x" * 53 + FAMILY),
        ("x" * 59 + "🇩🇪🇩🇪. Rest.", "x" * 59),
        ("x" * 59 + "👍🏽 yes. Rest.", "x" * 59),
        ("a" * 59 + "e\u0301e\u0301", "a" * 59),
    ],
)
def test_the_title_is_the_first_sentence(summary: str, title: str) -> None:
    assert title_of(summary) == title


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab .!?…*_`#->1)[](\n。\u200d👍\u0301"), max_size=300))
def test_a_title_is_one_line_of_at_most_sixty_characters_and_its_own_clipping(summary: str) -> None:
    title = title_of(summary)
    assert len(title) <= TITLE_LENGTH
    assert "\n" not in title
    assert clip_title(title) == title


def test_a_character_longer_than_a_title_is_cut() -> None:
    assert clip_title("e" + "\u0301" * 100) == "e" + "\u0301" * 59
