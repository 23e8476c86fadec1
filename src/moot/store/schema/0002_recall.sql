-- Full-text search over what was archived. The text itself stays in messages and archives.

CREATE VIRTUAL TABLE message_index USING fts5 (
    content, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE summary_index USING fts5 (
    title, summary, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);

INSERT INTO message_index (rowid, content)
SELECT messages.id, messages.content
FROM conversations JOIN messages
    ON messages.id BETWEEN (conversations.id << 32) + 1 AND (conversations.id << 32) + conversations.archived_seq
ORDER BY messages.id;

INSERT INTO summary_index (rowid, title, summary)
SELECT (conversation << 32) + number, title, summary FROM archives ORDER BY conversation, number;
