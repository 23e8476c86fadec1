-- Until when the owner has seen what traces report as failed: the doctor does not report it again.
CREATE TABLE acknowledged (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at REAL    NOT NULL
) STRICT;
INSERT INTO acknowledged VALUES (1, 0.0);
