"""The keys of config.toml about what agents do with their hands: one table a section."""

from moot.daemon.config.keys import Key, Numbers, above_zero, at_least, between, one_of, ports, reference
from moot.domain.config import MODES, POLICIES, SEARCH_PROVIDERS
from moot.tools.web.addresses import find_invalid_entry

INTERCEPTOR_KEYS = (
    Key("enabled", bool, "Ask you before a tool does something that could do harm.", "true"),
    Key(
        "policy",
        str,
        "Which tools ask: `dangerous` ones, `all`, only those `configured` as sensitive, or `none`.",
        "dangerous",
        one_of(*POLICIES),
    ),
    Key("exempt_tools", tuple, "Tools that do not ask, as names or patterns such as `fs_*`.", "[]"),
    Key("blocked_tools", tuple, "Tools that are never run, whoever asks.", "[]"),
    Key("sensitive_tools", tuple, "Tools that always ask.", "[]"),
    Key("approval_seconds", float, "How long an approval stays open.", "86400", above_zero),
    Key("unattended", bool, "Nobody is there to ask: refuse what would be asked; the run ends as `denied`.", "false"),
    Key("redact_personal", bool, "Tell models placeholders instead of personal data.", "false"),
)

SANDBOX_KEYS = (
    Key(
        "mode",
        str,
        "`auto` uses what the system has and refuses without; `none` runs commands bare.",
        "auto",
        one_of(*MODES),
    ),
    Key("network", bool, "Let commands reach the network.", "false"),
    Key("readable", tuple, "Folders commands may read besides the system's and the working directory.", "[]"),
    Key("timeout_seconds", float, "How long a command may take when it does not say.", "30", above_zero),
    Key("longest_seconds", float, "How long a command may ask to take.", "600", above_zero),
    Key("background_seconds", float, "How long a command in the background may run.", "3600", above_zero),
    Key("background_jobs", int, "Commands in the background of one conversation.", "8", between(0, 64)),
    Key("output_bytes", int, "What is kept of a command's output.", "1048576", at_least(1024)),
    Key("flood_bytes", int, "Output that ends a command which will not stop writing.", "67108864", at_least(1024)),
    Key("processes", int, "Processes of one command.", "256", between(1, 65536)),
    Key("memory_bytes", int, "Memory of one process.", "4294967296", at_least(16_777_216)),
    Key("temporary_bytes", int, "Room in a command's own /tmp.", "536870912", at_least(1_048_576)),
)

FILES_KEYS = (
    Key("read_bytes", int, "The largest file that is read whole.", "10485760", at_least(1)),
    Key("window_bytes", int, "The largest file that lines are read from.", "67108864", at_least(1)),
    Key("write_bytes", int, "The largest file that is written.", "10485760", at_least(1)),
    Key("entries", int, "Entries of one listing.", "2000", between(1, 100_000)),
)

SKILLS_KEYS = (
    Key("allow_import", bool, "Let agents import skills from files they can read.", "true"),
    Key("archive_bytes", int, "The largest archive that is imported.", "16777216", at_least(1)),
    Key("unpacked_bytes", int, "What an archive may unpack to.", "33554432", at_least(1)),
    Key("files", int, "Files of one skill.", "1000", between(1, 100_000)),
    Key("ratio", int, "How much larger an archive may get when it is unpacked.", "100", between(1, 10_000)),
)

WEB_KEYS = (
    Key("provider", str, "Who answers web_search; empty is nobody.", "", one_of("", *SEARCH_PROVIDERS)),
    Key("base_url", str, "The search provider's address where it is not its own.", ""),
    Key("api_key", str, 'Where its key is: "env:VARIABLE" or "keyring:NAME".', "", reference),
    Key("ports", Numbers, "Ports that may be reached on the public internet.", "[80, 443, 8080, 8443]", ports),
    Key(
        "allow_private",
        tuple,
        'Private addresses that may be reached, with port: "127.0.0.1:8080".',
        "[]",
        find_invalid_entry,
    ),
    Key("max_bytes", int, "The largest answer that is read.", "5242880", at_least(1024)),
    Key("seconds", float, "How long one request may take.", "30", above_zero),
)

VAULT_KEYS = (
    Key("key", str, "Where the key to the secrets is kept.", "auto", one_of("auto", "keyring", "file")),
    Key("decrypted_seconds", float, "How long a decrypted value can be used.", "300", above_zero),
)

MEMORY_KEYS = (
    Key("max_entries", int, "Memories of one agent with one sender.", "1000", between(1, 1_000_000)),
    Key("observe_every", int, "New messages after which a conversation is noted; 0 is never.", "0", at_least(0)),
    Key("reflect_every", int, "Observations after which they are condensed.", "5", between(1, 1000)),
)

OUTPUTS_KEYS = (
    Key("budget_characters", int, "A longer tool result is kept aside and shown in part.", "16000", at_least(500)),
    Key("keep_seconds", float, "How long it is kept.", "86400", above_zero),
    Key("max_kept", int, "Kept results of one conversation.", "200", between(1, 100_000)),
    Key("max_characters", int, "The longest result that is kept.", "16000000", at_least(1000)),
)

KNOWLEDGE_KEYS = (
    Key("enabled", bool, "Learn from tool calls: what failed, what helped, what was read.", "false"),
    Key("reading_tools", tuple, "Tools whose results are kept as knowledge.", "the tools that read"),
    Key("max_characters", int, "What is kept of one result.", "4096", between(1, 1_000_000)),
    Key("versions", int, "Versions kept of one tool's results.", "20", between(1, 1000)),
)

SECTIONS = {
    "sandbox": SANDBOX_KEYS,
    "files": FILES_KEYS,
    "skills": SKILLS_KEYS,
    "web": WEB_KEYS,
    "vault": VAULT_KEYS,
    "memory": MEMORY_KEYS,
    "outputs": OUTPUTS_KEYS,
    "knowledge": KNOWLEDGE_KEYS,
}
