"""Decisions on approvals and grants, and the rules that make later ones unnecessary. Works with ask. Pure."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moot.domain.ask import Ask, AskKind, Question
from moot.domain.call_pattern import CallPattern, offer_patterns, parse_pattern
from moot.domain.call_shape import CallShape
from moot.domain.errors import BadRequest, Conflict
from moot.domain.ids import shorten_ask_id
from moot.domain.senders import owner_of
from moot.domain.visible import show, show_block

# Tools whose calls are a command: a rule covers the command in its folder. For other tools it covers the arguments.
COMMANDS = ("exec", "exec_bg")

# The value of `exact` when no rule may be made because the run has seen untrusted text; no rule applies then either.
NO_RULE = "none"

# Maximum lengths for a screen and an event. The arguments are stored whole; `moot inbox show` shows them.
LINE = 300
_REASON = 2_000
_SUBJECT = 2_000
_PREVIEW = 200_000


class Decision(StrEnum):
    ONCE = "once"
    RUN = "run"
    CONVERSATION = "conversation"
    ALWAYS = "always"
    DENY = "deny"


# Decisions that write rules.
_RULE_DECISIONS = (Decision.RUN, Decision.CONVERSATION, Decision.ALWAYS)


class Rule(Struct, frozen=True, kw_only=True):
    """Calls that need no approval.

    An empty `run` means every run. `matcher` is the pattern of the calls it covers; without one, it covers what `bound`
    is a digest of. `pattern` says in words what it covers. `teammates` are the agents below `agent` down to the one the
    rule is for; empty if it is for `agent` itself, None in a rule of 0.1.0, which was shown without them.
    `is_of_conversation` if it ends with the conversation and does not apply to background runs.
    """

    agent: str
    sender: str
    tool: str
    pattern: str
    bound: str
    teammates: tuple[str, ...] | None = None
    run: str = ""
    matcher: CallPattern | None = None
    is_of_conversation: bool = False
    number: int = 0
    created_at: float = 0.0
    created_by: str = ""

    def allows(self, ask: Ask, *, exactly: bool = False) -> bool:
        """Whether the rule approves the call; with `exactly`, only a rule for exactly this call counts."""
        if self.matcher is not None:
            return not exactly and self._matches(ask, self.matcher)
        if is_once_only(ask):
            # The rule was made without the untrusted text that the run has seen since.
            return False
        bounds = (ask.exact,) if exactly else (ask.exact, bound_of_tool(ask))
        return (self.teammates or ()) == ask.teammates and self._covers(ask, bounds)

    def _matches(self, ask: Ask, matcher: CallPattern) -> bool:
        is_trusted = not is_once_only(ask) or matcher.despite_taint
        is_held = (self.teammates or ()) == ask.teammates and self._is_held_by(ask)
        return is_trusted and is_held and matcher.matches(ask.tool, ask.binding.what, ask.shape)

    def grants(self, ask: Ask) -> bool:
        """Whether the rule grants the requested tool. This does not approve any call."""
        return self.teammates in (None, ask.teammates) and self._covers(ask, (bound_of_grant(ask),))

    def _covers(self, ask: Ask, bounds: tuple[str, ...]) -> bool:
        return self._is_held_by(ask) and self.tool == ask.tool and self.bound != "" and self.bound in bounds

    def _is_held_by(self, ask: Ask) -> bool:
        sender = ask.key.sender if self.is_of_conversation else owner_of(ask.key.sender)
        return (self.agent, self.sender) == (ask.key.agent, sender) and self.run in ("", ask.run_id)

    def __str__(self) -> str:
        where = f"in run {self.run}" if self.run else f"for {self.holder}"
        where += " in this conversation, not in background runs" if self.is_of_conversation else ""
        return f"allow {self.pattern} {where}"

    @property
    def holder(self) -> str:
        """Who the rule is for: an agent or a teammate of it, and the person it works for."""
        return describe_holder(self.agent, self.teammates or (), self.sender)


def describe_holder(agent: str, teammates: Sequence[str], sender: str) -> str:
    """Return an agent, or the last of its teammates with those it was spawned by, and the sender, as text."""
    *above, last = map(show, (agent, *teammates))
    whose = f"{last} (teammate of {' → '.join(above)})" if above else last
    return f"{whose} as {show(sender)}"


def is_once_only(ask: Ask) -> bool:
    """Whether no rule can be made from the ask, because the run has seen untrusted text."""
    return ask.exact == NO_RULE


def bound_of_tool(ask: Ask) -> str:
    """Return the digest that a rule for every call of the tool is bound to."""
    return digest("any", ask.tool, ask.binding.what)


def bound_of_grant(ask: Ask) -> str:
    """Return the digest that a rule is bound to which grants the tool to this agent in every run."""
    return digest("grant", ask.speaker, ask.tool, ask.binding.what)


def list_patterns(ask: Ask) -> tuple[CallPattern, ...]:
    """Return the patterns that are offered for the call of an ask."""
    if ask.kind is not AskKind.APPROVAL:
        return ()
    return offer_patterns(ask.tool, ask.binding.what, ask.shape, is_tainted=is_once_only(ask))


def make_rules(ask: Ask, decision: Decision, *, whole: bool = False, pattern: str = "") -> tuple[Rule, ...]:
    """Return the rules that a decision creates. `whole` widens the rule about the call to every call of the tool.

    A `pattern` (call_pattern.py) widens it to the calls it matches instead. "Always" for a grant adds a rule that
    grants the tool. A grant for this run only needs no such rule.
    """
    if decision not in _RULE_DECISIONS:
        return ()
    if pattern:
        return (_pattern_rule(ask, decision, pattern),)
    if is_once_only(ask):
        return ()
    run = ask.run_id if decision is Decision.RUN else ""
    what = f", {ask.binding.what}" if ask.binding.what else ""
    written: list[Rule] = []
    if decision is Decision.ALWAYS and ask.kind is AskKind.GRANT:
        written.append(_rule(ask, f"the tool {ask.tool}{what}", bound_of_grant(ask), run))
    if bound := bound_of_tool(ask) if whole else ask.exact:
        covered = f"any {ask.tool}{what}" if whole else f"{ask.tool}: {ask.subject}"
        rule = _rule(ask, covered, bound, run)
        written.append(replace(rule, is_of_conversation=decision is Decision.CONVERSATION))
    return tuple(written)


def _pattern_rule(ask: Ask, decision: Decision, text: str) -> Rule:
    """Return the rule for a pattern. Raise BadRequest if the pattern does not cover the call."""
    if ask.kind is not AskKind.APPROVAL:
        raise BadRequest("a grant has no pattern", fix="Allow the tool, or deny it.")
    matcher = parse_pattern(text, ask.tool, ask.binding.what, ask.shape, is_tainted=is_once_only(ask))
    bound = digest("pattern", msgspec.json.encode(matcher).decode())
    rule = _rule(ask, matcher.describe(), bound, ask.run_id if decision is Decision.RUN else "")
    return replace(rule, matcher=matcher, is_of_conversation=decision is Decision.CONVERSATION)


def require_rules(ask: Ask, decision: Decision, *, whole: bool = False, pattern: str = "") -> tuple[Rule, ...]:
    """Return the rules of a decision, none for one call. Raise if it calls for a rule and none can be made."""
    rules = make_rules(ask, decision, whole=whole, pattern=pattern)
    # A grant always applies to the run, so it needs no rule.
    is_for_run = ask.kind is AskKind.GRANT and decision is Decision.RUN
    if rules or is_for_run or decision not in _RULE_DECISIONS:
        return rules
    message = f"no rule can be made for the call of {ask.id}"
    if not is_once_only(ask):
        raise Conflict(message, fix="Allow it once.")
    raise Conflict(
        f"{message}: its run has read untrusted text, and no rule applies to such a run",
        fix="Allow it once, or deny it;"
        f" `moot trust {ask.key.agent} --as {ask.key.sender}` marks the conversation so far as trusted.",
    )


def describe_rules(ask: Ask, decision: Decision = Decision.ALWAYS, *, whole: bool = False, pattern: str = "") -> str:
    """Return the rules that a decision would create, as text; "" if it would create none."""
    return "; and ".join(map(str, make_rules(ask, decision, whole=whole, pattern=pattern)))


def _rule(ask: Ask, pattern: str, bound: str, run: str) -> Rule:
    # A background run has a unique sender, which never occurs again; the rule is for its owner.
    sender = owner_of(ask.key.sender)
    return Rule(
        agent=ask.key.agent,
        sender=sender,
        tool=ask.tool,
        pattern=pattern,
        bound=bound,
        teammates=ask.teammates,
        run=run,
    )


def digest(*parts: str) -> str:
    """Return the digest of texts; their lengths are included, so that no two lists of texts have the same input."""
    return sha256("".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")).hexdigest()


def fit(ask: Ask, redact: Callable[[str], str]) -> Ask:
    """Return the ask as it may be stored and shown: without secrets, exactly (visible.py), and with long texts cut.

    Secrets are removed first: a cut in the middle of one would leave half of it, and a code would hide part of it.
    """

    def render(text: str, most: int, write: Callable[[str], str] = show) -> str:
        text = redact(text)
        more = len(text) - most
        return write(text) if more <= 0 else f"{write(text[:most])}{describe_cut(more, ask.id)}"

    return replace(
        ask,
        questions=tuple(_redact_question(question, redact) for question in ask.questions),
        arguments=redact(ask.arguments),
        subject=show(redact(ask.subject)) if ask.tool in COMMANDS else render(ask.subject, _SUBJECT),
        line=render(ask.line, LINE),
        preview=render(ask.preview, _PREVIEW, show_block),
        reason=render(ask.reason, _REASON),
        shape=_keep_shape(ask.shape, redact),
    )


def _keep_shape(shape: CallShape | None, redact: Callable[[str], str]) -> CallShape | None:
    """Return the shape if it contains no secret: a rule with a secret in it could not be shown exactly."""
    if shape is None:
        return None
    written = msgspec.json.encode(shape).decode()
    return shape if redact(written) == written else None


def _redact_question(question: Question, redact: Callable[[str], str]) -> Question:
    options = tuple(
        replace(option, label=redact(option.label), description=redact(option.description))
        for option in question.options
    )
    return replace(question, question=redact(question.question), header=redact(question.header), options=options)


def cut(text: str, most: int, ask_id: str) -> str:
    """Cut a long text; the end says how much is missing and where to find it."""
    more = len(text) - most
    return text if more <= 0 else f"{text[:most]}{describe_cut(more, ask_id)}"


def describe_cut(more: int, ask_id: str) -> str:
    return f" … {more} more characters: moot inbox show {shorten_ask_id(ask_id)}"
