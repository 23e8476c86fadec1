-- What is asked, started or listed again: what of it counts from one, what is the same, and what comes next.

-- How often it was asked before the last decision on it. What was asked after a decision in an older store counts on: it
-- cannot be told apart any more.
ALTER TABLE asks ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;

-- The turns of people's that ended last. Those of spawned and background runs are found by the rows of these.
CREATE INDEX runs_turns_by_end ON runs (ended_at) WHERE status = 'ended' AND substr(id, 1, 5) <> 'arun-';
