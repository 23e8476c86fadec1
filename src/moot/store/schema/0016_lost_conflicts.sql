-- The fact that a wrong one lost a conflict to, so that undoing the merge that made the conflict restores it; 0 for none.
ALTER TABLE graph_facts ADD COLUMN lost_to INTEGER NOT NULL DEFAULT 0;
CREATE INDEX graph_facts_that_lost ON graph_facts (lost_to) WHERE lost_to <> 0;
