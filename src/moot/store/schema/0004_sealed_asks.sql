-- Arguments that only a tool may know wait sealed beside the approval of their call, so that both outlive the daemon.

ALTER TABLE asks ADD COLUMN sealed BLOB;
