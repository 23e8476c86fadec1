"""What of a new configuration waits for the next start of the daemon. Pure."""

from operator import attrgetter

from moot.domain.config import Config

# As the file names it, and where its value is.
_AT_START = {
    "listen.http": "listen.http",
    "listen.tcp": "listen.tcp",
    "vault.key": "hands.vault.key",
    "vault.decrypted_seconds": "hands.vault.decrypted_seconds",
    "outputs.keep_seconds": "hands.outputs.keep_seconds",
    "outputs.max_kept": "hands.outputs.max_kept",
    "outputs.max_characters": "hands.outputs.max_characters",
    "agent.agentsDir": "agent.agents_dir",
    "agent.foreignDirs": "agent.foreign_dirs",
}


def waiting(started: Config, now: Config) -> list[str]:
    """The keys that say something else than when the daemon started, and that are read at a start alone."""
    return [key for key, place in _AT_START.items() if attrgetter(place)(started) != attrgetter(place)(now)]
