-- How a fact had been ended before it lost a conflict, so that undoing the merge that made the conflict ends it as before.
ALTER TABLE graph_facts ADD COLUMN earlier_retracted_at REAL NOT NULL DEFAULT 0;
ALTER TABLE graph_facts ADD COLUMN earlier_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE graph_facts ADD COLUMN earlier_lost_to INTEGER NOT NULL DEFAULT 0;
