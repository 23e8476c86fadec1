-- What led to a run, as far as mail did: the thread of that mail, and how many mails in a row. A background run, a workflow
-- or a schedule that an agent starts has the cause of the run that starts it.
ALTER TABLE runs ADD COLUMN thread TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflows ADD COLUMN thread TEXT NOT NULL DEFAULT '';
ALTER TABLE workflows ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cron_jobs ADD COLUMN thread TEXT NOT NULL DEFAULT '';
ALTER TABLE cron_jobs ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;
