-- Senders and receivers are told of mail that was evicted.
CREATE INDEX mail_missed ON mail (conversation, number) WHERE evicted_at > 0;
CREATE INDEX mail_lost ON mail (from_goal, number) WHERE evicted_at > 0;
