"""References in commands and how they become variables; what is masked of a call."""

import subprocess

import pytest

from moot.domain.errors import BadRequest
from moot.domain.prompt import ToolSpec
from moot.domain.redaction import MASK, mask_arguments, mask_call
from moot.domain.secret import check_name, check_value, references, through_environment

VALUE = "a'b\"c $HOME `id` $(id) \\ *;&|\n#end"


def test_references_are_found_where_they_stand() -> None:
    found = references("x {{secret:A_1}} {{ decrypt:9f.b-c }} {{secret:}} {{other:A}} {secret:A}")
    assert [(each.kind, each.name) for each in found] == [("secret", "A_1"), ("decrypt", "9f.b-c")]


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("printf %s {{secret:A}}", VALUE),
        ('printf %s "x {{secret:A}} y"', f"x {VALUE} y"),
        ("printf %s 'x {{secret:A}} y'", f"x {VALUE} y"),
        ('printf %s \\"{{secret:A}}', f'"{VALUE}'),
        ("printf %s \"it's {{secret:A}}\"'{{secret:A}}'", f"it's {VALUE}{VALUE}"),
        ("printf %s a{{secret:A}}b # it's fine\nprintf %s '{{secret:A}}'", f"a{VALUE}b{VALUE}"),
    ],
)
def test_a_reference_is_one_word_to_the_shell_however_it_is_quoted(command: str, printed: str) -> None:
    text, variables = through_environment(command, {"{{secret:A}}": VALUE})
    assert VALUE not in text
    done = subprocess.run(["/bin/sh", "-c", text], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == printed


def test_two_references_that_would_share_a_variable_get_two() -> None:
    text, variables = through_environment(
        "{{secret:a.b}} {{secret:a-b}}", {"{{secret:a.b}}": "1", "{{secret:a-b}}": "2"}
    )
    assert text == '"${MOOT_SECRET_A_B}" "${MOOT_SECRET_A_B_2}"'
    assert variables == {"MOOT_SECRET_A_B": "1", "MOOT_SECRET_A_B_2": "2"}


def test_a_reference_in_a_here_document_is_refused() -> None:
    with pytest.raises(BadRequest, match="here-document"):
        through_environment("cat <<EOF\n{{secret:A}}\nEOF", {"{{secret:A}}": VALUE})


def test_a_command_without_references_is_left_alone() -> None:
    assert through_environment("echo {{x}}", {}) == ("echo {{x}}", {})


@pytest.mark.parametrize("name", ["", "1A", "a b", "a}}", "../x", "é", "A" * 65, "a\n"])
def test_a_name_that_could_not_be_referred_to_is_refused(name: str) -> None:
    with pytest.raises(BadRequest):
        check_name(name)


@pytest.mark.parametrize("value", ["", "abc", "x" * 16_385, "with\0nul"])
def test_a_value_that_cannot_be_kept_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_value(value)
    assert not value or value not in refused.value.message


def spec(**properties: object) -> ToolSpec:
    return ToolSpec(name="t", description="", parameters={"type": "object", "properties": properties})


STORE = spec(name={"type": "string"}, value={"type": "string", "x-secret": True})


def test_a_secret_argument_is_masked_and_the_others_stay() -> None:
    given = {"name": "A", "value": "hush"}
    assert mask_arguments(STORE, given) == {"name": "A", "value": MASK}
    assert given["value"] == "hush"


def test_an_argument_nobody_declared_is_masked_beside_a_secret_one() -> None:
    assert mask_arguments(STORE, {"name": "A", "Value": "hush"}) == {"name": "A", "Value": MASK}


def test_where_nothing_is_secret_the_arguments_are_the_same_object() -> None:
    given = {"name": "A"}
    assert mask_arguments(spec(name={"type": "string"}), given) is given


def test_secrets_deep_in_the_arguments_are_masked() -> None:
    deep = spec(
        logins={
            "type": "array",
            "items": {"type": "object", "properties": {"user": {}, "password": {"x-secret": True}}},
        },
        odd={"anyOf": [{"type": "string", "x-secret": True}, {"type": "integer"}]},
    )
    given = {"logins": [{"user": "ada", "password": "hush"}, "hush"], "odd": "hush"}
    masked = {"logins": [{"user": "ada", "password": MASK}, MASK], "odd": MASK}
    assert mask_arguments(deep, given) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"name":"A","value":"hush"}', '{"name":"A","value":"[SECRET]"}'),
        ('{"name":"A","value":"hush', "{}"),
        ('["hush"]', "{}"),
        ("", "{}"),
    ],
)
def test_the_text_of_a_call_is_masked_or_dropped(text: str, masked: str) -> None:
    assert mask_call(STORE, text) == masked
    assert mask_call(spec(name={}), text) == text
