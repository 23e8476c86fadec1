"""What a person can configure of what is learnt from tool calls, as values."""

from dataclasses import dataclass

# Tools that read or look something up. What comes from secrets, from memory itself or from a shelf is never among them.
READING = (
    "fs_read", "fs_list", "fs_stat", "web_fetch", "web_search", "browser_extract", "browser_observe", "graph_*",
    "search_*", "list_skills", "view_skill", "ontology_get_*", "ontology_query_*", "ontology_facts_at",
    "mcp__*__get_*", "mcp__*__list_*", "mcp__*__read_*", "mcp__*__search_*", "mcp__*__query_*", "mcp__*__fetch_*",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeConfig:
    """[knowledge]: whether tool calls teach anything, and what is kept of their results."""

    enabled: bool = False
    reading_tools: tuple[str, ...] = READING
    max_characters: int = 4_096
    # Of one tool's results; older ones are let go.
    versions: int = 20
