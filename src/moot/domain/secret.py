"""Secrets and keys: their metadata, and the references a model sees instead of values. Pure."""

import re

from msgspec import Struct

from moot.domain.errors import BadRequest

# Shorter values could not be redacted without damaging ordinary text.
SHORTEST_SECRET = 4
LONGEST_SECRET = 16 * 1024
NAME_LENGTH = 64

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{NAME_LENGTH - 1}}}")
_REFERENCE = re.compile(
    rf"\{{\{{\s*(?P<kind>secret|decrypt):(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{NAME_LENGTH - 1}}})\s*\}}\}}"
)
# What is shown instead of a secret; it is rejected as a value.
_MASK = re.compile(r"\s*\[SECRET(?::[^\[\]\s]*)?\]\s*")
_VARIABLE_PREFIX = "MOOT_SECRET_"


class SecretInfo(Struct, frozen=True, kw_only=True):
    """The public metadata of a secret, without its value."""

    name: str
    created_at: float
    updated_at: float
    uses: int = 0
    used_at: float = 0.0


class SealedSecret(Struct, frozen=True, kw_only=True):
    name: str
    sealed: bytes


class KeyInfo(Struct, frozen=True, kw_only=True):
    """A key for data (`type` encryption) or for signatures (`type` signing)."""

    id: str
    name: str
    type: str
    created_at: float
    used_at: float = 0.0


class SealedKey(Struct, frozen=True, kw_only=True):
    info: KeyInfo
    sealed: bytes


class Holder(Struct, frozen=True, kw_only=True):
    """The user of a secret: a tool of a run, or the owner at the command line (no run)."""

    agent: str = ""
    sender: str = ""
    run: str = ""
    tool: str = ""


class SecretUse(Struct, frozen=True, kw_only=True):
    """One audit entry: stored, referenced, resolved, deleted or decrypted, by whom and when."""

    name: str
    action: str
    holder: Holder
    at: float


class Reference(Struct, frozen=True):
    """A reference to a secret in a text: `token` as written, `kind` secret or decrypt."""

    token: str
    kind: str
    name: str
    start: int
    end: int


def secret_token(name: str) -> str:
    return "{{secret:" + name + "}}"


def decrypt_token(name: str) -> str:
    return "{{decrypt:" + name + "}}"


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"{name[:NAME_LENGTH]!r} cannot be the name of a secret",
            fix=f"Use letters, digits, _ . and -, beginning with a letter, at most {NAME_LENGTH} of them.",
        )
    return name


def check_value(value: str) -> str:
    """Return the value if it can be stored, else raise. The error never contains the value."""
    if not SHORTEST_SECRET <= len(value) <= LONGEST_SECRET:
        raise BadRequest(
            f"a secret has {SHORTEST_SECRET} to {LONGEST_SECRET} characters, this one has {len(value)}",
            fix="A shorter one could not be kept out of answers and logs; keep a longer one in a file of your own.",
        )
    if _MASK.fullmatch(value):
        raise BadRequest(
            "this is what is shown instead of a secret, not the secret",
            fix="Moot holds that value already; refer to it as {{secret:NAME}}.",
        )
    if "\0" in value:
        raise BadRequest("a secret cannot hold a NUL character", fix="Encode it first, as base64 for example.")
    return value


def references(text: str) -> list[Reference]:
    """Return the references in a text, in order. A call with one in its arguments carries a secret."""
    if "{{" not in text:
        return []
    return [
        Reference(match[0], match["kind"], match["name"], match.start(), match.end())
        for match in _REFERENCE.finditer(text)
    ]


def through_environment(command: str, values: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the shell command with each reference as a variable, and the environment with the values.

    Values never appear in a command line. `values` is the result of `Secrets.resolve`. The variable is quoted according
    to its position, so that the value is always a single word there.
    """
    found = [reference for reference in references(command) if reference.token in values]
    if not found:
        return command, {}
    variables: dict[str, str] = {}
    environment: dict[str, str] = {}
    pieces: list[str] = []
    state, done = "", 0
    for reference in found:
        before = command[done : reference.start]
        state = _quoting(before, state)
        name = variables.setdefault(reference.token, _variable(reference, environment))
        environment[name] = values[reference.token]
        pieces += (before, _quoted[state].format(name))
        done = reference.end
    return "".join((*pieces, command[done:])), environment


_quoted = {"": '"${{{}}}"', '"': "${{{}}}", "'": "'\"${{{}}}\"'"}


def _variable(reference: Reference, taken: dict[str, str]) -> str:
    name = _VARIABLE_PREFIX + re.sub(r"[^A-Za-z0-9_]", "_", reference.name).upper()
    number = 2
    unique = name
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique


def _quoting(text: str, state: str) -> str:
    """Return the quotes that are open after this part of a shell command: none, single or double."""
    if state == "" and "<<" in text:
        raise BadRequest(
            "a secret cannot be put into a here-document", fix="Pass it as an argument or through printf and a pipe."
        )
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\" and state != "'":
            position += 1
        elif state == "":
            if character == "#" and (position == 0 or text[position - 1].isspace()):
                end = text.find("\n", position)
                position = len(text) if end < 0 else end
            elif character in "'\"":
                state = character
        elif character == state:
            state = ""
        position += 1
    return state
