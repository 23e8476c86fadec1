-- Whether a result is that of a call that was not executed: an unknown tool, unusable arguments, a program that is not there.
ALTER TABLE messages ADD COLUMN unexecuted INTEGER NOT NULL DEFAULT 0;
