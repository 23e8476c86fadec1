"""Secrets and keys: their metadata, and the references a model sees instead of values. Pure."""

import re
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.domain.masks import map_strings

# Shorter values could not be redacted without damaging ordinary text.
SHORTEST_SECRET = 4
LONGEST_SECRET = 16 * 1024
NAME_LENGTH = 64

# The sender that secrets belong to which are set with `moot secrets set`.
OWNER = "user"
_MOST_PATTERNS = 64

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{NAME_LENGTH - 1}}}")
_REFERENCE = re.compile(
    rf"\{{\{{\s*(?P<kind>secret|decrypt):(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{NAME_LENGTH - 1}}})\s*\}}\}}"
)
# What is shown instead of a secret; it is rejected as a value.
_MASK = re.compile(r"\s*\[SECRET(?::[^\[\]\s]*)?\]\s*")
_VARIABLE_PREFIX = "MOOT_SECRET_"


class SecretScope(Struct, frozen=True, kw_only=True):
    """Which calls may use a secret, as shell patterns. An empty list does not restrict, except `senders`.

    `senders` are those whose conversations may use it besides the sender it belongs to. A call outside the scope is
    refused. A call inside is made without asking for the secret's sake if the scope names both agents and tools.
    With `configuration_only` no call may use the secret, whatever the lists say.
    """

    agents: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    configuration_only: bool = False


class SecretInfo(Struct, frozen=True, kw_only=True):
    """The public metadata of a secret, without its value. It belongs to the sender `owner`."""

    name: str
    owner: str = OWNER
    scope: SecretScope = SecretScope()
    created_at: float
    updated_at: float
    uses: int = 0
    used_at: float = 0.0


class SecretCall(Struct, frozen=True, kw_only=True):
    """What a call that uses a secret looks like to its scope. `host` is where it leads; empty if that is unknown."""

    agent: str
    sender: str
    tool: str
    host: str = ""


class SealedSecret(Struct, frozen=True, kw_only=True):
    name: str
    owner: str = OWNER
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
    owner: str = OWNER
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


def may_see(info: SecretInfo, sender: str) -> bool:
    """Whether conversations with the sender may know of the secret and use it."""
    return sender == info.owner or _matches(sender, info.scope.senders)


def refuse_use(info: SecretInfo, call: SecretCall) -> str:
    """Return why a call is outside the scope of the secret; "" if it is inside."""
    scope = info.scope
    if scope.configuration_only:
        return f"the secret {info.name} is for the configuration only"
    if scope.agents and not _matches(call.agent, scope.agents):
        return f"the secret {info.name} is not for the agent {call.agent}"
    if scope.tools and not _matches(call.tool, scope.tools):
        return f"the secret {info.name} is not for the tool {call.tool}"
    if scope.hosts and call.host and not _matches(call.host, scope.hosts):
        return f"the secret {info.name} is not for the host {call.host}"
    return ""


def refuse_host(info: SecretInfo, host: str) -> str:
    """Return why the configuration may not send the secret to a host; "" if it may."""
    if info.scope.hosts and not _matches(host, info.scope.hosts):
        return f"the secret {info.name} is not for the host {host}"
    return ""


def refuse_change(info: SecretInfo, agent: str) -> str:
    """Return why an agent may not replace or delete the secret; "" if it may."""
    if info.scope.configuration_only:
        return f"the secret {info.name} is for the configuration only"
    if info.scope.agents and not _matches(agent, info.scope.agents):
        return f"the secret {info.name} is not for the agent {agent}"
    return ""


def needs_consent(info: SecretInfo, call: SecretCall) -> bool:
    """Whether the owner is asked about a call inside the scope: unless the scope names agents and tools.

    If the scope names hosts and it is not known where the call leads, as with a command, the owner is asked too.
    """
    scope = info.scope
    return not (scope.agents and scope.tools) or bool(scope.hosts and not call.host)


def check_scope(scope: SecretScope) -> SecretScope:
    for patterns in (scope.agents, scope.senders, scope.tools, scope.hosts):
        if len(patterns) > _MOST_PATTERNS or any(not each.strip() or len(each) > 200 for each in patterns):
            raise BadRequest(
                "a scope has an empty or long pattern, or too many",
                fix=f"Give at most {_MOST_PATTERNS} patterns of at most 200 characters each.",
            )
    return scope


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


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


def find_references(arguments: Any) -> str:
    """Return the references in the arguments of a call, however they are nested; "" if there are none."""
    found: list[str] = []

    def collect(text: str) -> str:
        found.extend(each.token for each in references(text))
        return text

    map_strings(arguments, collect)
    return " ".join(found)


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
