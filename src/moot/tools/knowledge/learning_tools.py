"""The tools on learnings: search_learnings, save_learning, learning_stats, learning_cleanup."""

from typing import Any

from moot.domain.errors import BadRequest
from moot.domain.learning import (
    PATTERN_LENGTH,
    SAVED_CONFIDENCE,
    TEXT_LENGTH,
    Learning,
    LearningCategory,
    LearningFilter,
    dump_stats,
    make_trigger,
    parse_category,
)
from moot.domain.ports.tool import ToolResult
from moot.tools.knowledge.knowledge_tool import (
    FOUND,
    KnowledgeCall,
    KnowledgePlan,
    format_time,
    get_text,
    make_spec,
    one_of,
)
from moot.tools.store_tool import Arguments, answer, join_taint

_DAY = 86_400.0


async def _search(call: KnowledgeCall, arguments: Arguments) -> ToolResult:
    category = get_text(arguments, "category")
    found = await call.learnings.search(
        call.owner,
        get_text(arguments, "query"),
        category=parse_category(category) if category else None,
        limit=FOUND,
    )
    data = {"results": [_dump_learning(each) for each in found], "count": len(found)}
    return answer(data, join_taint(each.taint for each in found))


def _dump_learning(learning: Learning) -> dict[str, Any]:
    return {
        "id": learning.id,
        "trigger": learning.trigger,
        "error_pattern": learning.pattern,
        "diagnosis": learning.diagnosis,
        "fix": learning.fix,
        "category": learning.category,
        "confidence": round(learning.confidence, 3),
        "occurrences": learning.occurrences,
        "updated_at": format_time(learning.updated_at),
    }


async def _save(call: KnowledgeCall, arguments: Arguments) -> ToolResult:
    category = get_text(arguments, "category")
    learning = Learning(
        id="",
        owner=call.owner,
        trigger=_name_trigger(call, " ".join(get_text(arguments, "trigger").split())),
        pattern=" ".join(get_text(arguments, "error_pattern").split()),
        diagnosis=get_text(arguments, "diagnosis"),
        fix=get_text(arguments, "fix"),
        category=parse_category(category) if category else LearningCategory.GENERAL,
        confidence=SAVED_CONFIDENCE,
        taint=call.context.taint,
        created_at=call.now,
        updated_at=call.now,
    )
    _check_sizes(learning)
    is_new = await call.learnings.save(learning)
    message = "The learning is saved." if is_new else "The learning about this failure is replaced."
    return answer({"status": "saved", "message": message})


def _name_trigger(call: KnowledgeCall, named: str) -> str:
    """Return the trigger under which failures of a tool are looked up, if a tool is named."""
    if not named:
        raise BadRequest("missing trigger parameter", fix="Name the tool or the action.")
    is_tool = named.replace("_", "").isalnum() and " " not in named
    return make_trigger(named) if is_tool else named


def _check_sizes(learning: Learning) -> None:
    if not learning.fix:
        raise BadRequest("missing fix parameter", fix="Say what helps.")
    if len(learning.trigger) > PATTERN_LENGTH or len(learning.pattern) > PATTERN_LENGTH:
        raise BadRequest("the trigger or the error pattern is too long", fix=f"At most {PATTERN_LENGTH} characters.")
    if len(learning.fix) > TEXT_LENGTH or len(learning.diagnosis) > TEXT_LENGTH:
        raise BadRequest("the fix or the diagnosis is too long", fix=f"At most {TEXT_LENGTH} characters.")


async def _count(call: KnowledgeCall, arguments: Arguments) -> ToolResult:
    stats = await call.learnings.count(call.owner)
    # A model reads dates, not seconds.
    period = {name: format_time(at) if at else "" for name, at in (("oldest", stats.oldest), ("newest", stats.newest))}
    return answer(dump_stats(stats) | period)


async def _clean(call: KnowledgeCall, arguments: Arguments) -> ToolResult:
    category = get_text(arguments, "category")
    days, sure = arguments.get("older_than_days"), arguments.get("max_confidence")
    if (days is not None and days < 0) or (sure is not None and not 0 <= sure <= 1):
        raise BadRequest("older_than_days or max_confidence is out of range", fix="Give days from 0, and 0 to 1.")
    wanted = LearningFilter(
        id=get_text(arguments, "id"),
        category=parse_category(category) if category else None,
        max_confidence=None if sure is None else float(sure),
        before=None if days is None else call.now - days * _DAY,
    )
    dry_run = arguments.get("dry_run") is not False
    if wanted.is_empty and not dry_run:
        raise BadRequest(
            "nothing says which learnings to delete", fix="Give id, category, max_confidence or older_than_days."
        )
    found = await call.learnings.clean(call.owner, wanted, dry_run=dry_run)
    return answer({"would_delete" if dry_run else "deleted": len(found), "dry_run": dry_run})


PLANS = (
    KnowledgePlan(
        make_spec(
            "search_learnings",
            "Search what was learned from failures of tools: error patterns, causes and fixes.",
            {"query": "An error message, or the name of a tool."},
            {"category": one_of(LearningCategory, "Only learnings of this category.")},
        ),
        lambda arguments: f"search learnings for {arguments.get('query', '')}",
        _search,
    ),
    KnowledgePlan(
        make_spec(
            "save_learning",
            "Save the cause and the fix of an error. When the tool fails like this again, the fix is shown.",
            {"trigger": "The tool that failed, or the action.", "fix": "What helps."},
            {
                "error_pattern": "The part of the error message to recognise it by.",
                "diagnosis": "Why it fails.",
                "category": one_of(LearningCategory, "Default: general."),
            },
            changes=True,
        ),
        lambda arguments: f"save a fix for {arguments.get('trigger', '')}: {arguments.get('fix', '')}",
        _save,
    ),
    KnowledgePlan(
        make_spec(
            "learning_stats",
            "Show how many learnings there are, by category, how sure they are, and which tools fail most.",
            {},
        ),
        lambda _: "statistics of learnings",
        _count,
    ),
    KnowledgePlan(
        make_spec(
            "learning_cleanup",
            "Delete learnings that meet all given conditions. By default they are only counted.",
            {},
            {
                "category": one_of(LearningCategory, "Only this category."),
                "max_confidence": {"type": "number", "description": "Only with at most this confidence, 0 to 1."},
                "older_than_days": {"type": "integer", "description": "Only if not updated for this many days."},
                "id": "Only this learning.",
                "dry_run": {"type": "boolean", "description": "Only count them; default true."},
            },
            changes=True,
        ),
        lambda arguments: "count learnings to delete" if arguments.get("dry_run") != "False" else "delete learnings",
        _clean,
    ),
)
