-- What is asked, started or listed again: what of it counts from one, what is the same, and what comes next.

-- How often it was asked before the last decision on it. What was asked after a decision in an older store counts on: it
-- cannot be told apart any more.
ALTER TABLE asks ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
