"""Configuration of knowledge: learning from calls, the graph, and the librarian. Pure."""

from msgspec import Struct

# Tools that read or look something up. Tools for secrets, memory or stored outputs are excluded.
READING = (
    "fs_read", "fs_list", "fs_stat", "fs_search", "fs_glob", "web_fetch", "web_search", "browser_extract",
    "browser_observe", "search_*", "list_skills", "view_skill", "mcp__*__get_*", "mcp__*__list_*", "mcp__*__read_*",
    "mcp__*__search_*", "mcp__*__query_*", "mcp__*__fetch_*",
)  # fmt: skip

# Tools that read what Moot stores itself. A copy of their results would survive when the original is forgotten.
READING_STORES = (
    "search_knowledge", "search_learnings", "get_knowledge_history", "learning_*", "librarian_*", "graph_*",
    "ontology_*", "memory_*", "rag_*", "recall", "tool_output_get",
)  # fmt: skip


class KnowledgeConfig(Struct, frozen=True, kw_only=True):
    """[knowledge]: whether tool calls are learned from, and what is stored of their results."""

    enabled: bool = False
    reading_tools: tuple[str, ...] = READING
    max_characters: int = 4_096
    # The stored versions of one tool's results; older ones are deleted.
    versions: int = 20


class GraphConfig(Struct, frozen=True, kw_only=True):
    """[graph]: whether there is a knowledge graph for agents."""

    enabled: bool = True


class LibrarianConfig(Struct, frozen=True, kw_only=True):
    """[librarian]: whether conversations are analysed for knowledge and for what is not known, and how often."""

    enabled: bool = False
    # An analysis is made after this many messages of the person.
    observation_threshold: int = 2
    # At least this many messages of the person are between two inquiries.
    inquiry_cooldown_turns: int = 3
    # Of one conversation.
    max_pending_inquiries: int = 2
    # What is found with at least this confidence is saved.
    auto_save_confidence: str = "high"
    # The model of the analysis; empty for that of the agent.
    model: str = ""
