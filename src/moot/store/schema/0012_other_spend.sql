-- What model calls outside runs took: notes, analyses, answers from documents, vectors.
CREATE TABLE other_spend (
    agent      TEXT    NOT NULL,
    sender     TEXT    NOT NULL,
    model      TEXT    NOT NULL,
    prompt     INTEGER NOT NULL,
    completion INTEGER NOT NULL,
    cache_hit  INTEGER NOT NULL,
    cache_miss INTEGER NOT NULL,
    reasoning  INTEGER NOT NULL,
    cost       REAL    NOT NULL,
    PRIMARY KEY (agent, sender, model)
) STRICT, WITHOUT ROWID;
