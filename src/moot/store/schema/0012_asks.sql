-- Questions, approvals and grants are one table: each is stored before it is shown, its answer before it is confirmed.

CREATE TABLE all_asks (
    number           INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT    NOT NULL UNIQUE,
    kind             TEXT    NOT NULL CHECK (kind IN ('question', 'approval', 'grant')),
    -- The conversation in which it is shown.
    conversation     INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    run              TEXT    NOT NULL,
    call             TEXT    NOT NULL,
    speaker          TEXT    NOT NULL,
    tool             TEXT    NOT NULL,
    -- Of a question: what is asked, as JSON, and the answer. `reply_id` makes the same reply sent again one reply.
    questions        TEXT    NOT NULL DEFAULT '[]',
    answer           TEXT    NOT NULL DEFAULT '',
    reply_id         TEXT    NOT NULL DEFAULT '',
    -- Of an approval or a grant: the call it is about.
    arguments        TEXT    NOT NULL DEFAULT '',
    digest           TEXT    NOT NULL DEFAULT '',
    subject          TEXT    NOT NULL DEFAULT '',
    line             TEXT    NOT NULL DEFAULT '',
    preview          TEXT    NOT NULL DEFAULT '',
    reason           TEXT    NOT NULL DEFAULT '',
    exact            TEXT    NOT NULL DEFAULT '',
    what             TEXT    NOT NULL DEFAULT '',
    sealed           BLOB,
    -- Whether the call can be made after a restart.
    resumable        INTEGER NOT NULL DEFAULT 1,
    attempt          INTEGER NOT NULL DEFAULT 1,
    decided_attempts INTEGER NOT NULL DEFAULT 0,
    state            TEXT    NOT NULL CHECK (
        state IN ('pending', 'answered', 'granted', 'used', 'denied', 'expired', 'cancelled')
    ),
    opened_at        REAL    NOT NULL,
    expires_at       REAL    NOT NULL,
    decided_at       REAL    NOT NULL DEFAULT 0,
    decided_by       TEXT    NOT NULL DEFAULT ''
) STRICT;

INSERT INTO all_asks (
    id, kind, conversation, run, call, speaker, tool, arguments, digest, subject, line, preview, reason, exact, what,
    sealed, attempt, decided_attempts, state, opened_at, expires_at, decided_at, decided_by
)
SELECT
    id, CASE WHEN substr(id, 1, 6) = 'grant-' THEN 'grant' ELSE 'approval' END, conversation, run, call, speaker, tool,
    arguments, digest, subject, line, preview, reason, exact, what, sealed, attempt, settled, state, opened_at,
    expires_at, decided_at, decided_by
FROM asks ORDER BY opened_at, rowid;

DROP TABLE asks;
ALTER TABLE all_asks RENAME TO asks;
CREATE INDEX asks_open ON asks (number) WHERE state IN ('pending', 'granted');
CREATE INDEX asks_of_run ON asks (run);
CREATE UNIQUE INDEX asks_by_reply ON asks (conversation, reply_id) WHERE reply_id <> '';
