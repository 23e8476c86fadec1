-- A store as schema 9 left it: frozen, never edited.

CREATE TABLE conversations (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    agent        TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    title        TEXT    NOT NULL DEFAULT '',
    cwd          TEXT    NOT NULL DEFAULT '',
    created_at   REAL    NOT NULL,
    updated_at   REAL    NOT NULL,
    last_seq     INTEGER NOT NULL DEFAULT 0,
    archived_seq INTEGER NOT NULL DEFAULT 0,
    archives     INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, sender)
) STRICT;

-- A message's id is its conversation's id and its seq in one number. Rows then lie in reading order,
-- a stretch of history is one range of ids, and the full-text index can be asked for one conversation.
CREATE TABLE messages (
    id           INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL GENERATED ALWAYS AS (id >> 32) VIRTUAL,
    seq          INTEGER NOT NULL GENERATED ALWAYS AS (id & 0xffffffff) VIRTUAL,
    role         TEXT    NOT NULL,
    content      TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    tool_calls   BLOB,
    tool_call_id TEXT    NOT NULL,
    is_error     INTEGER NOT NULL,
    thinking     BLOB,
    run_id       TEXT    NOT NULL,
    created_at   REAL    NOT NULL
) STRICT;

-- `number` is the order in which runs arrived; clocks jump, so no time can be.
CREATE TABLE runs (
    number            INTEGER PRIMARY KEY AUTOINCREMENT,
    id                TEXT    NOT NULL UNIQUE,
    conversation      INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    speaker           TEXT    NOT NULL,
    status            TEXT    NOT NULL CHECK (status IN ('queued', 'running', 'ended')),
    content           TEXT,
    cwd               TEXT    NOT NULL,
    max_steps         INTEGER,
    max_seconds       REAL,
    max_tokens        INTEGER,
    max_spend         REAL,
    client_message_id TEXT    NOT NULL,
    created_at        REAL    NOT NULL,
    started_at        REAL    NOT NULL DEFAULT 0,
    ended_at          REAL    NOT NULL DEFAULT 0,
    user_seq          INTEGER NOT NULL DEFAULT 0,
    reply_seq         INTEGER NOT NULL DEFAULT 0,
    reply             TEXT    NOT NULL DEFAULT '',
    outcome           TEXT    NOT NULL DEFAULT '',
    error             TEXT    NOT NULL DEFAULT '',
    hit_limit         TEXT    NOT NULL DEFAULT '',
    provider          TEXT    NOT NULL DEFAULT '',
    model             TEXT    NOT NULL DEFAULT '',
    prompt            INTEGER NOT NULL DEFAULT 0,
    completion        INTEGER NOT NULL DEFAULT 0,
    cache_hit         INTEGER NOT NULL DEFAULT 0,
    cache_miss        INTEGER NOT NULL DEFAULT 0,
    reasoning         INTEGER NOT NULL DEFAULT 0,
    cost              REAL    NOT NULL DEFAULT 0,
    steps             INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX runs_of_conversation ON runs (conversation, user_seq);
CREATE UNIQUE INDEX runs_by_client_message ON runs (conversation, client_message_id) WHERE client_message_id <> '';
CREATE INDEX runs_not_ended ON runs (status) WHERE status <> 'ended';

CREATE TABLE archives (
    conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    first_seq    INTEGER NOT NULL,
    last_seq     INTEGER NOT NULL,
    title        TEXT    NOT NULL,
    summary      TEXT    NOT NULL,
    archived_at  REAL    NOT NULL,
    model        TEXT    NOT NULL,
    prompt       INTEGER NOT NULL,
    completion   INTEGER NOT NULL,
    cache_hit    INTEGER NOT NULL,
    cache_miss   INTEGER NOT NULL,
    reasoning    INTEGER NOT NULL,
    cost         REAL    NOT NULL,
    PRIMARY KEY (conversation, number)
) STRICT;

-- Only a digest is kept; the token itself is shown once and never stored.
CREATE TABLE tokens (
    name         TEXT NOT NULL PRIMARY KEY,
    digest       TEXT NOT NULL UNIQUE,
    senders      BLOB NOT NULL,
    created_at   REAL NOT NULL,
    last_used_at REAL NOT NULL,
    revoked_at   REAL NOT NULL
) STRICT;

-- One row, written after a disk fault: it overwrites what the failed commit may have left in the log.
CREATE TABLE faults (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    count INTEGER NOT NULL
) STRICT;
INSERT INTO faults VALUES (1, 0);

INSERT INTO conversations VALUES (7, 'ada', 'user', 'Boats', '/tmp/boats', 1.0, 9.0, 4, 2, 1);
INSERT INTO conversations VALUES (8, 'ada', 'tg:1', '', '', 2.0, 2.0, 1, 0, 0);
INSERT INTO messages (id, role, content, agent, tool_calls, tool_call_id, is_error, thinking, run_id, created_at) VALUES
    ((7 << 32) + 1, 'user', 'which boats float best?', '', NULL, '', 0, NULL, 'r1', 1.0),
    ((7 << 32) + 2, 'assistant', 'the wooden ones', 'guest', NULL, '', 0, NULL, 'r1', 2.0),
    ((7 << 32) + 3, 'user', 'and sink?', '', NULL, '', 0, NULL, 'r2', 3.0),
    ((7 << 32) + 4, 'assistant', '', '', CAST('[{"id":"c1","name":"look","arguments":"{}"}]' AS BLOB), '', 0, NULL, 'r2', 4.0),
    ((8 << 32) + 1, 'user', 'boats of another', '', NULL, '', 0, NULL, 'r3', 2.0);
INSERT INTO archives VALUES (7, 1, 1, 2, 'Boats.', 'Boats. Wooden boats float.', 5.0, 'big', 10, 5, 0, 0, 0, 0.5);
INSERT INTO runs (id, conversation, speaker, status, cwd, client_message_id, created_at, started_at, ended_at, user_seq, reply_seq, outcome)
    VALUES ('r1', 7, 'guest', 'ended', '', 'm1', 1.0, 1.0, 2.0, 1, 2, 'completed');
INSERT INTO runs (id, conversation, speaker, status, cwd, client_message_id, created_at, started_at, user_seq)
    VALUES ('r2', 7, 'ada', 'running', '', '', 3.0, 3.0, 3);
INSERT INTO runs (id, conversation, speaker, status, cwd, client_message_id, created_at, content)
    VALUES ('r4', 7, 'ada', 'queued', '', '', 4.0, 'waiting');
INSERT INTO runs (id, conversation, speaker, status, cwd, client_message_id, created_at, started_at, ended_at, user_seq, outcome)
    VALUES ('r3', 8, 'ada', 'ended', '', '', 2.0, 2.0, 2.0, 1, 'empty');
INSERT INTO tokens VALUES ('phone', 'd1', CAST('["phone"]' AS BLOB), 1.0, 0.0, 0.0);
PRAGMA application_id = 1836019572;

-- Full-text search over what was archived. The text itself stays in messages and archives.

CREATE VIRTUAL TABLE message_index USING fts5 (
    content, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE summary_index USING fts5 (
    title, summary, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);

INSERT INTO message_index (rowid, content)
SELECT messages.id, messages.content
FROM conversations JOIN messages
    ON messages.id BETWEEN (conversations.id << 32) + 1 AND (conversations.id << 32) + conversations.archived_seq
ORDER BY messages.id;

INSERT INTO summary_index (rowid, title, summary)
SELECT (conversation << 32) + number, title, summary FROM archives ORDER BY conversation, number;

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

INSERT INTO asks (id, conversation, run, call, speaker, tool, arguments, digest, subject, line, preview, reason, attempt,
    state, opened_at, expires_at)
    VALUES ('ask-r3-c0', 8, 'r3', 'c0', 'ada', 'exec', '{"command":"ls"}', 'd', 'ls', '$ ls', '', 'it is dangerous', 1, 'used', 2.0, 3.0);
INSERT INTO rules (agent, sender, tool, pattern, run, created_at, created_by)
    VALUES ('ada', 'tg:1', 'exec', 'ls', '', 2.0, 'owner');

-- Arguments that only a tool may know wait sealed beside the approval of their call, so that both outlive the daemon.

ALTER TABLE asks ADD COLUMN sealed BLOB;

-- In whose conversation something was first learnt: it goes when that one is deleted.

ALTER TABLE learnings ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE learnings ADD COLUMN sender TEXT NOT NULL DEFAULT '';

CREATE INDEX messages_tainted ON messages (id, taint) WHERE taint <> '';

ALTER TABLE rules ADD COLUMN bound TEXT NOT NULL DEFAULT '';
ALTER TABLE asks ADD COLUMN exact TEXT NOT NULL DEFAULT '';
ALTER TABLE asks ADD COLUMN what TEXT NOT NULL DEFAULT '';

CREATE TABLE agent_runs (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT    NOT NULL UNIQUE,
    agent         TEXT    NOT NULL,
    sender        TEXT    NOT NULL,
    root_agent    TEXT    NOT NULL,
    root_sender   TEXT    NOT NULL,
    parent        TEXT    NOT NULL,
    parent_agent  TEXT    NOT NULL,
    parent_sender TEXT    NOT NULL,
    parent_seq    INTEGER NOT NULL,
    call          TEXT    NOT NULL,
    origin        TEXT    NOT NULL,
    step          INTEGER NOT NULL,
    chain         TEXT    NOT NULL,
    instruction   TEXT    NOT NULL,
    spawn_reason  TEXT    NOT NULL,
    allowed_tools TEXT    NOT NULL,
    granted_tools TEXT    NOT NULL DEFAULT '[]',
    cwd           TEXT    NOT NULL,
    max_steps     INTEGER,
    max_seconds   REAL,
    max_tokens    INTEGER,
    max_spend     REAL,
    taint         TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('spawned', 'completed', 'failed', 'cancelled')),
    outcome       TEXT    NOT NULL DEFAULT '',
    result        TEXT    NOT NULL DEFAULT '',
    error         TEXT    NOT NULL DEFAULT '',
    hit_limit     TEXT    NOT NULL DEFAULT '',
    tokens        INTEGER NOT NULL DEFAULT 0,
    cost          REAL    NOT NULL DEFAULT 0,
    steps         INTEGER NOT NULL DEFAULT 0,
    -- Whether it goes on although what spawned it was stopped: that was to stop alone.
    outlives      INTEGER NOT NULL DEFAULT 0,
    delivery      TEXT    NOT NULL CHECK (delivery IN ('owed', 'waited', 'sent', 'none')),
    created_at    REAL    NOT NULL,
    started_at    REAL    NOT NULL DEFAULT 0,
    ended_at      REAL    NOT NULL DEFAULT 0,
    -- Whether its conversation is still there. What is left of one that was removed is what it took.
    is_kept       INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX agent_runs_by_call ON agent_runs (parent, call) WHERE call <> '';
CREATE INDEX agent_runs_of_parent ON agent_runs (parent);
CREATE INDEX agent_runs_of_origin ON agent_runs (origin);
CREATE INDEX agent_runs_of_root ON agent_runs (root_agent, root_sender, number);
CREATE INDEX agent_runs_not_ended ON agent_runs (number) WHERE status = 'spawned';
CREATE INDEX agent_runs_owed ON agent_runs (number) WHERE delivery = 'owed';
CREATE INDEX agent_runs_by_end ON agent_runs (ended_at) WHERE status <> 'spawned' AND is_kept = 1;

ALTER TABLE runs ADD COLUMN author TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN taint TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN seconds REAL NOT NULL DEFAULT 0;
CREATE INDEX runs_of_origin ON runs (origin) WHERE origin <> '';

CREATE TABLE trace_notes (
    run           TEXT    NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq           INTEGER NOT NULL,
    after_seq     INTEGER NOT NULL,
    at            REAL    NOT NULL,
    kind          TEXT    NOT NULL,
    agent         TEXT    NOT NULL,
    payload       TEXT    NOT NULL,
    truncated     INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX trace_notes_by_age ON trace_notes (at);
CREATE INDEX runs_failed ON runs (number) WHERE outcome NOT IN ('', 'completed', 'escalated', 'cancelled');

CREATE TABLE ledger (
    run_id        TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    type          TEXT    NOT NULL,
    at            REAL    NOT NULL,
    payload       TEXT    NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

-- What is asked, started or listed again: what of it counts from one, what is the same, and what comes next.

-- How often it was asked before the last decision on it. What was asked after a decision in an older store counts on: it
-- cannot be told apart any more.
ALTER TABLE asks ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;

-- The turns of people's that ended last. Those of spawned and background runs are found by the rows of these.
CREATE INDEX runs_turns_by_end ON runs (ended_at) WHERE status = 'ended' AND substr(id, 1, 5) <> 'arun-';

-- Who started it and under which id of theirs, hashed: the same start made again finds the run it made before.
ALTER TABLE agent_runs ADD COLUMN client_key TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX agent_runs_by_client ON agent_runs (client_key) WHERE client_key <> '';

-- Lists of conversations begin with those used last, and go on where the page before ended.
CREATE INDEX conversations_by_use ON conversations (updated_at);

INSERT INTO asks (
    id, conversation, run, call, speaker, tool, arguments, digest, subject, line, preview, reason, attempt, state,
    opened_at, expires_at, decided_at, decided_by, sealed, exact, what, settled
)
SELECT
    column1, conversations.id, column2, column3, 'ada', column4, '{"command":"ls"}', 'digest', 'ls in /', '$ ls', 'ls',
    'it is dangerous', column5, column6, column7, 1e12, 0, '', column8, 'exact', 'in the sandbox', column9
FROM conversations, (
    VALUES ('grant-arun-1-exec', 'arun-1', 'c8', 'exec', 3, 'pending', 5.5, x'5ea1', 1),
           ('ask-arun-1-c7', 'arun-1', 'c7', 'exec', 1, 'used', 5.0, NULL, 0)
) WHERE conversations.agent = 'ada' AND conversations.sender = 'user';

-- Every state that a spawned or background run can be in, on both sides.
INSERT INTO conversations VALUES (20, 'operator', 'run:arun-waited', '', '', 2.0, 2.5, 2, 0, 0, 0);
INSERT INTO conversations VALUES (21, 'operator', 'run:arun-sent', '', '', 2.0, 2.5, 2, 0, 0, 0);
INSERT INTO conversations VALUES (22, 'operator', 'run:arun-running', '', '', 2.0, 2.5, 1, 0, 0, 0);
INSERT INTO conversations VALUES (23, 'operator', 'run:arun-half', '', '', 2.0, 2.5, 2, 0, 0, 0);
INSERT INTO conversations VALUES (24, 'ada', 'bg:arun-background:user', '', '', 2.0, 2.5, 2, 0, 0, 0);
INSERT INTO conversations VALUES (25, 'moot', 'user', '', '', 2.0, 3.0, 3, 0, 0, 0);
INSERT INTO messages (id, role, content, agent, tool_call_id, is_error, run_id, created_at) VALUES
    ((20 << 32) + 1, 'user', 'look', '', '', 0, 'arun-waited', 2.0),
    ((20 << 32) + 2, 'assistant', 'Looked.', '', '', 0, 'arun-waited', 2.5),
    ((21 << 32) + 1, 'user', 'fetch', '', '', 0, 'arun-sent', 2.0),
    ((21 << 32) + 2, 'assistant', 'Fetched.', '', '', 0, 'arun-sent', 2.5),
    ((22 << 32) + 1, 'user', 'go on', '', '', 0, 'arun-running', 2.0),
    ((23 << 32) + 1, 'user', 'half', '', '', 0, 'arun-half', 2.0),
    ((23 << 32) + 2, 'assistant', 'Half told.', '', '', 0, 'arun-half', 2.5),
    ((24 << 32) + 1, 'user', 'in the background', '', '', 0, 'arun-background', 2.0),
    ((24 << 32) + 2, 'assistant', 'Done there.', '', '', 0, 'arun-background', 2.5),
    ((25 << 32) + 1, 'user', 'lead', '', '', 0, 'run-lead', 2.0),
    ((25 << 32) + 2, 'assistant', 'Led.', '', '', 0, 'run-lead', 2.1),
    ((25 << 32) + 3, 'user', 'operator (arun-sent) has ended: completed.', 'operator', '', 0, 'run-report', 3.0);
INSERT INTO runs (id, conversation, speaker, status, cwd, client_message_id, created_at, started_at, ended_at, user_seq,
    reply_seq, outcome, prompt, completion, cost, steps, origin) VALUES
    ('run-lead', 25, 'moot', 'ended', '', '', 2.0, 2.0, 2.1, 1, 2, 'completed', 3, 2, 0.1, 1, ''),
    ('run-report', 25, 'moot', 'ended', '', '', 3.0, 3.0, 3.1, 3, 0, 'empty', 3, 2, 0.1, 1, 'run-lead'),
    ('arun-waited', 20, 'operator', 'ended', '/w', '', 2.0, 2.0, 2.5, 1, 2, 'completed', 4, 1, 0.5, 2, 'run-lead'),
    ('arun-sent', 21, 'operator', 'ended', '/w', '', 2.0, 2.0, 2.5, 1, 2, 'completed', 4, 1, 0.5, 2, 'run-lead'),
    ('arun-half', 23, 'operator', 'ended', '/w', '', 2.0, 2.0, 2.5, 1, 2, 'completed', 4, 1, 0.5, 2, 'run-lead'),
    ('arun-background', 24, 'ada', 'ended', '/w', '', 2.0, 2.0, 2.5, 1, 2, 'completed', 4, 1, 0.25, 2, '');
UPDATE runs SET author = 'operator' WHERE id = 'run-report';
INSERT INTO runs (id, conversation, speaker, status, cwd, client_message_id, created_at, started_at, user_seq, origin)
    VALUES ('arun-running', 22, 'operator', 'running', '/w', '', 2.0, 2.0, 1, 'run-lead');
INSERT INTO agent_runs (id, agent, sender, root_agent, root_sender, parent, parent_agent, parent_sender, parent_seq, call,
    origin, step, chain, instruction, spawn_reason, allowed_tools, granted_tools, cwd, max_steps, max_seconds, taint,
    status, outcome, result, error, hit_limit, tokens, cost, steps, outlives, delivery, created_at, started_at, ended_at,
    is_kept, client_key) VALUES
    ('arun-waited', 'operator', 'run:arun-waited', 'moot', 'user', 'run-lead', 'moot', 'user', 1, 'c-waited', 'run-lead',
     1, '["moot"]', 'look', 'it can', '["fs_read"]', '[]', '/w', 9, 60.0, '', 'completed', 'completed', 'Looked.', '', '',
     5, 0.5, 2, 0, 'waited', 2.0, 2.0, 2.5, 1, ''),
    ('arun-sent', 'operator', 'run:arun-sent', 'moot', 'user', 'run-lead', 'moot', 'user', 1, 'c-sent', 'run-lead', 1,
     '["moot"]', 'fetch', '', '[]', '[]', '/w', NULL, NULL, '', 'completed', 'completed', 'Fetched.', '', '', 5, 0.5, 2,
     0, 'sent', 2.0, 2.0, 2.5, 1, ''),
    ('arun-running', 'operator', 'run:arun-running', 'moot', 'user', 'run-lead', 'moot', 'user', 1, 'c-running',
     'run-lead', 2, '["moot"]', 'go on', '', '[]', '[]', '/w', NULL, NULL, 'web', 'spawned', '', '', '', '', 0, 0, 0, 1,
     'owed', 2.0, 2.0, 0, 1, ''),
    ('arun-half', 'operator', 'run:arun-half', 'moot', 'user', 'run-lead', 'moot', 'user', 1, 'c-half', 'run-lead', 2,
     '["moot"]', 'half', '', '[]', '[]', '/w', NULL, NULL, '', 'spawned', '', '', '', '', 0, 0, 0, 0, 'owed', 2.0, 0, 0,
     1, ''),
    ('arun-queued', 'operator', 'run:arun-queued', 'moot', 'user', 'run-lead', 'moot', 'user', 1, 'c-queued', 'run-lead',
     2, '["moot"]', 'later', 'soon', '[]', '[]', '/w', 9, 60.0, '', 'spawned', '', '', '', '', 0, 0, 0, 0, 'owed', 2.2,
     0, 0, 1, ''),
    ('arun-stopped', 'operator', 'run:arun-stopped', 'moot', 'user', 'run-lead', 'moot', 'user', 1, 'c-stopped',
     'run-lead', 2, '["moot"]', 'never', '', '[]', '[]', '/w', NULL, NULL, '', 'cancelled', 'cancelled', '',
     'It was stopped.', '', 0, 0, 0, 0, 'none', 2.2, 0, 2.3, 1, ''),
    ('arun-background', 'ada', 'bg:arun-background:user', 'ada', 'bg:arun-background:user', '', '', '', 0, '', '', 0, '[]',
     'in the background', '', '[]', '[]', '/w', NULL, NULL, '', 'completed', 'completed', 'Done there.', '', '', 5, 0.25,
     2, 0, 'none', 2.0, 2.0, 2.5, 1, 'key-1'),
    ('arun-gone', 'librarian', 'run:arun-gone', 'moot', 'user', 'run-lead', 'moot', 'user', 1, 'c-gone', 'run-lead', 1,
     '["moot"]', '', '', '[]', '[]', '/w', NULL, NULL, '', 'completed', 'completed', '', '', '', 70, 0.75, 2, 0, 'sent',
     1.0, 1.0, 1.5, 0, '');

PRAGMA user_version = 9;
