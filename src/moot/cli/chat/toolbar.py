"""Renders the one-row toolbar of the chat for a given width. Used by controller.py. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from moot.cli.render import numbers, sanitize

_BETWEEN = "   "
_IDLE_KEYS = ("@ brings a guest", "/help", "Ctrl-D leaves")
# Fewer columns of a model's name say nothing.
_LEAST_MODEL = 8
_RUNNING_KEYS = ("/help", "Esc stops")


class ToolbarFacts(Struct, frozen=True, kw_only=True):
    """What the toolbar shows. A number that is 0 and a text that is empty are not shown."""

    agent: str
    model: str
    # The mode of the conversation.
    mode: str = ""
    # The auto-approve level of the conversation.
    auto_approve: str = ""
    # Tokens and cost of the conversation.
    tokens: int = 0
    cost: float = 0.0
    # Tokens of the last request, and how many the model can take.
    context_tokens: int = 0
    context_window: int = 0
    queued: int = 0
    asks: int = 0
    is_connected: bool = True
    is_running: bool = False

    def render(self, width: int) -> str:
        shown, short = self._render_context()
        tokens = f"{numbers.format_count(self.tokens)} tokens in all" if self.tokens else ""
        cost = numbers.format_cost(self.cost) if self.cost else ""
        model = sanitize.line(self.model)
        # The size of the window goes before the model, and the model before what a person watches: context and cost.
        forms = [(shown, model), (short, model)]
        forms += [
            (short, sanitize.fit(model, room)) for room in range(sanitize.columns(model) - 1, _LEAST_MODEL - 1, -1)
        ]
        for context, name in forms:
            row = self._render(context, tokens, cost, name, width)
            if f" {name} " in row:
                return row
        return row

    def _render(self, context: str, tokens: str, cost: str, model: str, width: int) -> str:
        facts = (
            sanitize.name(self.agent),
            model,
            self.mode and f"mode {sanitize.name(self.mode)}",
            self.auto_approve and f"auto-approve {sanitize.name(self.auto_approve)}",
            context,
            tokens,
            cost,
            f"{self.queued} queued" if self.queued else "",
            self._render_asks(),
            "" if self.is_connected else "connecting",
        )
        keys = _RUNNING_KEYS if self.is_running else _IDLE_KEYS
        return render_toolbar(facts, keys, width, spare=(tokens, model, context, cost))

    def _render_context(self) -> tuple[str, str]:
        """How full the context window was at the last request; a long and a short form."""
        if not self.context_tokens:
            return "", ""
        if not self.context_window:
            # The server does not say how large it is.
            used = f"context {numbers.format_count(self.context_tokens)}"
            return f"{used} tokens", used
        share = f"context {min(100, round(100 * self.context_tokens / self.context_window))}%"
        return f"{share} of {numbers.format_count(self.context_window).replace('.0', '')} tokens", share

    def _render_asks(self) -> str:
        if self.asks > 1:
            return f"{self.asks} wait for you"
        return "waiting for you" if self.asks else ""


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
