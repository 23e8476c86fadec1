"""Private files and folders in the home folder: keys, passwords, browser profiles, shell histories. Used by
`off_limits`.
"""

import os
import pwd

_KEYS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".config/gcloud", ".config/gh", ".config/hub",
    ".config/glab-cli", ".config/doctl", ".config/containers/auth.json", ".config/helm", ".config/sops", ".config/age",
    ".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".config/git/credentials", ".s3cfg",
    ".boto", ".vault-token", ".terraform.d", ".terraformrc", ".config/rclone", ".config/op", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml",
    ".gradle/gradle.properties", ".cache/huggingface/token", ".config/github-copilot", ".claude/.credentials.json",
    ".codex/auth.json", ".pgpass", ".my.cnf", ".mylogin.cnf", ".smbcredentials", ".config/msmtp", ".msmtprc",
    ".electrum", ".bitcoin", ".ethereum",
)  # fmt: skip
_KEYRINGS = (
    ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/keepassxc", ".config/KeePass",
    ".config/1Password", ".config/Bitwarden", "Library/Keychains",
)  # fmt: skip
_BROWSERS = (
    ".mozilla", ".thunderbird", ".config/google-chrome", ".config/google-chrome-beta", ".config/chromium",
    ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", "snap/firefox",
    "snap/chromium", "snap/thunderbird", ".var/app", "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox", "Library/Safari", "Library/Cookies",
)  # fmt: skip
_HISTORIES = (
    ".bash_history", ".zsh_history", ".zhistory", ".sh_history", ".history", ".local/share/fish/fish_history",
    ".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history",
    ".rediscli_history", ".irb_history", ".lesshst",
)  # fmt: skip


def private_places() -> list[str]:
    """All private paths in each home folder of this process, whether or not they exist."""
    return [os.path.join(home, name) for home in homes() for name in (*_KEYS, *_KEYRINGS, *_BROWSERS, *_HISTORIES)]


def homes() -> list[str]:
    """The home folder from the environment and the one from the user database."""
    found = [os.environ.get("HOME", "")]
    try:
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        # A user without an entry, as in many containers.
        found.append("")
    return list(dict.fromkeys(os.path.realpath(home) for home in found if os.path.isabs(home)))
