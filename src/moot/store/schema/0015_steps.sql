-- What each model request was made of, so that it can be made again: parts are kept once, whoever uses them.

CREATE TABLE parts (
    id       INTEGER PRIMARY KEY,
    digest   BLOB    NOT NULL UNIQUE,
    parent   INTEGER REFERENCES parts (id),
    -- Compressed where that is shorter; the first byte says so.
    content  BLOB    NOT NULL
) STRICT;

-- `last_seq` is the newest message the request had, `archive` the newest archive there was, 0 for none.
CREATE TABLE steps (
    run        INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    step       INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    archive    INTEGER NOT NULL,
    head       INTEGER NOT NULL,
    extra      INTEGER,
    changes    INTEGER,
    max_tokens INTEGER,
    PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;
