-- The numbers of events: all up to this one may have been used. A daemon reserves a block before it uses any of them.
CREATE TABLE event_numbers (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    reserved INTEGER NOT NULL
) STRICT;
INSERT INTO event_numbers VALUES (1, 0);
