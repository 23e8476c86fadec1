"""Encodes asks and rules as protocol messages. No I/O."""

from moot.domain.approval import Rule, cut, describe_rules, list_patterns
from moot.domain.ask import Ask, Asker, Question
from moot.domain.text import clean
from moot.wire import moot_pb2 as pb

_LISTED = 20_000


def question_event(ask: Ask, by: Asker | None) -> pb.AskUserEvent:
    return pb.AskUserEvent(
        questions=_encode_questions(ask.questions),
        ask_id=ask.id,
        attempt=ask.attempt,
        expires_at=ask.expires_at,
        by=_encode_asker(by),
    )


def approval_event(ask: Ask, by: Asker | None) -> pb.ApprovalEvent:
    return pb.ApprovalEvent(
        ask_id=ask.id,
        kind=ask.kind,
        attempt=ask.attempt,
        tool=clean(ask.tool),
        line=clean(ask.line),
        preview=clean(ask.preview),
        reason=clean(ask.reason),
        rule=clean(describe_rules(ask)),
        expires_at=ask.expires_at,
        whole_rule=clean(describe_rules(ask, whole=True)),
        by=_encode_asker(by),
        patterns=_encode_patterns(ask),
    )


def ask_info(ask: Ask, by: Asker | None, *, whole: bool = False) -> pb.AskInfo:
    """An open ask for a list; `whole` is for one that is looked at alone."""
    info = pb.AskInfo(
        kind=ask.kind,
        agent=ask.key.agent,
        sender=ask.key.sender,
        ask_id=ask.id,
        attempt=ask.attempt,
        run_id=ask.run_id,
        opened_at=ask.opened_at,
        expires_at=ask.expires_at,
        by=_encode_asker(by),
    )
    if ask.is_question:
        info.speaker = by.agent if by is not None else ""
        info.questions.extend(_encode_questions(ask.questions))
    else:
        _add_call(info, ask, whole=whole)
    return info


def _add_call(info: pb.AskInfo, ask: Ask, *, whole: bool) -> None:
    arguments, preview = clean(ask.arguments), clean(ask.preview)
    if not whole:
        arguments, preview = cut(arguments, _LISTED, ask.id), cut(preview, _LISTED, ask.id)
    info.speaker = ask.speaker
    info.tool, info.line, info.reason = clean(ask.tool), clean(ask.line), clean(ask.reason)
    info.arguments, info.preview = arguments, preview
    info.patterns.extend(_encode_patterns(ask))
    info.rule, info.whole_rule = clean(describe_rules(ask)), clean(describe_rules(ask, whole=True))


def _encode_patterns(ask: Ask) -> list[pb.PatternInfo]:
    return [encode_pattern(ask, pattern.write()) for pattern in list_patterns(ask)]


def encode_pattern(ask: Ask, text: str) -> pb.PatternInfo:
    """A pattern with the rule it would write. Raises BadRequest if it does not cover the call of the ask."""
    return pb.PatternInfo(text=clean(text), rule=clean(describe_rules(ask, pattern=text)))


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
        teammates=rule.teammates or (),
        scope="run" if rule.run else "conversation" if rule.is_of_conversation else "always",
    )


def _encode_questions(questions: tuple[Question, ...]) -> list[pb.AskQuestion]:
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
        for question in questions
    ]


def _encode_asker(by: Asker | None) -> pb.Asker | None:
    if by is None:
        return None
    return pb.Asker(agent=by.agent, run_id=by.run_id, spawn_reason=clean(by.spawn_reason), task=clean(by.task))
