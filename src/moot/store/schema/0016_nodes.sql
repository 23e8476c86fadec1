-- The daemons that have used this store. Those that no longer run are not alive; their conversations can be claimed.
CREATE TABLE nodes (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    is_alive INTEGER NOT NULL
) STRICT;

-- Which node writes a conversation, 0 for none yet; the epoch goes up each time another one claims it.
ALTER TABLE conversations ADD COLUMN node INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
-- The epoch under which the run was queued, begun or taken over: it writes only while that is the current one.
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
