"""The check of `moot doctor` of vocabularies: agents that have none although they are used, and why."""

from collections.abc import Iterator

from moot.cli.doctor import checks
from moot.cli.doctor.checks import NOTE, Finding
from moot.cli.render.numbers import format_plural
from moot.wire import moot_pb2 as pb

_FIX = "`moot agents vocabulary --write` writes it now, `vocabulary = false` in [agent] does without."


def check_vocabularies(found: pb.VocabularyList) -> Iterator[Finding]:
    teammates = [info for info in found.vocabularies if info.is_teammate]
    if found.off_reason or not teammates:
        return
    by_reason: dict[str, list[str]] = {}
    for info in teammates:
        if not info.words and info.obstacle:
            by_reason.setdefault(info.obstacle, []).append(info.agent)
    for reason, names in by_reason.items():
        text = f"Without a vocabulary, requests for {', '.join(names)} are found less often: {reason.rstrip('.')}."
        yield Finding(level=NOTE, check="vocabulary", message=text, fix=_FIX)
    written = sum(info.words > 0 for info in teammates)
    if written:
        yield checks.ok("vocabulary", f"Written for {format_plural(written, 'agent')}.")
