-- What agents do with their hands: asks and rules, taint, stored outputs, secrets, memory, tasks, learning, MCP.

ALTER TABLE messages ADD COLUMN taint TEXT NOT NULL DEFAULT '';
ALTER TABLE archives ADD COLUMN taint TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN trusted_seq INTEGER NOT NULL DEFAULT 0;

-- Approvals wait here; questions do not outlive their run and are kept in memory.
CREATE TABLE asks (
    id           TEXT    NOT NULL PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    run          TEXT    NOT NULL,
    call         TEXT    NOT NULL,
    speaker      TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    arguments    TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    subject      TEXT    NOT NULL,
    line         TEXT    NOT NULL,
    preview      TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('pending', 'granted', 'used', 'denied', 'expired', 'cancelled')),
    opened_at    REAL    NOT NULL,
    expires_at   REAL    NOT NULL,
    decided_at   REAL    NOT NULL DEFAULT 0,
    decided_by   TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX asks_pending ON asks (state) WHERE state = 'pending';
CREATE INDEX asks_of_run ON asks (run);

CREATE TABLE rules (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    agent        TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    pattern      TEXT    NOT NULL,
    run          TEXT    NOT NULL,
    created_at   REAL    NOT NULL,
    created_by   TEXT    NOT NULL
) STRICT;

CREATE TABLE outputs (
    ref          TEXT    NOT NULL PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    tool         TEXT    NOT NULL,
    content      TEXT    NOT NULL,
    taint        TEXT    NOT NULL,
    created_at   REAL    NOT NULL
) STRICT;
CREATE INDEX outputs_of_conversation ON outputs (conversation, created_at);
CREATE INDEX outputs_by_age ON outputs (created_at);

CREATE TABLE secrets (
    name         TEXT    NOT NULL PRIMARY KEY,
    sealed       BLOB    NOT NULL,
    created_at   REAL    NOT NULL,
    updated_at   REAL    NOT NULL,
    uses         INTEGER NOT NULL DEFAULT 0,
    used_at      REAL    NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE secret_uses (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    run          TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    at           REAL    NOT NULL
) STRICT;
CREATE TABLE keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    name         TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    sealed       BLOB    NOT NULL,
    created_at   REAL    NOT NULL,
    used_at      REAL    NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE memories (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    agent        TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    content      TEXT    NOT NULL,
    tags         TEXT    NOT NULL,
    confidence   REAL    NOT NULL,
    taint        TEXT    NOT NULL,
    uses         INTEGER NOT NULL DEFAULT 0,
    created_at   REAL    NOT NULL,
    updated_at   REAL    NOT NULL,
    used_at      REAL    NOT NULL DEFAULT 0,
    UNIQUE (agent, sender, key)
) STRICT;
-- `owner` is one made-up word for agent and sender: a search is over one owner's rows from the start.
CREATE VIRTUAL TABLE memory_index USING fts5 (
    owner, key, content, tags, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
-- Observations are notes a conversation makes as it grows; reflections condense them.
CREATE TABLE notes (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    kind         TEXT    NOT NULL CHECK (kind IN ('observation', 'reflection')),
    content      TEXT    NOT NULL,
    first_seq    INTEGER NOT NULL,
    last_seq     INTEGER NOT NULL,
    taint        TEXT    NOT NULL,
    created_at   REAL    NOT NULL
) STRICT;
CREATE INDEX notes_of_conversation ON notes (conversation, kind, number);

CREATE TABLE tasks (
    id           TEXT    NOT NULL PRIMARY KEY,
    agent        TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    parent_id    TEXT    NOT NULL,
    agent_id     TEXT    NOT NULL,
    taint        TEXT    NOT NULL,
    created_at   REAL    NOT NULL,
    updated_at   REAL    NOT NULL
) STRICT;
CREATE INDEX tasks_of_owner ON tasks (agent, sender, created_at);

-- Written by the hooks after each call, read by the librarian's tools.
CREATE TABLE tool_audit (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    agent        TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    run          TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    ok           INTEGER NOT NULL,
    seconds      REAL    NOT NULL,
    at           REAL    NOT NULL
) STRICT;
CREATE TABLE learnings (
    id           TEXT    NOT NULL PRIMARY KEY,
    trigger      TEXT    NOT NULL,
    error_pattern TEXT   NOT NULL,
    diagnosis    TEXT    NOT NULL,
    fix          TEXT    NOT NULL,
    category     TEXT    NOT NULL,
    confidence   REAL    NOT NULL,
    occurrences  INTEGER NOT NULL,
    taint        TEXT    NOT NULL,
    created_at   REAL    NOT NULL,
    updated_at   REAL    NOT NULL,
    UNIQUE (trigger, error_pattern)
) STRICT;
CREATE TABLE knowledge (
    key          TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    category     TEXT    NOT NULL,
    content      TEXT    NOT NULL,
    tags         TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    taint        TEXT    NOT NULL,
    created_at   REAL    NOT NULL,
    PRIMARY KEY (key, version)
) STRICT;

CREATE TABLE mcp_pins (
    server       TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    pinned_at    REAL    NOT NULL,
    PRIMARY KEY (server, tool)
) STRICT;
