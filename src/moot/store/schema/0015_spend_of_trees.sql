-- The root run of the tree whose budget the summary counts against; empty if a person asked for it.
ALTER TABLE archives ADD COLUMN root_id TEXT NOT NULL DEFAULT '';
CREATE INDEX archives_of_root ON archives (root_id) WHERE root_id <> '';
