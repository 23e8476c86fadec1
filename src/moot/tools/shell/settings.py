"""Variables that other programs take a command or code from. Pure."""

import re
from collections.abc import Iterator

from moot.domain.shell import Verdict
from moot.tools.shell.literals import follows
from moot.tools.shell.rules import SHELLS, danger, doubt, name_set
from moot.tools.shell.words import UNKNOWN

_LOADERS = re.compile(
    r"^(LD_(PRELOAD|AUDIT)|DYLD_INSERT_LIBRARIES|BASH_ENV|ENV|PROMPT_COMMAND|GIT_(SSH|SSH_COMMAND|EXTERNAL_DIFF|ASKPASS|PROXY_"
    r"COMMAND|EXEC_PATH|CONFIG_PARAMETERS|CONFIG_KEY_\d+)|SSH_ASKPASS|SUDO_ASKPASS|PERL5OPT|PERL5DB|PYTHONSTARTUP|"
    r"PYTHONBREAKPOINT|RUBYOPT|HISTFILE|HISTSIZE|HISTFILESIZE|SHELLOPTS|PS4|PS0|LESSOPEN|LESSCLOSE|VIMINIT|EXINIT|GCONV_PATH|"
    r"TAR_OPTIONS|RSYNC_RSH|RSYNC_CONNECT_PROG|CVS_RSH|SVN_SSH|GIT_TEMPLATE_DIR|npm_config_script_shell|NPM_CONFIG_SCRIPT_SHELL|"
    r"BASH_FUNC_.*|FCEDIT)$"
)
# A command line that another program hands to a shell, or starts.
_COMMANDS = re.compile(
    r"^(\w*PAGER|\w*EDITOR|VISUAL|BROWSER|(CARGO_BUILD_)?RUSTC(_WORKSPACE)?(_WRAPPER)?|MANROFFOPT|DIFFPROG)$"
)
_HARMLESS = name_set(
    "cat less more most bat batcat delta true : vi vim nvim nano emacs code hx helix micro kak subl gedit kate col "
    "sensible-pager sensible-editor sccache rustc firefox chromium xdg-open open emacsclient notepad"
)
# Options for every start of a program; some of them are code.
_OPTIONS = {
    "NODE_OPTIONS": re.compile(r"require|import|loader|eval|-r\b"),
    "MAKEFLAGS": re.compile(r"eval|SHELL|\$\(|(^|\s)-?\w*[fE]"),
    "GNUMAKEFLAGS": re.compile(r"eval|SHELL|\$\(|(^|\s)-?\w*[fE]"),
    "MAKEFILES": re.compile(r"."),
    "GOFLAGS": re.compile(r"toolexec|-exec"),
    "JAVA_TOOL_OPTIONS": re.compile(r"agent|OnError|OnOutOfMemory"),
    "_JAVA_OPTIONS": re.compile(r"agent|OnError|OnOutOfMemory"),
    "JDK_JAVA_OPTIONS": re.compile(r"agent|OnError|OnOutOfMemory"),
    "GIT_CONFIG_GLOBAL": re.compile(r"^(?!/dev/null$)."),
    "GIT_CONFIG_SYSTEM": re.compile(r"^(?!/dev/null$)."),
}
_OTHER_PROGRAMS = re.compile(r"^(\.?:|\.$|/tmp|/dev/shm|~/\.|\x00:)")
# Where arithmetic meets it, the shell runs what stands inside an index.
_INDEX, _RUNS = re.compile(r"\w\["), re.compile(r"\$\(|`|\$\{")


def judge_setting(name: str, value: str) -> Iterator[Verdict | str]:
    """Judge a variable that is set; returns verdicts and the text that other programs will run because of it."""
    if _LOADERS.match(name):
        yield danger(f"{name} makes other programs run something, or hides what was done")
    elif name == "PATH":
        if _OTHER_PROGRAMS.match(value) and not value.startswith("~/.local/bin"):
            yield doubt("it replaces known programs by others")
    elif _COMMANDS.match(name):
        yield from _command(name, value)
    elif (code := _OPTIONS.get(name)) is not None and (code.search(value) or UNKNOWN in value):
        yield danger(f"{name} makes other programs run something")
    if runs_index(value):
        yield danger(f"{name} holds an index that the shell would run")


def runs_index(word: str) -> bool:
    return "[" in word and any(follows(part, _INDEX, _RUNS) for part in word.split("]"))


def _command(name: str, value: str) -> Iterator[Verdict | str]:
    words = value.split()
    first = words[0].rpartition("/")[2] if words else ""
    plain = re.fullmatch(r"[\w\s./=,:+-]*", value) is not None
    if (
        not words
        or plain
        and first in _HARMLESS
        and not any(re.match(r"-c|\+|--(cmd|eval|exec)", w) for w in words[1:])
    ):
        return
    yield doubt(f"{name} makes other programs run {value.replace(UNKNOWN, '…')[:60]}")
    # A word alone in the place of a shell is one that will be given a script.
    if first not in SHELLS or len(words) > 1:
        yield value
