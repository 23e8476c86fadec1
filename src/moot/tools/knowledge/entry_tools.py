"""The tools on knowledge: search_knowledge, save_knowledge, get_knowledge_history. Built by knowledge_tools.py."""

from typing import Any

from moot.domain.errors import NotFound
from moot.domain.knowledge import (
    Knowledge,
    KnowledgeCategory,
    SourceClass,
    add_temporal_tag,
    check_entry,
    normalize_key,
    parse_category,
    parse_source_class,
)
from moot.domain.near_names import suggest_name
from moot.domain.output import shorten
from moot.domain.ports.tool import ToolResult
from moot.domain.text import clean
from moot.tools.knowledge.knowledge_tool import (
    FOUND,
    KnowledgeCall,
    KnowledgePlan,
    format_time,
    get_tags,
    get_text,
    make_spec,
    one_of,
)
from moot.tools.store_tool import Arguments, answer, join_taint

# Characters of each entry that a search shows.
_SHOWN = 1_500
# Keys that are compared with one that is not known.
_COMPARED = 1_000


async def _search(call: KnowledgeCall, arguments: Arguments) -> ToolResult:
    category = get_text(arguments, "category")
    found = await call.knowledge.search(
        call.reader,
        get_text(arguments, "query"),
        category=parse_category(category) if category else None,
        limit=FOUND,
    )
    data = {"results": [_dump_found(item) for item in found], "count": len(found)}
    return answer(data, join_taint(item.taint for item in found))


async def _save(call: KnowledgeCall, arguments: Arguments) -> ToolResult:
    category = parse_category(get_text(arguments, "category"))
    item = Knowledge(
        owner=call.owner,
        key=normalize_key(str(arguments["key"])),
        category=category,
        content=clean(str(arguments["content"])),
        tags=add_temporal_tag(get_tags(arguments), category),
        source=get_text(arguments, "source"),
        source_class=parse_source_class(get_text(arguments, "source_class")),
        asset_label=get_text(arguments, "asset_label"),
        taint=call.context.taint,
        created_at=call.now,
    )
    saved = await call.knowledge.save(check_entry(item))
    message = f"Version {saved.version} is saved." if saved.is_new else f"Version {saved.version} says this already."
    return answer({"status": "saved", "key": item.key, "version": saved.version, "message": message})


async def _list_versions(call: KnowledgeCall, arguments: Arguments) -> ToolResult:
    key = normalize_key(str(arguments["key"]))
    found = await call.knowledge.list_versions(call.reader, key)
    if not found:
        known = await call.knowledge.list_newest(call.reader, limit=_COMPARED)
        near = suggest_name(key, [item.key for item in known])
        raise NotFound(f"there is no knowledge with the key {key!r}", fix=f"{near}Search with search_knowledge.")
    versions = [
        {
            "version": item.version,
            "category": item.category,
            "content": item.content,
            "source": item.source,
            "tags": item.tags,
            "created_at": format_time(item.created_at),
        }
        for item in found
    ]
    return answer({"key": key, "versions": versions}, join_taint(item.taint for item in found))


def _dump_found(item: Knowledge) -> dict[str, Any]:
    content, is_cut = shorten(item.content, _SHOWN)
    data = {
        "key": item.key,
        "category": item.category,
        "content": content,
        "tags": item.tags,
        "source": item.source,
        "source_class": item.source_class,
        "version": item.version,
        "created_at": format_time(item.created_at),
    }
    if item.asset_label:
        data["asset_label"] = item.asset_label
    return data | ({"truncated": True} if is_cut else {})


PLANS = (
    KnowledgePlan(
        make_spec(
            "search_knowledge",
            "Search stored knowledge: what was saved with save_knowledge, and earlier results of your own tools.",
            {"query": "Words that it probably contains."},
            {"category": one_of(KnowledgeCategory, "Only entries of this category.")},
        ),
        lambda arguments: f"search knowledge for {arguments.get('query', '')}",
        _search,
    ),
    KnowledgePlan(
        make_spec(
            "save_knowledge",
            "Save knowledge under a key. Other content under a key that exists is a new version; the earlier ones are "
            "kept.",
            {
                "key": "A short name, unique for this entry.",
                "category": one_of(KnowledgeCategory, "What kind of knowledge it is."),
                "content": "What is to be known, in full sentences.",
            },
            {
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Tags to find it by. evergreen or current_state is added.",
                },
                "source": "Where it comes from: a page, a file, a person.",
                "source_class": one_of(SourceClass, "Who may get it; default private-confidential."),
                "asset_label": "A label for decisions about giving it to others.",
            },
            changes=True,
        ),
        lambda arguments: f"save {arguments.get('key', '')}: {arguments.get('content', '')}",
        _save,
    ),
    KnowledgePlan(
        make_spec(
            "get_knowledge_history",
            "List all versions of a knowledge entry, newest first.",
            {"key": "The key of the entry."},
        ),
        lambda arguments: f"versions of {arguments.get('key', '')}",
        _list_versions,
    ),
)
