-- What people say when they ask for an agent, one row for each name of an agent. `digest` is of the definition that it was
-- written for, `phrases` JSON.
CREATE TABLE vocabularies (
    agent      TEXT NOT NULL PRIMARY KEY,
    digest     TEXT NOT NULL,
    model      TEXT NOT NULL,
    written_at REAL NOT NULL,
    phrases    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
