"""Rules for programs that change things elsewhere: clusters, clouds, databases, network settings. Pure."""

import re
from collections.abc import Iterator

from moot.domain.shell import Verdict
from moot.tools.shell import paths
from moot.tools.shell.rules import Words, danger, doubt, has_option, judge_write, name_set, operands, option_value, rule

_DESTROYS = re.compile(
    r"(delete|destroy|terminate|remove|purge|drop|wipe|uninstall|deregister)([-:]\w[\w-]*)?|\w+:(destroy|delete|drop|reset)"
    r"|rm|rb|drain|nuke|teardown|undefine|force-unlock"
)
_STORES = re.compile(r"(s3|gs|az|r2|b2|oss|swift)://|https://\w+\.blob\.")
_HOST = re.compile(r"privileged|host(PID|Network|Path|IPC)|allowPrivilegeEscalation|node/|--profile=sysadmin")
_NETWORK = re.compile(
    r"set|add|del(ete)?|flush|change|replace|append|down|up|off|modify|disconnect|addbr|delbr|reapply"
)
_AFAR = re.compile(r"([\w.-]+\s*@\s*)?(https?|git\+\w+|github|gist|gitlab):|--\w+=(https?|git\+\w+):")
_POWERS = re.compile(r"login1|systemd1|PackageKit|PolicyKit|Accounts|UDisks|NetworkManager|hostname1", re.IGNORECASE)
_LENDS = re.compile(
    r"(source|src|path)=(/|~|/(etc|usr|var|bin|lib|root|home|boot|dev|sys|proc|run)\b.*)|security\.(privileged|nesting)=.*"
)
_EMPTIES = re.compile(r"dropDatabase|\.drop\(|(deleteMany|remove)\(\s*(\{\s*\})?\s*\)")
_HUGE = re.compile(r"\d{3,}\s*Gi?B?|\d+\s*[TPEZY]i?B?|\d{12,}")


@rule(
    *name_set(
        "kubectl oc k3s helm terraform tofu terragrunt pulumi aws gcloud az doctl heroku flyctl fly vercel netlify "
        "firebase gsutil s3cmd mc vagrant virsh lxc incus multipass cdk serverless sls eksctl kops hcloud ibmcloud "
        "oci vault consul etcdctl nomad supabase wrangler rclone gh glab limactl minikube kind k3d railway render"
    )
)
def _clouds(arguments: Words) -> Iterator[Verdict]:
    given = operands(arguments)
    if any(_DESTROYS.fullmatch(word) for word in given[:4]) or "-destroy" in arguments:
        yield doubt("discards data that may exist nowhere else")
    if len(given) > 1 and _STORES.match(given[-1]) and not any(_STORES.match(word) for word in given[:-1]):
        yield from (
            [doubt("sends files to another machine")]
            if given[1] in ("cp", "sync", "mv", "put") or given[0] in _PUTS
            else ()
        )
    if any(_LENDS.fullmatch(word) for word in arguments[2:]):
        yield danger("gives a container access to the machine")
    if given[:1] and given[0] in ("run", "create", "apply", "patch", "debug", "replace", "edit", "set"):
        if any(_HOST.search(word) for word in arguments):
            yield danger("gives a container access to the machine")
        if any("://" in word for word in (option_value(arguments, "-f", "--filename"), option_value(arguments, "-k"))):
            yield doubt("installs what it downloads")


_PUTS = ("cp", "rsync", "put", "sync", "mv", "copy", "mirror")


@rule("dropdb", "dropuser", "mysqladmin", "pg_dropcluster", "pg_resetwal")
def _databases(arguments: Words) -> Iterator[Verdict]:
    if not set(operands(arguments)) & {"status", "ping", "version", "processlist", "variables", "extended-status"}:
        yield doubt("discards data that may exist nowhere else")


@rule("redis-cli", "valkey-cli", "keydb-cli")
def _redis(arguments: Words) -> Iterator[Verdict]:
    words = " ".join(arguments).lower()
    if re.search(r"\b(config set (dir|dbfilename)|module load|slaveof|replicaof)\b", words):
        yield danger("lets a database write files or load code")
    elif re.search(r"\b(flushall|flushdb|shutdown|debug|config set|script flush)\b", words):
        yield doubt("discards data that may exist nowhere else")


@rule("mongo", "mongosh")
def _mongo(arguments: Words) -> Iterator[Verdict]:
    if any(_EMPTIES.search(word) for word in arguments):
        yield doubt("discards data that may exist nowhere else")


@rule("ip", "ifconfig", "route", "nmcli", "tc", "brctl", "iw", "iwconfig", "ethtool", "resolvectl", "networkctl")
def _network(arguments: Words) -> Iterator[Verdict]:
    if any(_NETWORK.fullmatch(word) for word in operands(arguments)[:4]):
        yield danger("changes the network settings of the machine")


@rule("update-alternatives", "alternatives", "dpkg-divert", "dpkg-reconfigure", "ldconfig", "pam-auth-update")
def _replace(arguments: Words) -> Iterator[Verdict]:
    if not has_option(
        arguments, "pv", "--list", "--display", "--query", "--get-selections", "--listpackage", "--truename"
    ):
        yield danger("replaces known programs by others")


@rule("scp", "sftp")
def _copy_remote(arguments: Words) -> Iterator[Verdict]:
    if any(re.match(r"-S|-D|(-o ?)?(ProxyCommand|LocalCommand|KnownHostsCommand|PermitLocal)", w) for w in arguments):
        yield danger("runs a program to connect")
    given = operands(arguments)
    if len(given) > 1:
        yield from judge_write(given[-1])


@rule("npx", "bunx", "pnpx", "pipx", "uvx", "nix", "nix-build", "nix-env", "cargo-binstall", "volta")
def _fetch(arguments: Words) -> Iterator[Verdict]:
    if any(_AFAR.match(word) for word in arguments):
        yield doubt("downloads a program from another source and runs it")


@rule("zmodload")
def _modules(arguments: Words) -> Iterator[Verdict]:
    if any("net" in word for word in arguments):
        yield danger("opens a connection to another machine")


@rule("fallocate")
def _large(arguments: Words) -> Iterator[Verdict]:
    for target in operands(arguments):
        yield from judge_write(target)
    if any(_HUGE.fullmatch(word.rpartition("=")[2].removeprefix("-l")) for word in arguments):
        yield doubt("can fill the whole disk")


@rule("grep", "egrep", "fgrep", "rg", "ag", "ack", "ugrep")
def _search(arguments: Words) -> Iterator[Verdict]:
    for target in operands(arguments)[1:]:
        if paths.normalize_path(target) in _HOLD_SECRETS or paths.is_home(target) and paths.is_root_like(target):
            yield doubt(f"looks through everything in {target[:60]}")


_HOLD_SECRETS = ("~/.config", "~/.local", "~/.local/share", "/")


@rule("dbus-send", "busctl", "gdbus", "qdbus", "qdbus6", "dbus-monitor")
def _bus(arguments: Words) -> Iterator[Verdict]:
    if operands(arguments)[:1] in (["list"], ["tree"], ["status"], ["introspect"]):
        return
    powerful = any(_POWERS.search(word) for word in arguments)
    yield danger("controls the machine over D-Bus") if powerful else doubt("controls other programs over D-Bus")


@rule("ssh-keygen", "ssh-add")
def _keys(arguments: Words) -> Iterator[Verdict]:
    if any(re.match(r"-D|-s$|-s/|-w$", word) for word in arguments if not word.startswith("-sign")):
        yield danger("loads code from a library")
    if has_option(arguments, "p") and any(paths.is_secret(word) for word in arguments):
        yield danger("changes a key")


@rule("java", "ant", "gradle", "mvn", "kotlin", "jrunscript", "javaws", "wish", "mshta")
def _from_afar(arguments: Words) -> Iterator[Verdict]:
    places = option_value(arguments, "-cp", "-classpath", "--class-path", "-f", "-jar", "-I", "--init-script", "--file")
    if "://" in places or any("://" in word for word in operands(arguments)[:1]):
        yield danger("runs what it downloads")


@rule("restic", "borg", "duplicity", "kopia", "rdiff-backup")
def _backups(arguments: Words) -> Iterator[Verdict]:
    if any(paths.is_root_like(word) for word in operands(arguments)):
        yield doubt("sends whole folders elsewhere")


@rule("Remove-Item", "Clear-Content", "Format-Volume", "Clear-Disk", "Stop-Computer", "Invoke-Expression", "iex")
def _powershell(arguments: Words) -> Iterator[Verdict]:
    if not arguments or any(paths.is_root_like(word) or paths.is_system(word) or "(" in word for word in arguments):
        yield danger("destroys things, or runs a text, in PowerShell")
    else:
        yield doubt("destroys things, or runs a text, in PowerShell")
