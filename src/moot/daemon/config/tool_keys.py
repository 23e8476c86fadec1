"""Reads the tables of config.toml about tools and the sandbox."""

from collections.abc import Mapping

from moot.daemon.config.keys import (
    Key,
    Numbers,
    check_above_zero,
    check_at_least,
    check_between,
    check_one_of,
    check_ports,
    check_reference,
)
from moot.domain.config import MODES, POLICIES, SEARCH_PROVIDERS, ModelConfig
from moot.domain.mode import Mode
from moot.domain.rag_config import LOCAL_EMBEDDINGS, NO_EMBEDDINGS, PROVIDER_EMBEDDINGS, RagConfig, split_embeddings
from moot.tools.web.addresses import find_invalid_entry


def _check_embeddings(value: str) -> str:
    if value in (LOCAL_EMBEDDINGS, NO_EMBEDDINGS) or value.startswith(PROVIDER_EMBEDDINGS):
        return ""
    return f"must be `{LOCAL_EMBEDDINGS}`, `{NO_EMBEDDINGS}` or `{PROVIDER_EMBEDDINGS}NAME/MODEL`"


def find_embedding_problem(config: RagConfig, models: Mapping[str, ModelConfig]) -> str:
    """Say why the provider that `embeddings` names makes no vectors; "" if it may."""
    if not config.has_provider:
        return ""
    chosen = split_embeddings(config.embeddings, models)
    able = ", ".join(sorted(name for name, model in models.items() if model.provider == "openai")) or "none"
    if chosen is None:
        return f"`embeddings` must be {PROVIDER_EMBEDDINGS}NAME/MODEL with the NAME of a model; there are {able}"
    if models[chosen[0]].provider != "openai":
        return f"`embeddings` names [models.{chosen[0]}], which makes no vectors; those with provider openai are {able}"
    return ""


INTERCEPTOR_KEYS = (
    Key("enabled", bool, "Ask before a tool does something potentially harmful.", "true"),
    Key(
        "policy",
        str,
        "Which tools ask: `dangerous` ones, `all`, only those `configured` as sensitive, or `none`.",
        "dangerous",
        check_one_of(*POLICIES),
    ),
    Key(
        "mode",
        str,
        "The mode of conversations without their own: `plan`, `ask`, `work` or `free`. If it is not set, `work` where"
        " there is a sandbox, else `ask`.",
        "",
        check_one_of("", *Mode),
    ),
    Key("exempt_tools", tuple, "Tools that do not ask, as names or patterns such as `fs_*`.", "[]"),
    Key("blocked_tools", tuple, "Tools that are never offered or executed.", "[]"),
    Key("sensitive_tools", tuple, "Tools that always ask.", "[]"),
    Key("approval_seconds", float, "How long an approval stays open.", "86400", check_above_zero),
    Key("unattended", bool, "Unattended: deny what would need approval; the run ends as `denied`.", "false"),
    Key("redact_personal", bool, "Send models placeholders instead of personal data.", "false"),
)

SANDBOX_KEYS = (
    Key(
        "mode",
        str,
        "`auto` requires a sandbox; `none` runs commands without one.",
        "auto",
        check_one_of(*MODES),
    ),
    Key("network", bool, "Allow commands network access.", "false"),
    Key("readable", tuple, "Additional folders commands may read.", "[]"),
    Key("toolchain", bool, "Let commands use the programs on the PATH from which `moot` was called.", "true"),
    Key("search_path", tuple, "Additional folders with programs for commands.", "[]"),
    Key("timeout_seconds", float, "Default timeout of a command.", "30", check_above_zero),
    Key("longest_seconds", float, "Maximum timeout a command may request.", "600", check_above_zero),
    Key("background_seconds", float, "Timeout of a background command.", "3600", check_above_zero),
    Key("background_jobs", int, "Maximum background commands of one conversation.", "8", check_between(0, 64)),
    Key("output_bytes", int, "Output of a command that is kept.", "1048576", check_at_least(1024)),
    Key("flood_bytes", int, "Output at which a command is ended.", "67108864", check_at_least(1024)),
    Key("processes", int, "Maximum processes of one command.", "256", check_between(1, 65536)),
    Key(
        "memory_bytes",
        int,
        "Maximum memory of one command with everything it started, /tmp, /var/tmp and /dev/shm included.",
        "4294967296",
        check_at_least(33_554_432),
    ),
    Key(
        "temporary_bytes",
        int,
        "Size of a command's /tmp, /var/tmp and /dev/shm, each.",
        "536870912",
        check_at_least(1_048_576),
    ),
    Key("file_bytes", int, "Largest file that a command can write.", "4294967296", check_at_least(1_048_576)),
)

FILES_KEYS = (
    Key("read_bytes", int, "The largest file that is read whole.", "10485760", check_at_least(1)),
    Key("window_bytes", int, "The largest file that lines are read from.", "67108864", check_at_least(1)),
    Key("write_bytes", int, "The largest file that is written.", "10485760", check_at_least(1)),
    Key("entries", int, "Entries of one listing.", "2000", check_between(1, 100_000)),
    Key("undo_bytes", int, "Earlier contents kept for `moot undo`; 0 keeps none.", "268435456", check_at_least(0)),
    Key("undo_seconds", float, "How long they are kept.", "2592000", check_at_least(0)),
)

TOOL_SEARCH_KEYS = (
    Key(
        "max_offered",
        int,
        "The most tools a model is offered at once; it finds the others with tool_search. 0 is no limit.",
        "100",
        check_at_least(0),
    ),
)

PROJECT_KEYS = (
    Key("instructions", bool, "Give agents the AGENTS.md and CLAUDE.md of the project.", "true"),
    Key("max_bytes", int, "How many bytes of these files one run gets.", "32768", check_between(1, 1_048_576)),
)

SKILLS_KEYS = (
    Key("allow_import", bool, "Let agents import skills from files they can read.", "true"),
    Key("archive_bytes", int, "The largest archive that is imported.", "16777216", check_at_least(1)),
    Key("unpacked_bytes", int, "What an archive may unpack to.", "33554432", check_at_least(1)),
    Key("files", int, "Files of one skill.", "1000", check_between(1, 100_000)),
    Key("ratio", int, "How much larger an archive may get when it is unpacked.", "100", check_between(1, 10_000)),
)

WEB_KEYS = (
    Key("provider", str, "Provider of web_search; empty disables it.", "", check_one_of("", *SEARCH_PROVIDERS)),
    Key("base_url", str, "The search provider's address where it is not its own.", ""),
    Key("api_key", str, 'Where its key is: "secret:NAME", "env:VARIABLE" or "keyring:NAME".', "", check_reference),
    Key("ports", Numbers, "Ports that may be reached on the public internet.", "[80, 443, 8080, 8443]", check_ports),
    Key(
        "allow_private",
        tuple,
        'Private addresses that may be reached, with port: "127.0.0.1:8080".',
        "[]",
        find_invalid_entry,
    ),
    Key("max_bytes", int, "The largest answer that is read.", "5242880", check_at_least(1024)),
    Key("seconds", float, "How long one request may take.", "30", check_above_zero),
)

VAULT_KEYS = (
    Key(
        "key",
        str,
        "Where the master key is kept: `keyring`, `file`, or `auto` (the keyring if there is one).",
        "auto",
        check_one_of("auto", "keyring", "file"),
    ),
    Key("decrypted_seconds", float, "How long a decrypted value can be used.", "300", check_above_zero),
)

MEMORY_KEYS = (
    Key("max_entries", int, "Memories of one agent with one sender.", "1000", check_between(1, 1_000_000)),
    Key("observe_every", int, "New messages after which an observation is made; 0 is never.", "0", check_at_least(0)),
    Key("reflect_every", int, "Observations after which they are condensed.", "5", check_between(1, 1000)),
)

OUTPUTS_KEYS = (
    Key("budget_characters", int, "Longer tool results are stored and shown in part.", "16000", check_at_least(500)),
    Key("keep_seconds", float, "How long a stored result is kept.", "86400", check_above_zero),
    Key("max_kept", int, "Kept results of one conversation.", "200", check_between(1, 100_000)),
    Key("max_characters", int, "The longest result that is kept.", "16000000", check_at_least(1000)),
)

KNOWLEDGE_KEYS = (
    Key("enabled", bool, "Learn from tool calls: what failed, what helped, what was read.", "false"),
    Key("reading_tools", tuple, "Tools whose results are kept as knowledge.", "the tools that read"),
    Key("max_characters", int, "What is kept of one result.", "4096", check_between(1, 1_000_000)),
    Key("versions", int, "Versions kept of one tool's results.", "20", check_between(1, 1000)),
)

GRAPH_KEYS = (Key("enabled", bool, "Offer the tools of the knowledge graph: `graph_*` and `ontology_*`.", "true"),)

RAG_KEYS = (
    Key("enabled", bool, "Offer the tools of the index of documents: `rag_*`.", "true"),
    Key(
        "embeddings",
        str,
        "What vectors are made with: `local` (the words of a text), `none`, or `provider:NAME/MODEL`: the model MODEL"
        " at the address and with the key of [models.NAME].",
        "local",
        _check_embeddings,
    ),
    Key("max_files", int, "Files of one folder that is indexed.", "10000", check_between(1, 1_000_000)),
    Key("max_file_bytes", int, "The largest file that is indexed.", "20971520", check_at_least(1024)),
    Key("max_unpacked_bytes", int, "What one ZIP or tar archive may unpack to.", "104857600", check_at_least(1024)),
    Key("max_characters", int, "The most text of one document.", "4000000", check_at_least(1000)),
    Key("max_passages", int, "Passages that one agent indexes for one sender.", "200000", check_at_least(1)),
    Key("read_seconds", float, "How long one file may take to be read.", "30", check_above_zero),
    Key("check_seconds", float, "How often a search looks whether files have changed.", "5", check_at_least(0)),
    Key("refresh_seconds", float, "How long a search waits for changed files.", "10", check_above_zero),
)

SECTIONS = {
    "sandbox": SANDBOX_KEYS,
    "files": FILES_KEYS,
    "tool_search": TOOL_SEARCH_KEYS,
    "project": PROJECT_KEYS,
    "skills": SKILLS_KEYS,
    "web": WEB_KEYS,
    "vault": VAULT_KEYS,
    "memory": MEMORY_KEYS,
    "outputs": OUTPUTS_KEYS,
    "knowledge": KNOWLEDGE_KEYS,
    "graph": GRAPH_KEYS,
    "rag": RAG_KEYS,
}
