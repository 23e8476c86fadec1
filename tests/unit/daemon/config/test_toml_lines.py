import tomllib

from hypothesis import given
from hypothesis import strategies as st

from moot.daemon.config.toml_lines import find_key_lines, find_line

TEXT = '''# a comment = 1
top = 1
text = """
fake = 1
[not.a.table]
"""
list = [
  "a = 1", # [x]
  { b = 2 },
]
raw = \'\'\'
also = "fake"\'\'\'

[models.fast] # comment
model = "m#1"
"quoted key" = { inner = 1 }
dotted.name = true

[[many]]
one = 1
[ models . "other one" ]
model = 'x'
'''


def test_every_key_is_found_on_its_line() -> None:
    lines = find_key_lines(TEXT)

    assert lines == {
        ("top",): 2,
        ("text",): 3,
        ("list",): 7,
        ("raw",): 11,
        ("models", "fast"): 14,
        ("models", "fast", "model"): 15,
        ("models", "fast", "quoted key"): 16,
        ("models", "fast", "dotted", "name"): 17,
        ("many",): 19,
        ("many", "one"): 20,
        ("models", "other one"): 21,
        ("models", "other one", "model"): 22,
    }


def test_the_example_is_valid_toml() -> None:
    assert set(tomllib.loads(TEXT)) == {"top", "text", "list", "raw", "models", "many"}


def test_a_key_inside_an_inline_table_counts_for_its_owner() -> None:
    lines = find_key_lines(TEXT)

    assert find_line(lines, ("models", "fast", "quoted key", "inner")) == 16
    assert find_line(lines, ("nowhere",)) == 1


@given(st.text(max_size=200))
def test_no_text_makes_the_search_fail_or_hang(text: str) -> None:
    find_key_lines(text)
