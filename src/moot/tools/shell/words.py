"""Expands the words of a shell command as far as they are known before it runs. Pure."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

# Stands for what only the running shell knows: an expansion, a substitution.
UNKNOWN = "\x00"

# A node of the parser; its library has no types for us to lean on at import time.
Node = Any

_KNOWN = {
    "HOME": "~", "PWD": ".", "TMPDIR": "/tmp", "OLDPWD": UNKNOWN, "MOOT_HOME": "~/.moot",
    "XDG_CONFIG_HOME": "~/.config", "XDG_DATA_HOME": "~/.local/share", "XDG_STATE_HOME": "~/.local/state",
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
# Brace expansions with more words than this are only used for obfuscation.
_MOST_BRACED = 256
# What stands for a secret or for something unknown stays unknown, whatever a script sets it to.
_NEVER_KNOWN = ("MOOT_SECRET", "MOOT_UNKNOWN")
# Builtins that give variables values of their own: the names among their words can hold anything afterwards.
_SETTING = frozenset({"read", "mapfile", "readarray", "getopts", "let", "wait"})
# A program that only says in other words where the home or the root is.
_NAMES_HOME = re.compile(
    r"^[$(`\s]+(?:eval\s+)?(?:dirname|realpath|readlink|echo|printf|getent\s+passwd)\s+(?:-\w+\s+)*\"?"
    r"(?:~\$?\w*|/|\$HOME|\$\{HOME\}|\$USER)\"?\s*(?:[)`]|\|\s*cut\b)"
)
_LONGEST_NAMING = 120
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


class Variables:
    """Possible values of a script's variables: one constant value, or unknown."""

    def __init__(self, root: Node, outer: "Variables | None" = None) -> None:
        self._values: dict[str, set[str]] = {}
        self._outer = outer
        for node in find_nodes(root, "variable_assignment"):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None:
                self._add(node_text(name), self.word(value) if value is not None else "")
        for node in find_nodes(root, "for_statement"):
            name = node.child_by_field_name("variable")
            for value in node.children_by_field_name("value"):
                self._add(node_text(name), self.word(value))
        for node in find_nodes(root, "command"):
            words = [self.word(part) for part in node.named_children]
            for name in _set_by(words):
                self._add(name, UNKNOWN)
            self._positional(words, root)
        for node in find_nodes(root, "declaration_command"):
            self._read_declaration(node)

    def _positional(self, words: list[str], root: Node) -> None:
        """The positional parameters set by `set --`, if no function redefines them."""
        if words[:2] == ["set", "--"] and next(find_nodes(root, "function_definition"), None) is None:
            for place, word in enumerate(words[2:], start=1):
                self._add(str(place), word)

    def _read_declaration(self, node: Node) -> None:
        """`declare -n` gives a variable the name of another; `declare 'x=1'` sets one in a word of its own."""
        words = [self.word(part) for part in node.named_children if part.type != "variable_assignment"]
        refers = any(re.fullmatch(r"-[A-Za-z]*n[A-Za-z]*", word) for word in words)
        if refers:
            words += [node_text(part) for part in node.named_children if part.type == "variable_assignment"]
        for word in words:
            name, sets, value = word.partition("=")
            if sets:
                self._add(name.rstrip("+"), UNKNOWN if refers else value)

    def _add(self, name: str, value: str) -> None:
        self._values.setdefault(name, set()).add(value)

    def value(self, name: str) -> str:
        if name.startswith(_NEVER_KNOWN):
            return UNKNOWN
        values = self._values.get(name)
        if values is None:
            return self._outer.value(name) if self._outer is not None else _KNOWN.get(name, UNKNOWN)
        return next(iter(values)) if len(values) == 1 else UNKNOWN

    def word(self, node: Node) -> str:
        """The word of a node, with UNKNOWN for parts that cannot be determined."""
        match node.type:
            case "word" | "number" | "variable_name" | "special_variable_name" | "extglob_pattern" | "regex":
                return _literal(node_text(node))
            case "raw_string":
                return node_text(node)[1:-1]
            case "ansi_c_string":
                return ansi(node_text(node)[2:-1])
            case "string" | "translated_string":
                return self._string(node)
            case "concatenation" | "command_name":
                return "".join(self._pieces(node, node.start_byte, node.end_byte))
            case "simple_expansion" | "expansion":
                # In a string the parser counts blanks before it as a part of it.
                plain = re.fullmatch(r"(\s*)(?:\$(\w+)|\$\{(\w+)\})", node_text(node))
                return plain[1] + self.value(plain[2] or plain[3]) if plain else self._expand_altered(node)
            case "string_content" | "heredoc_content":
                return re.sub(r'\\([\\"$`\n])', lambda found: found[1].strip("\n"), node_text(node))
            case _:
                return _resolve_substitution(node)

    def words(self, node: Node) -> list[str]:
        """The words of a node: braces multiply them, unquoted expansions are split."""
        word = self.word(node)
        if node.type in ("simple_expansion", "expansion") and UNKNOWN not in word:
            return self._split(word) or [word]
        if node.type in ("word", "concatenation"):
            made = list(islice(_expand_braces(word), _MOST_BRACED + 1))
            return made if len(made) <= _MOST_BRACED else [*made, UNKNOWN]
        return [word]

    def _split(self, word: str) -> list[str]:
        """Also split by the script's own IFS."""
        marks = self.value("IFS") if "IFS" in self._values else ""
        return word.translate(dict.fromkeys(map(ord, marks), " ")).split()

    def _expand_altered(self, node: Node) -> str:
        """A parameter expansion with an operator: unknown, but parts of the home path count as the home."""
        found = re.match(r"\s*\$\{(\w+)", node_text(node))
        return "~" if found and self.value(found[1]) == "~" else UNKNOWN

    def _string(self, node: Node) -> str:
        start = node.start_byte + (2 if node_text(node).startswith("$") else 1)
        return "".join(self._pieces(node, start, node.end_byte - 1))

    def _pieces(self, node: Node, start: int, end: int) -> Iterator[str]:
        """The children in order, with the text between them."""
        source: bytes = node.text
        done = start
        for child in node.named_children:
            if child.start_byte > done:
                yield source[done - node.start_byte : child.start_byte - node.start_byte].decode(errors="replace")
            yield self.word(child)
            done = child.end_byte
        if done < end:
            yield source[done - node.start_byte : end - node.start_byte].decode(errors="replace")


def _resolve_substitution(node: Node) -> str:
    if node.type != "command_substitution" or len(node.text) > _LONGEST_NAMING:
        return UNKNOWN
    if node_text(node).strip("$()` ") == "pwd":
        return "."
    return "~" if _NAMES_HOME.search(node_text(node)) else UNKNOWN


def node_text(node: Node) -> str:
    raw: bytes = node.text
    return raw.decode(errors="replace")


def find_nodes(node: Node, *kinds: str) -> Iterator[Node]:
    """The nodes of these kinds in document order."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here.type in kinds:
            yield here
        waiting.extend(reversed(here.named_children))


def count_nodes(root: Node, *, deepest: int, most: int) -> int:
    """The number of nodes, or one more than `most` if the tree is larger or deeper than allowed."""
    waiting, seen = [(root, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > deepest or seen > most:
            return most + 1
        waiting.extend((child, depth + 1) for child in node.named_children)
    return seen


def in_background(node: Node) -> bool:
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if any(child.type == "&" for child in here.children):
            return True
        waiting.extend(here.named_children)
    return False


def _set_by(words: list[str]) -> list[str]:
    """The variables that a builtin sets to unknown values."""
    if words[:2] == ["printf", "-v"]:
        return words[2:3]
    return [word for word in words[1:] if _VARIABLE.fullmatch(word)] if words and words[0] in _SETTING else []


def _literal(word: str) -> str:
    """An unquoted word with escapes removed and other spellings of folders normalised."""
    word = re.sub(r"^~\+(?=/|$)", ".", re.sub(r"^~(-|[+-]?\d+)(?=/|$)", UNKNOWN, word))
    return re.sub(r"\\(\n|.)", lambda found: "" if found[1] == "\n" else found[1], word, flags=re.DOTALL)


def ansi(escaped: str) -> str:
    """Decode $'…'."""

    def one(found: re.Match[str]) -> str:
        for group, radix in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if found[group] is not None:
                return chr(min(int(found[group], radix), 0x10FFFF))
        return _ESCAPES.get(found[5], found[5])

    return _ANSI.sub(one, escaped)


def _expand_braces(word: str, depth: int = 0) -> Iterator[str]:
    found = _find_brace(word) if "{" in word else None
    if found is None or depth > 6:
        yield word
        return
    before, inner, after = found
    for part in inner.split(","):
        yield from _expand_braces(before + part + after, depth + 1)


def _find_brace(word: str) -> tuple[str, str, str] | None:
    """The first brace pair with a comma and no inner brace: the text before, inside and after it."""
    start = word.find("{")
    while start >= 0:
        end, another = word.find("}", start), word.find("{", start + 1)
        if end < 0:
            return None
        if (another < 0 or end < another) and "," in word[start:end]:
            return word[:start], word[start + 1 : end], word[end + 1 :]
        start = another
    return None
