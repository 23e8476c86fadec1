"""Renders the one-row toolbar of the chat for a given width. Pure."""

from collections.abc import Sequence

from moot.cli.render import sanitize

_BETWEEN = "   "


def render_toolbar(facts: Sequence[str], keys: Sequence[str], width: int, *, spare: Sequence[str] = ()) -> str:
    """Render facts and keys side by side.

    If the row is too long, keys are dropped first, except the last; then the `spare` facts in their order; then the
    facts are cut. The key for leaving always stays visible.
    """
    kept = [fact for fact in facts if fact]
    shown = list(keys)
    gone = [fact for fact in spare if fact]
    while sanitize.columns(_join_text(kept, shown)) > width and (len(shown) > 1 or gone):
        if len(shown) > 1:
            del shown[0]
        else:
            kept.remove(gone.pop(0))
    if sanitize.columns(_join_text(kept, shown)) <= width:
        return _join_text(kept, shown)
    hint = _BETWEEN + " · ".join(shown)
    return sanitize.fit(" " + " · ".join(kept), max(1, width - sanitize.columns(hint))) + hint


def _join_text(facts: Sequence[str], keys: Sequence[str]) -> str:
    return " " + " · ".join(facts) + _BETWEEN + " · ".join(keys)
