"""Pulls an embedded model and shows its progress. Used by `moot models pull`, `moot init` and the demo."""

from pathlib import Path

from moot.cli import output
from moot.daemon.paths import make_folder
from moot.models.pullable import MODELS


def pull_for_use(name: str, folder: Path) -> None:
    """Pull a model that is going to be used at once; raises before that if this installation cannot run it."""
    from moot.models.local import find_missing_part  # noqa: PLC0415 - as below

    if part := find_missing_part(name):
        part.fix += ", then `moot init` again. Nothing was downloaded or written."
        raise part
    pull_model(name, folder)


def pull_model(name: str, folder: Path) -> Path:
    """Pull a model, showing progress on stderr."""
    from moot.models.pull import PullProgress, pull  # noqa: PLC0415 - zip, hash and subprocess, for this command alone

    make_folder(folder)
    with output.progress(f"Looking for {MODELS[name].title}") as bar:

        def show(step: PullProgress) -> None:
            percent = step.done_bytes * 100 // step.total_bytes
            verb = "Checking" if step.stage == "check" else "Pulling"
            bar.update(f"{verb} {MODELS[name].title}: {percent} % of {step.total_bytes // 1_000_000} MB")

        return pull(name, folder, show)
