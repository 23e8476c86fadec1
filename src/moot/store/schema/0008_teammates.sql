-- Runs that agents spawn and people put into the background; the journal of what blocked them; notes for traces.

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
-- A call that is made again after a restart finds what it spawned the first time.
CREATE UNIQUE INDEX agent_runs_by_call ON agent_runs (parent, call) WHERE call <> '';
CREATE INDEX agent_runs_of_parent ON agent_runs (parent);
CREATE INDEX agent_runs_of_origin ON agent_runs (origin);
CREATE INDEX agent_runs_of_root ON agent_runs (root_agent, root_sender, number);
CREATE INDEX agent_runs_not_ended ON agent_runs (number) WHERE status = 'spawned';
CREATE INDEX agent_runs_owed ON agent_runs (number) WHERE delivery = 'owed';
CREATE INDEX agent_runs_by_end ON agent_runs (ended_at) WHERE status <> 'spawned' AND is_kept = 1;

ALTER TABLE runs ADD COLUMN author TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN taint TEXT NOT NULL DEFAULT '';
-- The run whose budget this one spends from, where that is another; and how long it has been at work.
ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN seconds REAL NOT NULL DEFAULT 0;
CREATE INDEX runs_of_origin ON runs (origin) WHERE origin <> '';

-- What a trace tells that is kept nowhere else. `after_seq` is the run's last message when it was written: clocks jump.
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
-- Turns that went wrong are looked for among many that did not.
CREATE INDEX runs_failed ON runs (number) WHERE outcome NOT IN ('', 'completed', 'escalated', 'cancelled');

-- The journal of what blocked a teammate.
CREATE TABLE ledger (
    run_id        TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    type          TEXT    NOT NULL,
    at            REAL    NOT NULL,
    payload       TEXT    NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;
