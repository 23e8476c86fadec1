-- The index of documents. The passages of an owner lie in one range of numbers: (owner << 32) + 1 and on.

-- `version` changes with every change of what the owner has indexed; numbers of passages are not used again.
CREATE TABLE document_owners (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    agent        TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    version      INTEGER NOT NULL DEFAULT 0,
    last_passage INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, sender)
) STRICT;

-- `folder` is the working directory beneath which the files are read. `completed_at` is 0 until all of it was indexed.
CREATE TABLE document_sources (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    owner        INTEGER NOT NULL REFERENCES document_owners (id) ON DELETE CASCADE,
    kind         TEXT    NOT NULL,
    place        TEXT    NOT NULL,
    folder       TEXT    NOT NULL,
    taint        TEXT    NOT NULL,
    added_at     REAL    NOT NULL,
    completed_at REAL    NOT NULL DEFAULT 0,
    UNIQUE (owner, place)
) STRICT;

-- A document with a problem was refused, and has no passages.
CREATE TABLE documents (
    number     INTEGER PRIMARY KEY,
    source     INTEGER NOT NULL REFERENCES document_sources (number) ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    format     TEXT    NOT NULL,
    size       INTEGER NOT NULL,
    modified   INTEGER NOT NULL,
    digest     TEXT    NOT NULL,
    embedder   TEXT    NOT NULL,
    problem    TEXT    NOT NULL,
    note       TEXT    NOT NULL,
    taint      TEXT    NOT NULL,
    indexed_at REAL    NOT NULL,
    UNIQUE (source, name)
) STRICT;

CREATE TABLE document_passages (
    number     INTEGER PRIMARY KEY,
    document   INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
    content    TEXT    NOT NULL,
    heading    TEXT    NOT NULL,
    first_line INTEGER NOT NULL,
    last_line  INTEGER NOT NULL,
    page       INTEGER NOT NULL
) STRICT;
CREATE INDEX document_passages_of_document ON document_passages (document);

-- Apart from the passages, so that all vectors are read without their texts.
CREATE TABLE passage_vectors (
    number INTEGER PRIMARY KEY REFERENCES document_passages (number) ON DELETE CASCADE,
    vector BLOB    NOT NULL
) STRICT;

-- What a passage is found by, as it was analysed; the text itself stays in document_passages.
CREATE VIRTUAL TABLE passage_index USING fts5 (
    terms, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 0'
);
