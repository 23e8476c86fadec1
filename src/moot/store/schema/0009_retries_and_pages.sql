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
