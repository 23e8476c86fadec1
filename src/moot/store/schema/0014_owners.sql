-- The agent whose conversation with the person gets the result of a background run; empty for the one it works for.
ALTER TABLE runs ADD COLUMN report_to TEXT NOT NULL DEFAULT '';

-- The number of a source as its owner sees it: a number of all sources would tell how many others have.
ALTER TABLE document_owners ADD COLUMN last_source INTEGER NOT NULL DEFAULT 0;
ALTER TABLE document_sources ADD COLUMN label INTEGER NOT NULL DEFAULT 0;
UPDATE document_sources SET label = number;
UPDATE document_owners SET last_source = coalesce((SELECT max(number) FROM document_sources WHERE owner = id), 0);

-- `root_id` is the root run of the tree whose budget a call counts against; empty if it belongs to no run.
CREATE TABLE spend_of_runs (
    agent      TEXT    NOT NULL,
    sender     TEXT    NOT NULL,
    model      TEXT    NOT NULL,
    root_id    TEXT    NOT NULL,
    prompt     INTEGER NOT NULL,
    completion INTEGER NOT NULL,
    cache_hit  INTEGER NOT NULL,
    cache_miss INTEGER NOT NULL,
    reasoning  INTEGER NOT NULL,
    cost       REAL    NOT NULL,
    PRIMARY KEY (agent, sender, model, root_id)
) STRICT, WITHOUT ROWID;
INSERT INTO spend_of_runs
SELECT agent, sender, model, '', prompt, completion, cache_hit, cache_miss, reasoning, cost FROM other_spend;
DROP TABLE other_spend;
ALTER TABLE spend_of_runs RENAME TO other_spend;
CREATE INDEX other_spend_of_root ON other_spend (root_id) WHERE root_id <> '';
