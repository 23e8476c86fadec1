"""Secrets and keys: what is known of them, the references a model sees instead of them, and the ports to them. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from moot.domain.errors import BadRequest
from moot.domain.ports import RunContext

# Shorter values could not be kept out of logs and answers without tearing ordinary text apart.
SHORTEST_SECRET = 4
LONGEST_SECRET = 16 * 1024
NAME_LENGTH = 64

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{NAME_LENGTH - 1}}}")
_REFERENCE = re.compile(
    rf"\{{\{{\s*(?P<kind>secret|decrypt):(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{NAME_LENGTH - 1}}})\s*\}}\}}"
)
# What is seen instead of a secret; nobody means that to be one.
_MASK = re.compile(r"\s*\[SECRET(?::[^\[\]\s]*)?\]\s*")
_VARIABLE_PREFIX = "MOOT_SECRET_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInfo:
    """What may be told of a secret: everything but the secret."""

    name: str
    created_at: float
    updated_at: float
    uses: int = 0
    used_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    name: str
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    """A key for data (`type` encryption) or for signatures (`type` signing)."""

    id: str
    name: str
    type: str
    created_at: float
    used_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKey:
    info: KeyInfo
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who touches a secret: a tool of a run, or the owner at the command line (no run)."""

    agent: str = ""
    sender: str = ""
    run: str = ""
    tool: str = ""

    @classmethod
    def of(cls, context: RunContext, tool: str) -> "Holder":
        return cls(agent=context.speaker, sender=context.key.sender, run=context.run_id, tool=tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """One line of the audit: stored, referenced, resolved, deleted or decrypted, by whom and when."""

    name: str
    action: str
    holder: Holder
    at: float


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a text where a secret is meant: `token` as written, `kind` secret or decrypt."""

    token: str
    kind: str
    name: str
    start: int
    end: int


class SecretShelf(Protocol):
    """Sealed secrets and the audit of their use. A change and its line in the audit are one transaction."""

    async def put(self, secret: SealedSecret, use: SecretUse) -> bool:
        """Whether one of that name was replaced."""
        ...

    async def sealed(self) -> list[SealedSecret]: ...
    async def list_all(self) -> list[SecretInfo]: ...
    async def remove(self, name: str, use: SecretUse) -> None: ...
    async def used(self, uses: Sequence[SecretUse]) -> None: ...
    async def audit(self, *, name: str = "", limit: int = 100) -> list[SecretUse]: ...


class KeyShelf(Protocol):
    async def add(self, key: SealedKey) -> None:
        """Conflict when the id is taken."""
        ...

    async def find(self, key_id: str) -> SealedKey | None: ...
    async def list_all(self) -> list[KeyInfo]: ...
    async def touch(self, key_id: str, *, now: float) -> None: ...


class Secrets(Protocol):
    """What tools may do with secrets. No method gives a value to a model; `resolve` is for execution alone."""

    async def store(self, name: str, value: str, holder: Holder) -> bool: ...
    async def list_all(self) -> list[SecretInfo]: ...
    async def reference(self, name: str, holder: Holder) -> str: ...
    async def delete(self, name: str, holder: Holder) -> None: ...
    async def resolve(self, text: str, context: RunContext, *, tool: str) -> dict[str, str]:
        """Each reference token in the text and the value it stands for. NotFound for one that stands for nothing."""
        ...


class Keys(Protocol):
    """What tools may do with keys."""

    async def encrypt(self, data: str, key_id: str) -> str: ...
    async def decrypt(self, ciphertext: str, key_id: str, context: RunContext) -> str:
        """A reference token for the plain text, good for this conversation and a while."""
        ...

    async def sign(self, data: str, key_id: str) -> str: ...
    async def list_all(self) -> list[KeyInfo]: ...


class Sealer(Protocol):
    """Closes bytes so that only this daemon's owner can open them, and only for the place they were closed for."""

    def close(self, data: bytes, *, place: str) -> bytes: ...
    def open(self, sealed: bytes, *, place: str) -> bytes:
        """ValueError when it was changed, moved to another place, or sealed with another key."""
        ...

    def proof(self, data: bytes, *, place: str) -> str:
        """A digest that tells nothing to whoever has no key."""
        ...


class Seals(Protocol):
    async def seal(self) -> Sealer:
        """Unavailable while the key cannot be had."""
        ...


class Known(Protocol):
    """Where values are told that must never be seen again."""

    def register(self, name: str, value: str) -> None: ...
    def register_all(self, values: Mapping[str, str]) -> None: ...
    def forget(self, name: str) -> None: ...


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
    """The value, if it can be kept. It is never repeated in the error."""
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
    """The references in a text, in order. A call whose arguments hold one carries secrets wherever it goes."""
    if "{{" not in text:
        return []
    return [
        Reference(match[0], match["kind"], match["name"], match.start(), match.end())
        for match in _REFERENCE.finditer(text)
    ]


def through_environment(command: str, values: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The shell command with each reference as a variable, and those variables: values never stand in a command line.

    `values` is what `Secrets.resolve` gave. The variable is quoted by where the reference stands, so that the value is
    one word there whatever it holds.
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
    """Which quotes are open after this stretch of a shell command: none, single or double."""
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
