-- Where strangers' words are, so that a list of conversations can tell without reading what was said in them.

CREATE INDEX messages_tainted ON messages (id, taint) WHERE taint <> '';
