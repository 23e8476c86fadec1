"""Rules for particular programs: network, persistent changes, traces, code of other programs. Pure."""

import re
from collections.abc import Iterator

from moot.domain.shell import Verdict
from moot.tools.shell import paths
from moot.tools.shell.literals import follows
from moot.tools.shell.rules import (
    NEEDED,
    Words,
    danger,
    doubt,
    has_option,
    judge_read,
    judge_write,
    operands,
    option_value,
    rule,
)
from moot.tools.shell.words import UNKNOWN

_TUNNELS = re.compile(r"^-[A-Za-z]*[RDLw]|ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand")
_GIT_RUNS = re.compile(
    r"^(core\.(hookspath|sshcommand|fsmonitor|pager|editor|askpass|gitproxy)|alias\..*|credential\..*|.*\.command"
    r"|diff\.external|.*\.textconv|filter\..*|pager\..*|sequence\.editor|gpg\.program|include\.path|url\..*)$",
    re.IGNORECASE,
)
_ESCAPES = re.compile(
    r"--privileged|--pid[= ]host|--(net|network)[= ]host|--cap-add|-v ?/:|--volume[= ]/:|src=/,|source=/,|docker\.sock"
    r"|(-v ?|--volume[= ]|src=|source=)/(etc|usr|var|bin|lib|root|home|boot|dev|sys|proc|run)\b"
    r"|(-v ?|--volume[= ]|src=|source=)~/?[:,]|--device[= ]/dev/(sd|nvme|vd|mem)|security\.insecure|=unconfined"
    r"|label[=:]disable|--(userns|ipc|uts|cgroupns)[= ]host"
)
_GETS, _AFAR = re.compile(r"(install|add|i|exec|x|dlx|create) "), re.compile(r"(https?|git\+\w+)://")
_SETS, _SOURCE = re.compile(r"(^| )config set "), re.compile(r"registry|index|proxy|trusted")
_EDITOR_RUNS = re.compile(
    r"(^|[:+\s])!|:!|system\(|py(thon)?3? |shell-command|--eval|-P$|os\.execute|io\.popen"
    r"|(^|[:+])(lua|luado|perl|ruby|tcl) |libcall|jobstart|job_start|termopen|(^|[:+])term(inal)?\b"
)
_SYSTEMCTL_LOOKS = ("status", "show", "cat", "list-", "is-", "get-default", "help", "--version")


@rule("curl", "wget", "http", "https", "xh", "fetch", "aria2c")
def _fetching(arguments: Words) -> Iterator[Verdict]:
    target = option_value(arguments, "-o", "--output", "-O", "--output-document", "-P", "--directory-prefix")
    if target:
        yield from judge_write(target)
    if (
        paths.is_input_device(option_value(arguments, "-K", "--config"))
        or has_option(arguments, "", "--use-askpass")
        or any(word.startswith("--config=/dev") or "use_askpass" in word for word in arguments)
    ):
        yield danger("runs commands it gets from elsewhere")
    for index, word in enumerate(arguments):
        sent = arguments[index + 1] if word in _SENDING and index + 1 < len(arguments) else ""
        sent = sent or (word.partition("=")[2] if word.partition("=")[0] in _SENDING else "")
        if paths.is_secret(sent.lstrip("@")) or "file://" in word and paths.is_secret(word):
            yield danger("sends credentials to another machine")
        elif word in ("-T", "--upload-file", "-F", "--form") or word.startswith("--post-file") or sent.startswith("@"):
            yield doubt("sends a file to another machine")
    for word in arguments:
        if word.startswith("file://"):
            yield from judge_read(word[7:])


_SENDING = frozenset({"-d", "--data", "--data-binary", "--data-raw", "--data-urlencode", "-F", "--form", "-T", "-H",
                      "--upload-file", "--post-file", "--body-file", "--json"})  # fmt: skip


@rule("nc", "ncat", "netcat")
def _raw_network(arguments: Words) -> Iterator[Verdict]:
    near = any(word in ("localhost", "127.0.0.1", "::1") for word in arguments)
    if has_option(arguments, "z") and not has_option(arguments, "lec"):
        yield from () if near else [doubt("probes another machine")]
    else:
        yield danger("opens a raw connection or a listener")


@rule("ssh", "autossh")
def _tunnel(arguments: Words) -> Iterator[Verdict]:
    if any(_TUNNELS.search(word) for word in arguments) or paths.is_input_device(option_value(arguments, "-F")):
        yield danger("opens a tunnel or runs a program to connect")


@rule("openssl")
def _openssl(arguments: Words) -> Iterator[Verdict]:
    if arguments and arguments[0] in ("s_server", "s_client"):
        yield danger("opens a raw connection or a listener")


@rule("dig", "nslookup", "host", "ping", "traceroute")
def _lookup(arguments: Words) -> Iterator[Verdict]:
    if any(UNKNOWN in word for word in arguments):
        yield danger("may send data in the name it looks up")


@rule("kill")
def _kill(arguments: Words) -> Iterator[Verdict]:
    targets = [word for index, word in enumerate(arguments) if not (index == 0 and re.match(r"-[A-Z0-9s]", word))]
    if arguments[:1] == ["-1"] and len(arguments) == 1 or any(word in ("-1", "0", "1") for word in targets):
        yield danger("ends all processes it can")
    elif any(re.fullmatch(r"-\d+", word) for word in targets):
        yield doubt("ends a process group")


@rule("pkill", "killall")
def _kill_by_name(arguments: Words) -> Iterator[Verdict]:
    named = operands(arguments)
    if has_option(arguments, "uUvG", "--euid", "--uid", "--inverse", "--user") or any(
        re.fullmatch(r"[.*^$]+", word) for word in named
    ):
        yield danger("ends all processes it can")
    if any(NEEDED.search(word) for word in named):
        yield danger("ends processes the system needs")


@rule("fuser")
def _users(arguments: Words) -> Iterator[Verdict]:
    if has_option(arguments, "k", "--kill"):
        wide = any(paths.is_root_like(word) or paths.is_system(word) for word in operands(arguments))
        yield (
            danger("ends all processes it can")
            if wide or has_option(arguments, "mM")
            else doubt("ends other processes")
        )


@rule("btrfs")
def _volumes(arguments: Words) -> Iterator[Verdict]:
    if any(word.startswith(("del", "rem", "rep", "conv", "rescue", "restore")) for word in operands(arguments)[:2]):
        yield danger("writes directly to a disk")


@rule("apt", "apt-get", "aptitude")
def _installers(arguments: Words) -> Iterator[Verdict]:
    if any("invoke" in word.lower() for word in arguments):
        yield danger("lets the installer run a program")


@rule("run-parts")
def _folder_of_programs(arguments: Words) -> Iterator[Verdict]:
    if not has_option(arguments, "", "--test", "--list"):
        yield doubt("runs every program in a folder")


@rule("crontab")
def _crontab(arguments: Words) -> Iterator[Verdict]:
    if not has_option(arguments, "l"):
        yield danger("changes what is started automatically")


@rule("systemctl", "service", "rc-service", "sv", "loginctl", "initctl")
def _services(arguments: Words) -> Iterator[Verdict]:
    named = operands(arguments)
    if named and not any(word.startswith(_SYSTEMCTL_LOOKS) for word in named):
        yield danger("changes what the machine runs")


@rule("history", "fc")
def _history(arguments: Words) -> Iterator[Verdict]:
    if has_option(arguments, "cdwra"):
        yield danger("changes the command history")


@rule("journalctl", "wevtutil", "ausearch")
def _journal(arguments: Words) -> Iterator[Verdict]:
    if any(re.match(r"--(vacuum|rotate|flush|clear|read-clear|force|relinquish)", word) for word in arguments):
        yield danger("changes the machine's logs")


@rule("dmesg", "logrotate")
def _kernel_log(arguments: Words) -> Iterator[Verdict]:
    yield from _journal(arguments)
    if has_option(arguments, "Ccf"):
        yield danger("changes the machine's logs")


@rule("set", "shopt")
def _shell_options(arguments: Words) -> Iterator[Verdict]:
    if "history" in arguments and ("+o" in arguments or "-u" in arguments):
        yield danger("stops the recording of the command history")


@rule("unset")
def _unset(arguments: Words) -> Iterator[Verdict]:
    if any(word.startswith("HIST") for word in arguments):
        yield danger("stops the recording of the command history")


@rule("sysctl")
def _sysctl(arguments: Words) -> Iterator[Verdict]:
    if has_option(arguments, "wp", "--write", "--load", "--system") or any("=" in word for word in arguments):
        yield danger("changes the kernel's settings")


@rule("git")
def _git(arguments: Words) -> Iterator[Verdict]:
    yield from _git_lets(list(arguments))
    folder, words = _git_place(list(arguments))
    verb, rest = (words[0] if words else ""), words[1:]
    if verb == "config" and any(_GIT_RUNS.match(word) for word in rest) and len(operands(rest)) > 1:
        yield danger("configures git to run a program")
    if verb == "config" and any(re.match(r"http\..*(proxy|sslverify|sslcainfo)", w, re.IGNORECASE) for w in rest):
        yield doubt("changes how git connects to other machines")
    if (
        verb == "push"
        and has_option(rest, "f", "--force", "--mirror", "--delete")
        or verb == "clean"
        and has_option(rest, "fx")
    ):
        yield doubt("discards data that may exist nowhere else")
    if (
        verb == "clean"
        and has_option(rest, "f", "--force")
        and any(paths.is_root_like(w) for w in (folder, *operands(rest)))
    ):
        yield danger("deletes files in system folders or the home folder")
    if verb in ("checkout", "reset", "restore", "apply", "am") and paths.is_system(folder):
        yield danger("writes over what belongs to the system")
    if verb in ("reset", "checkout") and "--hard" in rest or verb in ("filter-branch", "filter-repo", "update-ref"):
        yield doubt("discards data that may exist nowhere else")
    if verb == "reflog" and rest[:1] in (["expire"], ["delete"]) or verb in ("gc", "prune") and "--prune=now" in rest:
        yield doubt("discards data that may exist nowhere else")


def _git_lets(words: list[str]) -> Iterator[Verdict]:
    for index, word in enumerate(words):
        setting = words[index + 1] if word in ("-c", "--config") and index + 1 < len(words) else ""
        setting = setting or (word.removeprefix("--config=") if word.startswith("--config=") else "")
        if setting and _GIT_RUNS.match(setting.partition("=")[0]) and "=" in setting:
            yield danger("lets git run a program")
        named = word.startswith(("--upload-pack", "--receive-pack", "--exec=", "--exec-path=", "--config-env"))
        named = named or "ext::" in word or word.startswith("--template=") and len(word) > len("--template=")
        if named or word == "-u" and "clone" in words[:index]:
            yield danger("lets git run a program")


def _git_place(words: list[str]) -> tuple[str, list[str]]:
    """The folder that git changes to first, and the words from its subcommand on."""
    folder = "."
    while words and words[0].startswith("-"):
        if words[0] in ("-C", "--work-tree"):
            folder = words[1] if len(words) > 1 else folder
        elif words[0].startswith("--work-tree="):
            folder = words[0].partition("=")[2]
        words = words[2 if words[0] in ("-C", "-c", "--work-tree", "--git-dir", "--namespace", "--config-env") else 1 :]
    return folder, words


@rule("tar", "bsdtar")
def _archive(arguments: Words) -> Iterator[Verdict]:
    if any(word.startswith(("--checkpoint-action", "--to-command", "--use-compress", "--rsh-command", "--info-script"))
           for word in arguments) or "-I" in arguments:  # fmt: skip
        yield danger("lets tar run a program")
    folder = option_value(arguments, "--directory") or _after(arguments, "-C")
    first = arguments[0] if arguments else ""
    if folder and ("x" in first or has_option(arguments, "x", "--extract", "--get")):
        yield from judge_write(folder)
    if "--remove-files" in arguments and any(
        paths.is_root_like(w) or paths.is_system(w) for w in operands(arguments)[1:]
    ):
        yield danger("deletes the files it packs")
    if ("c" in first.lstrip("-") or has_option(arguments, "c", "--create")) and any(
        paths.is_root_like(word) for word in arguments[1:]
    ):
        yield doubt("packs up everything")


@rule("unzip", "7z", "7za")
def _unpack(arguments: Words) -> Iterator[Verdict]:
    if folder := option_value(arguments, "-d"):
        yield from judge_write(folder)


@rule("zip")
def _zip(arguments: Words) -> Iterator[Verdict]:
    if has_option(arguments, "", "--unzip-command") or "-TT" in arguments:
        yield danger("lets zip run a program")


@rule("rsync")
def _rsync(arguments: Words) -> Iterator[Verdict]:
    named = operands(arguments)
    if named:
        yield from judge_write(named[-1])
        if has_option(arguments, "", "--remove-source-files") and any(paths.is_root_like(word) for word in named[:-1]):
            yield danger(f"moves {named[0]} away")
        if has_option(arguments, "", "--delete") and paths.is_root_like(named[-1]):
            yield danger(f"removes what is in {named[-1]}")
    command = option_value(arguments, "-e", "--rsh")
    if command and command.split()[:1] not in (["ssh"], [UNKNOWN]):
        yield danger("lets rsync run a program")
    if not re.fullmatch(r"[\w./-]*", option_value(arguments, "--rsync-path").removeprefix("sudo ")):
        yield danger("runs a program on another machine")
    if ":" in "".join(named[-1:]) and any(paths.is_root_like(word) or paths.is_secret(word) for word in named[:-1]):
        yield danger("sends whole folders to another machine")
    if any(":" in word for word in named):
        yield doubt("copies to or from another machine")


@rule("vim", "vi", "nvim", "ex", "ed", "emacs", "nano", "view", "less", "more", "man")
def _editors(arguments: Words) -> Iterator[Verdict]:
    if any(_EDITOR_RUNS.search(word) for word in arguments):
        yield danger("makes an editor run a program")
    for target in operands(arguments):
        yield from judge_write(target) if not paths.is_system(target) else ()


@rule("docker", "podman", "nerdctl")
def _containers(arguments: Words) -> Iterator[Verdict]:
    words = " ".join(arguments)
    if arguments[:1] == ["cp"] and ":" not in arguments[-1]:
        yield from judge_write(arguments[-1])
    if _ESCAPES.search(words):
        yield danger("gives a container access to the machine")
    elif any(re.match(r"-H|--host\b|--context\b", word) for word in arguments[:2]):
        yield doubt("controls containers on another machine")
    elif arguments[:1] in (["volume"], ["system"]) and arguments[1:2] in (["ls"], ["inspect"], ["df"], ["info"]):
        return
    elif arguments and arguments[0] in ("run", "exec", "push", "rm", "rmi", "system", "volume", "kill", "stop"):
        yield doubt("starts, ends or publishes containers")


@rule("conda", "mamba", "micromamba", "npm", "yarn", "pnpm", "pip", "pip3", "cargo", "twine", "gem", "poetry", "uv")
def _packages(arguments: Words) -> Iterator[Verdict]:
    words = " ".join(arguments)
    if re.search(r"(^| )(publish|upload|push|login|adduser|owner|token)( |$)", words):
        yield doubt("publishes a package or signs in")
    if follows(words, _SETS, _SOURCE):
        yield doubt("changes permanently where packages come from")
    if "--config" in arguments and re.search(r"\b(runner|linker|rustc|rustc-wrapper)\b.*=", words):
        yield doubt("runs what it builds with another program")
    if re.search(r"--(extra-)?index-url|--registry|--trusted-host| -i ", words) or follows(words, _GETS, _AFAR):
        yield doubt("installs from another package source")


@rule("awk", "gawk", "mawk", "nawk", "original-awk")
def _awk(arguments: Words) -> Iterator[Verdict]:
    if any("/inet/" in word for word in arguments):
        yield danger("opens a connection to another machine")


@rule("alias")
def _alias(arguments: Words) -> Iterator[Verdict]:
    if any(re.match(r"(sudo|su|ssh|ls|cd|rm|git)=", word) for word in arguments):
        yield doubt("redefines a common command")


@rule("python -m")
def _modules(arguments: Words) -> Iterator[Verdict]:
    module = arguments[0] if arguments else ""
    if module == "moot" or module.startswith("moot."):
        yield danger("would let Moot approve its own calls")
    if module in ("http.server", "SimpleHTTPServer", "pyftpdlib", "smtpd", "uvicorn", "gunicorn"):
        yield doubt("listens for other machines")
    if module == "pty":
        yield danger("opens a shell of its own")
    if module == "pip":
        yield from _packages(arguments[1:])


@rule("php")
def _php(arguments: Words) -> Iterator[Verdict]:
    if has_option(arguments, "S"):
        yield doubt("listens for other machines")


@rule("hash")
def _hash(arguments: Words) -> Iterator[Verdict]:
    if has_option(arguments, "p"):
        yield danger("replaces a known program by another")


@rule("enable")
def _enable(arguments: Words) -> Iterator[Verdict]:
    if has_option(arguments, "f"):
        yield danger("loads code into the shell")


@rule("ulimit")
def _limits(arguments: Words) -> Iterator[Verdict]:
    if "unlimited" in arguments:
        yield doubt("lifts a bound")


def _after(arguments: Words, option: str) -> str:
    words = list(arguments)
    attached = [word[len(option) :] for word in words if word.startswith((f"{option}/", f"{option}~"))]
    # Letters are often put together, the one that takes a name last.
    last = [after for word, after in zip(words, words[1:], strict=False) if re.fullmatch(rf"-?[a-z]*{option[1]}", word)]
    return "".join((*last, *attached)[:1])
