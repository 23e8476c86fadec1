"""Classifies a single command by its name and arguments: harmless, doubtful or dangerous. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence

from moot.domain.safety import has_control_name
from moot.domain.shell import Level, Verdict
from moot.tools.shell import paths
from moot.tools.shell.words import UNKNOWN

Words = Sequence[str]
# Processes that the system or Moot needs.
NEEDED = re.compile(r"sshd|systemd|init|dockerd|moot|auditd|syslog")


def name_set(names: str) -> frozenset[str]:
    return frozenset(names.split())


SHELLS = name_set("sh bash dash zsh ksh ash fish csh tcsh mksh rbash pwsh")
INTERPRETERS = name_set("python perl ruby node nodejs php lua tclsh deno bun Rscript")
FETCHERS = name_set(
    "curl wget fetch aria2c http https xh nc ncat netcat socat ftp tftp lynx w3m scp sftp ssh telnet lwp-request GET "
    "axel gsutil dig nslookup host"
)
DECODERS = name_set(
    "base64 base32 basenc xxd uudecode openssl gunzip zcat gzip bzcat xzcat xz zstd tr rev gpg uncompress od hexdump"
)
PASSWORDS = (
    "npm token", "gh auth token", "gcloud auth print", "git credential", "secret-tool", "pass show", "keyring get",
    "security find", "docker login", "gpg --export-secret", "aws configure get", "kubectl get secret",
    "kubectl config view", "az account get", "op read", "vault kv get", "vault read", "heroku auth:token",
    "aws configure export",
)  # fmt: skip

_ALWAYS = {
    "runs with another user's rights": "sudo doas su pkexec runuser gosu su-exec sudoedit visudo newgrp sg nsenter "
    "unshare run0 chroot setcap capsh setpriv systemd-nspawn machinectl",
    "writes directly to a disk": "wipefs blkdiscard fdisk sfdisk cfdisk gdisk sgdisk parted mkswap hdparm cryptsetup "
    "lvremove vgremove pvremove lvcreate badblocks nvme debugfs tune2fs resize2fs e2fsck fsck mke2fs dumpe2fs "
    "flashrom partprobe losetup dmsetup zpool zfs mdadm shred srm wipe",
    "changes accounts": "useradd userdel usermod groupadd groupdel groupmod adduser deluser passwd chpasswd gpasswd "
    "chsh chage vipw vigr",
    "stops or changes the machine": "shutdown reboot halt poweroff init telinit kexec insmod rmmod modprobe swapoff "
    "swapon mount umount killall5 setenforce auditctl iptables ip6tables nft ufw firewall-cmd ebtables hostnamectl "
    "timedatectl grub-install update-grub efibootmgr mkinitcpio update-initramfs depmod dkms apparmor_parser "
    "aa-disable chattr update-ca-certificates update-ca-trust",
    "starts something automatically later": "at batch systemd-run update-rc.d chkconfig launchctl anacron incrontab",
    "opens the machine to the network": "socat ngrok cloudflared chisel frpc frps localtunnel lt bore rathole ligolo "
    "ztcp zsocket telnetd sshd dropbear xinetd inetd vsftpd gost tor msfconsole msfvenom sshuttle openvpn wg-quick",
    "reads the memory of other programs": "gcore",
    "is an attack tool": "hydra medusa john hashcat mimikatz responder ettercap bettercap arpspoof airmon-ng",
    "mines cryptocurrency": "xmrig minerd cpuminer ethminer nbminer t-rex lolminer phoenixminer",
    "would let Moot approve its own calls": "moot",
}
_BY_NAME = {name: reason for reason, names in _ALWAYS.items() for name in names.split()}
_ASKING = {
    "reaches other machines": "ssh sftp scp ftp tftp telnet nmap masscan tcpdump tshark mosh rclone ssh-copy-id",
    "sends mail": "mail mailx sendmail mutt",
    "ends other processes": "killall pkill skill xkill",
    "installs for the whole machine": "apt apt-get dnf yum pacman zypper apk brew snap flatpak dpkg rpm",
    "debugs other programs": "gdb strace ltrace bpftrace perf",
}
_ASK_BY_NAME = {name: reason for reason, names in _ASKING.items() for name in names.split()}
_LOOKING = name_set(
    "ls stat test [ [[ echo printf du file mkdir realpath dirname basename cd pushd chmod tree wc ssh-keygen readlink "
    "true :"
)


_MEASURING = name_set("df lsblk blkid smartctl udevadm findmnt lsof fuser")
_LOOKING_VERBS = name_set(
    "list search show info policy depends rdepends leaves outdated query repolist provides why --version --help -V "
    "help config doctor deps desc madison showpkg"
)


def judge(name: str, arguments: Words) -> Iterator[Verdict]:
    """All verdicts on one command without wrappers."""
    if reason := _BY_NAME.get(name):
        yield _danger(f"{name} {reason}")
    if name.startswith(("mkfs", "fsck.")):
        yield _danger(f"{name} writes directly to a disk")
    if (reason := _ASK_BY_NAME.get(name)) and not _only_looks(name, arguments):
        yield _doubt(f"{name} {reason}")
    if rule := _RULES.get(name):
        yield from rule(arguments)
    yield from _credentials(name, arguments)


def _only_looks(name: str, arguments: Words) -> bool:
    first = arguments[0] if arguments else ""
    if _ASK_BY_NAME[name] != "installs for the whole machine":
        return list(arguments) in (["-V"], ["--version"], ["--help"])
    queries = {"dpkg": r"-[lLsSpV]|--(list|status|search|print)", "rpm": r"-q|--query", "pacman": r"-Q"}
    return first in _LOOKING_VERBS or name in queries and re.match(queries[name], first) is not None


def judge_write(target: str) -> Iterator[Verdict]:
    """Judge a file that is written, created or replaced."""
    if paths.is_network_device(target):
        yield _danger("opens a connection to another machine")
    elif paths.is_device(target):
        yield _danger(f"writes to {_show_word(target)}")
    elif paths.is_startup_file(target):
        yield _danger(f"writes to {_show_word(target)}, which is run or read automatically later")
    elif paths.is_system(target):
        yield _danger(f"writes to {_show_word(target)}, which belongs to the system")
    elif paths.is_secret(target):
        yield _danger(f"writes to {_show_word(target)}, where credentials are kept")
    else:
        yield from judge_control(target)


def judge_control(target: str) -> Iterator[Verdict]:
    """Judge the writing of a file that other programs act upon by themselves."""
    if has_control_name(target) and not _is_in_repository(target):
        reason = f"writes to {_show_word(target)}, a file that other programs act upon by themselves"
        yield Verdict(Level.DESTRUCTIVE, reason)


def _is_in_repository(target: str) -> bool:
    """Whether it is in .git, where the sandbox itself protects what git executes."""
    return ".git" in target.split("/")


def judge_read(target: str) -> Iterator[Verdict]:
    if paths.is_network_device(target):
        yield _danger("opens a connection to another machine")
    elif paths.is_secret(target):
        yield _danger(f"reads {_show_word(target)}, where credentials are kept")


def operands(arguments: Words) -> list[str]:
    """The words that are not options."""
    if "--" in arguments:
        cut = list(arguments).index("--")
        return [word for word in arguments[:cut] if not _option(word)] + list(arguments[cut + 1 :])
    return [word for word in arguments if not _option(word)]


def has_option(arguments: Words, letters: str, *names: str) -> bool:
    """Whether one of these short or long options is present, also combined."""
    for word in arguments:
        if word == "--":
            return False
        if word.startswith("--"):
            if word.partition("=")[0] in names:
                return True
        elif _option(word) and any(letter in word[1:] for letter in letters):
            return True
    return False


def _option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _danger(reason: str) -> Verdict:
    return Verdict(Level.DANGEROUS, reason)


def _doubt(reason: str) -> Verdict:
    return Verdict(Level.ASK, reason)


def _show_word(word: str) -> str:
    return word.replace(UNKNOWN, "…")[:80]


def _credentials(name: str, arguments: Words) -> Iterator[Verdict]:
    spoken = " ".join([name, *arguments])
    if (
        any(spoken.startswith(known) for known in PASSWORDS)
        or "_authToken" in spoken
        and name in ("npm", "yarn", "pnpm")
    ):
        yield _danger(f"{name} prints credentials")
    if "stratum+" in spoken:
        yield _danger(f"{name} mines cryptocurrency")
    if name in _LOOKING:
        return
    for word in _find_words(arguments) if name == "find" else arguments:
        if paths.is_secret(word) and not word.startswith("-"):
            yield (_doubt if name in ("ssh", "ssh-add") else _danger)(f"{name} reads {_show_word(word)}")
        elif paths.is_raw_device(word) and name not in _MEASURING:
            yield _danger(f"{name} reads {_show_word(word)} directly")
        elif paths.is_private(word) and name not in ("touch", "rm", "git"):
            yield _doubt(f"{name} reads {_show_word(word)}, which may hold credentials")


def _find_words(arguments: Words) -> Iterator[str]:
    """The arguments of find without excluded paths."""
    around = ["", "", *arguments, ""]
    for before, option, word, after in zip(around, around[1:], around[2:], around[3:], strict=False):
        left_out = before in ("-not", "!") or after == "-prune"
        if not (option in ("-path", "-ipath", "-wholename") and left_out):
            yield word


# ---- removing, moving, changing ---------------------------------------------------------------


def _removing(arguments: Words) -> Iterator[Verdict]:
    everything = has_option(arguments, "rR", "--recursive")
    if has_option(arguments, "", "--no-preserve-root"):
        yield _danger("removes the root of the file system")
    for target in operands(arguments):
        yield from _judge_removal(target, everything=everything)


def _judge_removal(target: str, *, everything: bool) -> Iterator[Verdict]:
    path = paths.normalize_path(target)
    if paths.is_root_like(target) and (everything or "*" in target):
        yield _danger(f"deletes all of {_show_word(target)}")
    elif paths.is_system(target) or paths.is_startup_file(target):
        yield _danger(f"removes {_show_word(target)}, which belongs to the system or is started automatically")
    elif everything and target.startswith(UNKNOWN) and "/" in target:
        yield _danger(f"removes {_show_word(target)}, which is the root while the variable is empty")
    elif everything and (paths.is_home(target) or UNKNOWN in target or path in (".", "*", ".*")):
        yield _doubt(f"deletes {_show_word(target)} with everything in it")
    elif everything and path.endswith(".git"):
        yield _doubt("removes a repository's history")


def _moving(arguments: Words) -> Iterator[Verdict]:
    named = operands(arguments)
    for source in named if _value(arguments, "-t", "--target-directory") else named[:-1]:
        if paths.is_root_like(source) or paths.is_system(source) or paths.is_startup_file(source):
            yield _danger(f"moves {_show_word(source)} away")
    yield from _copying(arguments)


def _copying(arguments: Words) -> Iterator[Verdict]:
    named = operands(arguments)
    into = _value(arguments, "-t", "--target-directory")
    for target in [into] if into else named[-1:] if len(named) > 1 else []:
        yield from judge_write(target)
    for source in named:
        if source == "/dev/zero" or paths.is_device(source):
            yield _danger(f"reads {_show_word(source)} as a file")


def _installing(arguments: Words) -> Iterator[Verdict]:
    if re.fullmatch(r"0?[2467][0-7]{3}|.*[+=][rwx]*s.*", _value(arguments, "-m", "--mode")):
        yield _danger("lets others run a program with its owner's rights")
    yield from _copying(arguments)


def _linking(arguments: Words) -> Iterator[Verdict]:
    named = operands(arguments)
    yield from judge_write(named[-1]) if len(named) > 1 else ()
    for source in named[:-1]:
        if paths.is_root_like(source) or paths.is_secret(source):
            yield _danger(f"makes another name for {_show_word(source)}")


def _into_all(arguments: Words) -> Iterator[Verdict]:
    for target in operands(arguments):
        yield from judge_write(target)
        if paths.is_root_like(target):
            yield _danger(f"changes {_show_word(target)}")


def _modes(arguments: Words) -> Iterator[Verdict]:
    named = [word for word in arguments if not re.fullmatch(r"-[RfvchPHL]+|--[a-z-]+(=.*)?", word)]
    mode, targets = (named[0] if named else ""), named[1:]
    if re.search(r"\+[rwxX]*s", mode) or re.fullmatch(r"0?[2467][0-7]{3}", mode) or re.search(r"=[rwx]*s", mode):
        yield _danger("lets others run a program with its owner's rights")
    everything = has_option(arguments, "R", "--recursive")
    for target in targets:
        if paths.is_system(target) or paths.is_moot_file(target) or everything and paths.is_root_like(target):
            yield _danger(f"changes who may use {_show_word(target)}")
        elif everything and UNKNOWN in target:
            yield _doubt(f"changes who may use {_show_word(target)}")


def _owners(arguments: Words) -> Iterator[Verdict]:
    named = operands(arguments)
    if named and re.match(r"(root|0)?(:(root|0))?$", named[0]) and named[0] != "":
        yield _danger("gives files to root")
    for target in named[1:]:
        if paths.is_system(target) or paths.is_root_like(target):
            yield _danger(f"changes who owns {_show_word(target)}")


def _disk(arguments: Words) -> Iterator[Verdict]:
    given = dict(word.split("=", 1) for word in arguments if "=" in word)
    for target in (given.get("of", ""), given.get("if", "")):
        if (
            target
            and (paths.is_device(target) or target.startswith("/dev/" + UNKNOWN))
            and not target.endswith("random")
        ):
            yield _danger(f"copies directly from or to {_show_word(target)}")
    yield from judge_write(given.get("of", "x"))
    if re.match(r"/dev/(zero|u?random|full)", given.get("if", "")) and "count" not in given:
        yield _danger("writes until the disk is full")


def _in_place(arguments: Words) -> Iterator[Verdict]:
    if has_option([word for word in arguments if not word.startswith("--")], "i") or has_option(
        arguments, "", "--in-place"
    ):
        for target in operands(arguments)[1:] or operands(arguments):
            yield from judge_write(target)


def _value(arguments: Words, *names: str) -> str:
    """The value of an option, in the next word or the same one."""
    for index, word in enumerate(arguments):
        for name in names:
            if word == name and index + 1 < len(arguments):
                return arguments[index + 1]
            if name.startswith("--") and word.startswith(name + "="):
                return word[len(name) + 1 :]
            if not name.startswith("--") and word.startswith(name) and len(word) > 2 and not word.startswith("--"):
                return word[2:]
    return ""


_RULES: dict[str, Callable[[Words], Iterator[Verdict]]] = {
    "rm": _removing,
    "rmdir": _removing,
    "unlink": _removing,
    "trash": _removing,
    "mv": _moving,
    "rename": _moving,
    "cp": _copying,
    "install": _installing,
    "rsync": _copying,
    "scp": _copying,
    "ln": _linking,
    "link": _linking,
    "tee": _into_all,
    "truncate": _into_all,
    "touch": _into_all,
    "mkfifo": _into_all,
    "mknod": _into_all,
    "fallocate": _into_all,
    "split": lambda arguments: _into_all(operands(arguments)[1:]),
    "sponge": _into_all,
    "chmod": _modes,
    "setfacl": _owners,
    "chown": _owners,
    "chgrp": _owners,
    "dd": _disk,
    "dcfldd": _disk,
    "sed": _in_place,
    "perl": _in_place,
}


def rule(*names: str) -> Callable[[Callable[[Words], Iterator[Verdict]]], Callable[[Words], Iterator[Verdict]]]:
    """Register a rule for the given commands; a command has at most one rule."""

    def keep(function: Callable[[Words], Iterator[Verdict]]) -> Callable[[Words], Iterator[Verdict]]:
        for name in names:
            _RULES[name] = function
        return function

    return keep


danger, doubt, option_value = _danger, _doubt, _value
