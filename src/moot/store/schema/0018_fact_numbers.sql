-- The number of a fact as its owner sees it: a number of all facts would tell how many others have. `lost_to` is one too.
ALTER TABLE graph_facts ADD COLUMN label INTEGER NOT NULL DEFAULT 0;
UPDATE graph_facts SET label = number;
DROP INDEX graph_facts_in_order;
CREATE UNIQUE INDEX graph_facts_of_owner ON graph_facts (owner, label);
