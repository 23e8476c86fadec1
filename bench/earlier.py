"""Installs an earlier commit of this repository beside the checkout, so that bench/__main__.py can measure it too."""

import subprocess
from pathlib import Path

_ROOT = Path(__file__).parent.parent


def install_commit(ref: str, folder: Path) -> Path:
    """The `moot` command of that commit. A commit is installed once, in a worktree with an environment of its own."""
    commit = _git("rev-parse", "--verify", f"{ref}^{{commit}}")
    checkout = folder / "commits" / commit[:12]
    if not checkout.exists():
        # A worktree whose folder was removed by hand still has its name taken.
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(checkout), commit)
    subprocess.run([str(checkout / "dev"), "python", "-c", ""], check=True, cwd=checkout)
    return checkout / ".venv" / "bin" / "moot"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()
