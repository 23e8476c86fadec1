-- The tokens of the request that a message answered, as its provider counted them; 0 where it did not, or where part of
-- what was counted has been archived since.
ALTER TABLE messages ADD COLUMN context_tokens INTEGER NOT NULL DEFAULT 0;
