"""What the redactor finds, in which shapes, and what it leaves alone."""

import base64
import html
import json
import logging
import random
import re
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.redaction.redactor import LogRedaction, Redactor
from tests.secret_shapes import canonical, columns, octal_dump

SECRET = 'p/+w"ö-7f3a9c1e5d2b8460\\x'
PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIGZ5\nq3v0Zx8Ls1TtQm4Kp7Yw2NcR\n-----END PRIVATE KEY-----\n"


def knowing(**values: str) -> Redactor:
    redactor = Redactor()
    redactor.register_all(values)
    return redactor


def shapes(value: str) -> dict[str, str]:
    data = value.encode()
    return {
        "raw": value,
        "hex": data.hex(),
        "upper hex": data.hex().upper(),
        "quoted": quote(value),
        "quoted whole": quote(value, safe=""),
        "form": quote_plus(value),
        "quoted twice": quote(quote(value, safe=""), safe=""),
        "every byte quoted": "".join(f"%{byte:02X}" for byte in data),
        "every byte quoted small": "".join(f"%{byte:02x}" for byte in data),
        "html": html.escape(value),
        "json": json.dumps(value),
        "json unicode": json.dumps(value, ensure_ascii=False),
        "repr": repr([value]),
        "bytes": repr({"value": value.encode()}),
        "json in json": json.dumps(json.dumps({"value": value})),
    }


@pytest.mark.parametrize("shape", shapes(SECRET))
def test_a_secret_is_found_in_every_shape(shape: str) -> None:
    text = f"before {shapes(SECRET)[shape]} after"
    redacted = knowing(key=SECRET).mask_secrets(text)
    assert "[SECRET:key]" in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert "7f3a9c1e5d2b8460" not in redacted
    assert b"7f3a9c1e5d2b8460".hex() not in redacted.lower()


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("after", ["", "z", "zz", "zzz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_found_in_base64_wherever_it_stands_in_what_was_encoded(
    before: str, after: str, encode: Callable[[bytes], bytes]
) -> None:
    text = encode(f"{before}{SECRET}{after}".encode()).decode()
    redacted = knowing(key=SECRET).mask_secrets(f"x={text}")
    assert "[SECRET:key]" in redacted
    # What is left of the encoding are the characters that others decide too.
    left = redacted.replace("[SECRET:key]", "").removeprefix("x=").rstrip("=")
    assert len(left) <= (len(before) + len(after)) * 4 // 3 + 4


def test_base64_broken_into_lines_is_found_too() -> None:
    text = base64.encodebytes(b"x" * 40 + SECRET.encode() + b"y" * 40).decode()
    assert SECRET.encode() in base64.b64decode(text)
    redacted = knowing(key=SECRET).mask_secrets(text)
    assert "[SECRET:key]" in redacted
    assert b"7f3a9c1e5d" not in base64.b64decode(redacted.replace("[SECRET:key]", "").replace("\n", "") + "====")


WRITTEN = {
    "base32": lambda data: base64.b32encode(data).decode(),
    "small base32": lambda data: base64.b32encode(data).decode().lower(),
    "base32 in lines": lambda data: "\n".join(re.findall(".{1,20}", base64.b32encode(data).decode())),
    "base64 twice": lambda data: base64.b64encode(base64.b64encode(data)).decode(),
    "base64 twice for addresses": lambda data: base64.urlsafe_b64encode(base64.urlsafe_b64encode(data)).decode(),
    "base64 twice, in lines twice": lambda data: base64.encodebytes(base64.encodebytes(data)).decode(),
    "base64 twice, in lines the first time": lambda data: base64.b64encode(base64.encodebytes(data)).decode(),
    "hex with spaces": lambda data: data.hex(" "),
    "hex with colons": lambda data: data.hex(":").upper(),
    "hex with hyphens": lambda data: data.hex("-"),
    "hex of a program": lambda data: ", ".join(f"0x{byte:02X}" for byte in data),
    "hex of a string": lambda data: "".join(f"\\x{byte:02x}" for byte in data),
    "hex in lines": lambda data: "\n".join(re.findall(".{1,60}", data.hex())),
    "od": octal_dump,
    "xxd": columns,
    "hexdump": canonical,
}
SECRETS = st.text(string.ascii_letters + string.digits + "-_/+=.", min_size=20, max_size=70)


@pytest.mark.parametrize("written", WRITTEN)
@settings(max_examples=25, deadline=None)
@given(value=SECRETS, before=st.binary(max_size=120), after=st.binary(max_size=120))
def test_a_secret_is_found_however_its_bytes_are_written(written: str, value: str, before: bytes, after: bytes) -> None:
    text = WRITTEN[written](before + value.encode() + after)
    for around in ("", "It printed: ", "It printed:\n"):
        redacted = knowing(key=value).mask_secrets(f"{around}{text}\nand that was all.")
        assert "[SECRET:key]" in redacted
        assert redacted.startswith(around)
        assert redacted.endswith("\nand that was all.")
        # Beside a dump the same bytes stand as text; they go with their line.
        assert not any(piece in redacted for piece in re.findall(".{12}", value) if len(set(piece)) > 4)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), value=st.text(st.characters(min_codepoint=33, max_codepoint=0x4FF), min_size=8, max_size=40))
def test_a_secret_is_found_whichever_of_its_characters_are_escaped(data: st.DataObject, value: str) -> None:
    escaped = data.draw(st.lists(st.booleans(), min_size=len(value), max_size=len(value)))
    # What JSON cannot do without, and any other.
    text = "".join(
        f"\\u{ord(each):04x}" if wanted or each in '"\\' else each for each, wanted in zip(value, escaped, strict=True)
    )
    assert json.loads(f'"{text}"') == value
    for shown in (f'{{"v": "{text}"}}', json.dumps(f'{{"v": "{text}"}}', ensure_ascii=False)):
        assert "[SECRET:key]" in knowing(key=value).mask_secrets(shown)


def test_numbers_that_stand_about_are_not_taken_for_bytes() -> None:
    redactor = knowing(pin="4711", word="swordfish")
    for text in (
        "34 chairs, 37 tables and 31 of 31 guests",
        "3 4371 31",
        "34\n\n37, then 31, then 31",
        "7 377 6f7 264",
    ):
        assert redactor.mask_secrets(text) == text
    assert redactor.mask_secrets("so 34 37 31 31.") == "so [SECRET:pin]."
    assert redactor.mask_secrets("so 34, 37, 31, 31.") == "so [SECRET:pin]."


def test_of_a_dump_only_the_lines_go_that_show_a_secret() -> None:
    redactor = knowing(word="swordfish-of-the-house")
    shown = columns(b"A first line, sixteen... then swordfish-of-the-house, and one more line after it.")
    lines = shown.splitlines()
    assert redactor.mask_secrets(shown).splitlines() == [
        lines[0],
        "00000010: 7874 6565 6e2e 2e2e 2074 6865 6e20 [SECRET:word]",
        *lines[4:],
    ]


def test_each_line_of_a_private_key_is_a_secret_and_its_frame_is_not() -> None:
    redacted = knowing(deploy=PEM).mask_secrets("grep: MC4CAQAwBQYDK2VwBCIEIGZ5\n-----BEGIN PRIVATE KEY-----")
    assert redacted == "grep: [SECRET:deploy]\n-----BEGIN PRIVATE KEY-----"


def test_of_two_secrets_the_longer_one_is_seen() -> None:
    redactor = knowing(short="abcdefgh", long="abcdefghijklmnop")
    assert redactor.mask_secrets("abcdefghijklmnop abcdefgh") == "[SECRET:long] [SECRET:short]"


def test_a_value_that_was_replaced_is_still_not_shown() -> None:
    redactor = knowing(token="first-value-1234")
    redactor.register("token", "second-value-5678")
    assert redactor.mask_secrets("first-value-1234 second-value-5678") == "[SECRET:token] [SECRET:token]"


def test_what_is_forgotten_is_shown_again() -> None:
    redactor = knowing(one="value-of-one-1", two="value-of-two-2")
    redactor.forget("one")
    assert redactor.mask_secrets("value-of-one-1 value-of-two-2") == "value-of-one-1 [SECRET:two]"


def test_a_short_secret_is_found_and_one_of_three_characters_is_let_be() -> None:
    redactor = knowing(pin="4711", tiny="abc")
    assert redactor.mask_secrets("pin 4711, abc") == "pin [SECRET:pin], abc"


def test_a_key_of_a_local_server_is_a_word_like_any_other() -> None:
    redactor = Redactor()
    redactor.register_key("KEY", "ollama")
    redactor.register_key("LONG", "sk-12345")
    assert redactor.mask_secrets("ollama knows sk-12345") == "ollama knows [SECRET:LONG]"


SOME = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=4, max_size=60)


@settings(max_examples=80, deadline=None)
@given(value=SOME, before=st.text(max_size=40), after=st.text(max_size=40))
def test_no_secret_survives_anywhere_in_any_text(value: str, before: str, after: str) -> None:
    redacted = knowing(s=value).mask_secrets(before + value + after)
    rest = redacted.replace("[SECRET:s]", "\0")
    assert value not in rest


@settings(max_examples=80, deadline=None)
@given(data=st.data(), value=st.text("abAB12", min_size=8, max_size=40))
def test_a_stream_shows_what_the_whole_text_shows(data: st.DataObject, value: str) -> None:
    redactor = knowing(s=value)
    text = data.draw(st.text("abAB12 ", max_size=30)) + value + data.draw(st.text("abAB12 ", max_size=30)) + value[:-1]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    stream = redactor.open_stream()
    shown = [stream.feed(text[start:end]) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown.append(stream.rest())
    assert value not in "".join(shown)
    # Of the last one all but a letter is there, which is too much.
    whole = redactor.mask_secrets(text)
    assert "".join(shown) in (whole, whole.removesuffix(value[:-1]) + "[SECRET:s]")


def test_a_stream_holds_back_only_what_may_be_the_beginning_of_a_secret() -> None:
    stream = knowing(s="zq-long-secret-value").open_stream()
    assert stream.feed("Hello, world. ") == "Hello, world. "
    assert stream.feed("The key is zq-lo") == "The key is "
    assert stream.feed("w tide. ") == "zq-low tide. "
    assert stream.feed("zq-long-s") == ""
    assert stream.rest() == "zq-long-s"


def test_a_secret_that_is_cut_off_at_the_end_is_not_shown_when_half_of_it_was_said() -> None:
    stream = knowing(s="zq-long-secret-value", t="another-secret").open_stream()
    assert stream.feed("It is zq-long-secret-valu") == "It is "
    assert stream.rest() == "[SECRET:s]"
    assert stream.feed("another-secretanother-sec") == "[SECRET:t]"
    assert stream.rest() == "[SECRET:t]"


def test_a_secret_that_goes_on_as_a_longer_one_is_not_torn() -> None:
    stream = knowing(short="abcdefgh", long="abcdefghijkl").open_stream()
    assert stream.feed("x abcdefgh") == "x "
    assert stream.feed("ij") == ""
    assert stream.feed("kl !") == "[SECRET:long] !"


def test_a_log_record_loses_secrets_and_personal_data_wherever_they_are() -> None:
    redactor = knowing(key=SECRET)
    try:
        raise ValueError(f"bad token {SECRET}")
    except ValueError as error:
        failed = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", 20, __file__, 1, "sent %s to %s", (SECRET, "ada@example.org"), failed)
    record.header = f"Bearer {SECRET}"
    assert LogRedaction(redactor).filter(record)
    line = logging.Formatter("%(message)s %(header)s").format(record)
    assert line.startswith("sent [SECRET:key] to [EMAIL] Bearer [SECRET:key]\nTraceback")
    assert "bad token [SECRET:key]" in line
    assert record.exc_info is None
    assert "7f3a9c1e5d" not in repr(record.__dict__)


def test_a_log_record_that_does_not_fit_its_arguments_is_kept() -> None:
    record = logging.LogRecord("x", 20, __file__, 1, "only %s and %s", (SECRET,), None)
    assert LogRedaction(knowing(key=SECRET)).filter(record)
    assert "[SECRET:key]" in record.getMessage()
    assert SECRET not in record.getMessage()


@pytest.mark.parametrize("shape", ["raw", "every byte quoted", "in lines"])
def test_a_secret_is_found_wherever_it_stands_in_a_long_text(shape: str) -> None:
    long = shapes(SECRET) | {"in lines": "\n".join(re.findall(".{1,5}", base64.b64encode(SECRET.encode()).decode()))}
    redactor = knowing(key=SECRET, other="another-secret-of-the-house")
    whole = redactor.mask_secrets(long[shape])
    rng = random.Random(7)
    for _ in range(60):
        before, after = "word " * rng.randrange(40_000), " more" * rng.randrange(40_000)
        text = f"{before}{long[shape]}{after}"
        # Also right at a place where a long text would be cut.
        text = f"{text[:32_760]}{long[shape]}{text[32_760:]}" if len(before) > 40_000 else text
        assert redactor.mask_secrets(text) == text.replace(long[shape], whole)


def test_a_long_text_with_a_secret_in_it_is_looked_at_closely_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor()
    redactor.register_all({f"n{number}": f"{number:04}-{'Qz7'.join('abcdefghij')}/+é" for number in range(100)})
    text = "".join(random.Random(3).choices(string.ascii_letters + string.digits + " \n", k=1_000_000))
    found = f"{text}0042-{'Qz7'.join('abcdefghij')}/+é{text}"
    redactor.mask_secrets(found[-200:])
    looked_at: list[int] = []
    clean = redactor._clean_part

    def watched(part: bytes) -> bytes:
        looked_at.append(len(part))
        return clean(part)

    monkeypatch.setattr(redactor, "_clean_part", watched)
    assert redactor.mask_secrets(found) == f"{text}[SECRET:n42]{text}"
    assert 0 < sum(looked_at) < len(found) / 10


@pytest.mark.parametrize("scheme", ["http", "postgresql+psycopg", "redis"])
def test_the_login_of_an_address_is_found_apart_from_the_address(scheme: str) -> None:
    redactor = knowing(place=f"{scheme}://ada:pass%40word-77@db.example:5432/main?x=1")
    for form in ("pass%40word-77", "pass@word-77", "ada:pass@word-77"):
        for shape in (form, base64.b64encode(form.encode()).decode(), form.encode().hex(), json.dumps({"a": form})):
            redacted = redactor.mask_secrets(f"before {shape} after")
            assert "[SECRET:place]" in redacted
            assert not re.search(r"word-77|cGFzc|776f7264", redacted)
    # Neither the host nor the user is a secret, and neither is a password that is the user's name.
    assert knowing(place="redis://cache:cache@h/0").mask_secrets("cache db.example ada") == "cache db.example ada"
    assert redactor.mask_secrets("ada at db.example:5432") == "ada at db.example:5432"
