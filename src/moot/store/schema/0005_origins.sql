-- In whose conversation something was first learnt: it goes when that one is deleted.

ALTER TABLE learnings ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE learnings ADD COLUMN sender TEXT NOT NULL DEFAULT '';
