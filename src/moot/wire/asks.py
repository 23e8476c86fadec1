"""Encodes asks, approvals and rules as protocol messages. No I/O."""

from moot.domain.approval import Approval, Rule, cut
from moot.domain.ask import Ask, Asker, Question
from moot.domain.text import clean
from moot.wire import moot_pb2 as pb

_LISTED = 20_000


def ask_event(ask: Ask, by: Asker | None) -> pb.AskUserEvent:
    asked = _encode_questions(ask.questions)
    return pb.AskUserEvent(questions=asked, ask_id=ask.id, expires_at=ask.expires_at, by=_encode_asker(by))


def ask_info(ask: Ask, by: Asker | None) -> pb.AskInfo:
    return pb.AskInfo(
        kind="question",
        agent=ask.key.agent,
        sender=ask.key.sender,
        ask_id=ask.id,
        questions=_encode_questions(ask.questions),
        opened_at=ask.opened_at,
        expires_at=ask.expires_at,
        speaker=by.agent if by is not None else "",
        by=_encode_asker(by),
        run_id=ask.run_id,
    )


def approval_event(approval: Approval, by: Asker | None) -> pb.ApprovalEvent:
    return pb.ApprovalEvent(
        ask_id=approval.id,
        attempt=approval.attempt,
        tool=clean(approval.tool),
        line=clean(approval.line),
        preview=clean(approval.preview),
        reason=clean(approval.reason),
        rule=clean(approval.rule_words()),
        expires_at=approval.expires_at,
        whole_rule=clean(approval.rule_words(whole=True)),
        by=_encode_asker(by),
    )


def approval_info(approval: Approval, by: Asker | None, *, whole: bool = False) -> pb.AskInfo:
    """What waits, for a list; `whole` is for one that is looked at alone."""
    arguments, preview = clean(approval.arguments), clean(approval.preview)
    if not whole:
        arguments, preview = cut(arguments, _LISTED, approval.id), cut(preview, _LISTED, approval.id)
    return pb.AskInfo(
        agent=approval.key.agent,
        sender=approval.key.sender,
        ask_id=approval.id,
        opened_at=approval.opened_at,
        expires_at=approval.expires_at,
        kind="approval",
        tool=clean(approval.tool),
        line=clean(approval.line),
        preview=preview,
        reason=clean(approval.reason),
        attempt=approval.attempt,
        rule=clean(approval.rule_words()),
        speaker=approval.speaker,
        arguments=arguments,
        whole_rule=clean(approval.rule_words(whole=True)),
        by=_encode_asker(by),
        run_id=approval.run_id,
    )


def rule_info(rule: Rule) -> pb.RuleInfo:
    return pb.RuleInfo(
        number=rule.number,
        text=clean(str(rule)),
        agent=rule.agent,
        sender=rule.sender,
        tool=clean(rule.tool),
        pattern=clean(rule.pattern),
        run=rule.run,
        created_at=rule.created_at,
        created_by=rule.created_by,
    )


def _encode_questions(asked: tuple[Question, ...]) -> list[pb.AskQuestion]:
    return [
        pb.AskQuestion(
            question=clean(question.question),
            header=clean(question.header),
            options=[
                pb.AskOption(label=clean(option.label), description=clean(option.description))
                for option in question.options
            ],
            multi_select=question.multi_select,
        )
        for question in asked
    ]


def _encode_asker(by: Asker | None) -> pb.Asker | None:
    if by is None:
        return None
    return pb.Asker(agent=by.agent, run_id=by.run_id, spawn_reason=clean(by.spawn_reason), task=clean(by.task))
