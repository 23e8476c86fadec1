-- From 0.1.0 on: one table of runs, one of asks, deliveries and model requests as rows, numbers for events, and epochs.

-- The tokens of the request that a message answered, as its provider counted them; 0 where it did not, or where part of
-- what was counted has been archived since.
ALTER TABLE messages ADD COLUMN context_tokens INTEGER NOT NULL DEFAULT 0;
-- Whether its text was not sent to the person: it was written by an agent with the role assistant.
ALTER TABLE messages ADD COLUMN private INTEGER NOT NULL DEFAULT 0;
-- On results of tools: how long the call took; 0 if unknown.
ALTER TABLE messages ADD COLUMN duration_ms INTEGER NOT NULL DEFAULT 0;

-- What follows an archive begins with its summary, unless it is closed: then with nothing, or with the archive `resumed`.
ALTER TABLE archives ADD COLUMN closed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE archives ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;
-- When a person last read it, and the beginning of their last absence that they were told about; 0 if there was none.
ALTER TABLE conversations ADD COLUMN visited_at REAL NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN away_since REAL NOT NULL DEFAULT 0;
-- The model that the agent uses in this conversation; empty for the agent's own.
ALTER TABLE conversations ADD COLUMN chosen_model TEXT NOT NULL DEFAULT '';

-- Turns of an imported file that ended without an answer. They were no runs of this store.
CREATE TABLE imported_stopped_turns (
    conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    user_seq     INTEGER NOT NULL,
    speaker      TEXT    NOT NULL,
    outcome      TEXT    NOT NULL,
    PRIMARY KEY (conversation, user_seq)
) STRICT, WITHOUT ROWID;

-- The numbers of events: all up to this one may have been used. A daemon reserves a block before it uses any of them.
CREATE TABLE event_numbers (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    reserved INTEGER NOT NULL
) STRICT;
INSERT INTO event_numbers VALUES (1, 0);

-- Questions, approvals and grants are one table: each is stored before it is shown, its answer before it is confirmed.

CREATE TABLE all_asks (
    number           INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT    NOT NULL UNIQUE,
    kind             TEXT    NOT NULL CHECK (kind IN ('question', 'approval', 'grant')),
    -- The conversation in which it is shown.
    conversation     INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    run              TEXT    NOT NULL,
    call             TEXT    NOT NULL,
    speaker          TEXT    NOT NULL,
    -- The agents from the root of the run's tree down to the parent of the run, as JSON.
    chain            TEXT    NOT NULL DEFAULT '[]',
    tool             TEXT    NOT NULL,
    -- Of a question: what is asked, as JSON, and the answer; of a denial its reason. `reply_id` makes the same reply sent again one reply.
    questions        TEXT    NOT NULL DEFAULT '[]',
    answer           TEXT    NOT NULL DEFAULT '',
    reply_id         TEXT    NOT NULL DEFAULT '',
    -- Of an approval or a grant: the call it is about.
    arguments        TEXT    NOT NULL DEFAULT '',
    digest           TEXT    NOT NULL DEFAULT '',
    subject          TEXT    NOT NULL DEFAULT '',
    line             TEXT    NOT NULL DEFAULT '',
    preview          TEXT    NOT NULL DEFAULT '',
    reason           TEXT    NOT NULL DEFAULT '',
    exact            TEXT    NOT NULL DEFAULT '',
    what             TEXT    NOT NULL DEFAULT '',
    -- What patterns of rules look at in the call, as JSON; empty if no pattern can cover it.
    shape            TEXT    NOT NULL DEFAULT '',
    sealed           BLOB,
    -- Whether the call can be made after a restart.
    resumable        INTEGER NOT NULL DEFAULT 1,
    attempt          INTEGER NOT NULL DEFAULT 1,
    decided_attempts INTEGER NOT NULL DEFAULT 0,
    state            TEXT    NOT NULL CHECK (
        state IN ('pending', 'answered', 'granted', 'used', 'denied', 'expired', 'cancelled')
    ),
    opened_at        REAL    NOT NULL,
    expires_at       REAL    NOT NULL,
    -- When and by whom it was answered, granted or denied; 0 where it was not.
    decided_at       REAL    NOT NULL DEFAULT 0,
    decided_by       TEXT    NOT NULL DEFAULT '',
    -- When it was answered, used, denied, cancelled or expired; 0 while it is open.
    closed_at        REAL    NOT NULL DEFAULT 0
) STRICT;

INSERT INTO all_asks (
    id, kind, conversation, run, call, speaker, chain, tool, arguments, digest, subject, line, preview, reason, exact,
    what, sealed, attempt, decided_attempts, state, opened_at, expires_at, decided_at, decided_by, closed_at
)
SELECT
    id, CASE WHEN substr(id, 1, 6) = 'grant-' THEN 'grant' ELSE 'approval' END, conversation, run, call, speaker,
    coalesce((SELECT chain FROM agent_runs WHERE agent_runs.id = asks.run), '[]'), tool, arguments, digest, subject,
    line, preview, reason, exact, what, sealed, attempt, settled, state, opened_at, expires_at,
    CASE WHEN decided_by = '' THEN 0 ELSE decided_at END, decided_by,
    CASE WHEN state IN ('pending', 'granted') THEN 0 ELSE decided_at END
FROM asks ORDER BY opened_at, rowid;

DROP TABLE asks;
ALTER TABLE all_asks RENAME TO asks;
CREATE INDEX asks_open ON asks (number) WHERE state IN ('pending', 'granted');
CREATE INDEX asks_of_run ON asks (run);
CREATE UNIQUE INDEX asks_by_reply ON asks (conversation, reply_id) WHERE reply_id <> '';

-- Approvals and grants that were asked again: the earlier attempts, of which the row in `asks` is the last. Traces and
-- the ledger are derived from both.
CREATE TABLE past_attempts (
    ask              INTEGER NOT NULL REFERENCES asks (number) ON DELETE CASCADE,
    attempt          INTEGER NOT NULL,
    decided_attempts INTEGER NOT NULL,
    call             TEXT    NOT NULL,
    line             TEXT    NOT NULL,
    reason           TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    opened_at        REAL    NOT NULL,
    decided_at       REAL    NOT NULL,
    decided_by       TEXT    NOT NULL,
    closed_at        REAL    NOT NULL,
    PRIMARY KEY (ask, attempt)
) STRICT, WITHOUT ROWID;

-- 0.1.0 wrote what became of an ask into notes. Those about earlier attempts become attempts; the call of a grant is the
-- last call of its tool before the note. The last attempt is in `asks`.
CREATE TEMP TABLE ask_notes AS
SELECT
    asks.number AS ask, asks.attempt AS last, trace_notes.run, seq, at,
    json_extract(payload, '$.attempt') AS attempt, json_extract(payload, '$.state') AS state,
    coalesce(json_extract(payload, '$.call'), '') AS line, coalesce(json_extract(payload, '$.reason'), '') AS reason,
    coalesce(CASE asks.kind WHEN 'approval' THEN call END, (
        SELECT json_extract(made.value, '$.id')
        FROM messages, json_each(CAST(tool_calls AS TEXT)) AS made
        WHERE messages.id BETWEEN runs.conversation << 32 AND (runs.conversation << 32) + after_seq
        AND messages.run_id = runs.id AND tool_calls IS NOT NULL AND json_extract(made.value, '$.name') = asks.tool
        ORDER BY messages.id DESC LIMIT 1
    ), call) AS call
FROM trace_notes JOIN runs ON runs.id = trace_notes.run JOIN asks ON asks.run = runs.id
WHERE trace_notes.kind = 'policy_decision' AND asks.id = json_extract(payload, '$.ask');

INSERT INTO past_attempts
SELECT
    ask, attempt,
    coalesce((
        SELECT max(earlier.attempt) FROM ask_notes AS earlier
        WHERE earlier.ask = ask_notes.ask AND earlier.attempt < ask_notes.attempt
        AND earlier.state IN ('granted', 'denied')
    ), 0),
    max(call), max(line), max(reason),
    coalesce(max(CASE state WHEN 'pending' THEN NULL WHEN 'granted' THEN 'used' ELSE state END), 'pending'), min(at),
    coalesce(max(CASE WHEN state IN ('granted', 'denied') THEN at END), 0), '',
    coalesce(max(CASE WHEN state <> 'pending' THEN at END), 0)
FROM ask_notes WHERE attempt < last GROUP BY ask, attempt;

DELETE FROM trace_notes WHERE EXISTS (
    SELECT 1 FROM ask_notes WHERE ask_notes.run = trace_notes.run AND ask_notes.seq = trace_notes.seq
);
DROP TABLE ask_notes;
DROP TABLE ledger;

-- The agents below the rule's agent, down to the one it is for, as JSON; NULL for a rule that was shown without them.
ALTER TABLE rules ADD COLUMN teammates TEXT;
-- The pattern of the calls it covers, as JSON; empty if `bound` says it. A rule of one conversation is not for the
-- background runs that belong to it.
ALTER TABLE rules ADD COLUMN matcher TEXT NOT NULL DEFAULT '';
ALTER TABLE rules ADD COLUMN of_conversation INTEGER NOT NULL DEFAULT 0;

-- The mode that a person has set for a conversation; empty if the configured one applies.
ALTER TABLE conversations ADD COLUMN mode TEXT NOT NULL DEFAULT '';

-- Which calls a person lets be approved without asking in a conversation; empty if what its agent states applies.
ALTER TABLE conversations ADD COLUMN auto_approve TEXT NOT NULL DEFAULT '';

-- One table of runs: those that were spawned or put into the background are rows of it, and deliveries are rows.

ALTER TABLE runs RENAME COLUMN origin TO root_id;
UPDATE runs SET root_id = id WHERE root_id = '';
ALTER TABLE runs ADD COLUMN kind TEXT NOT NULL DEFAULT 'turn' CHECK (kind IN ('turn', 'teammate', 'background'));
-- The conversation a person is in, where that is another one than the run's own.
ALTER TABLE runs ADD COLUMN root_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN root_sender TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parent_id TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parent_call TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parent_step INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN parent_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN chain TEXT NOT NULL DEFAULT '[]';
ALTER TABLE runs ADD COLUMN spawn_reason TEXT NOT NULL DEFAULT '';
-- NULL is the whole role, an empty list is no tools.
ALTER TABLE runs ADD COLUMN allowed_tools TEXT;
-- Whether it goes on although its parent was stopped: only the parent was to stop.
ALTER TABLE runs ADD COLUMN outlives INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN client_key TEXT NOT NULL DEFAULT '';
-- The run that was to answer the same message and did not.
ALTER TABLE runs ADD COLUMN rerun_of TEXT NOT NULL DEFAULT '';
-- The run that is to be shown its message, if that has another step.
ALTER TABLE runs ADD COLUMN steers TEXT NOT NULL DEFAULT '';
-- Whether runs of the conversation are told the instruction files of the project.
ALTER TABLE conversations ADD COLUMN project_files INTEGER NOT NULL DEFAULT 1;
-- The PATH of the client that sent the message.
ALTER TABLE runs ADD COLUMN search_path TEXT NOT NULL DEFAULT '';
-- The tool calls that were really made.
ALTER TABLE runs ADD COLUMN tool_uses INTEGER NOT NULL DEFAULT 0;

-- What was delivered, by which message of which run. `seq` is 0 while that message is queued, and where it is not known.
CREATE TABLE deliveries (
    item_id      TEXT    NOT NULL PRIMARY KEY,
    conversation INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    run_id       TEXT    NOT NULL,
    at           REAL    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_by_run ON deliveries (run_id);

-- What runs took that are not kept any more.
CREATE TABLE past_spend (
    root_agent   TEXT    NOT NULL,
    root_sender  TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    model        TEXT    NOT NULL,
    runs         INTEGER NOT NULL,
    prompt       INTEGER NOT NULL,
    completion   INTEGER NOT NULL,
    cache_hit    INTEGER NOT NULL,
    cache_miss   INTEGER NOT NULL,
    reasoning    INTEGER NOT NULL,
    cost         REAL    NOT NULL,
    PRIMARY KEY (root_agent, root_sender, agent, model)
) STRICT, WITHOUT ROWID;

-- What the trace of a parent tells of a run it spawned that is not kept any more. `number` is the run's;
-- those of an earlier version, which counted spawned runs apart, have none above 0.
CREATE TABLE past_runs (
    number        INTEGER NOT NULL PRIMARY KEY,
    id            TEXT    NOT NULL,
    parent_id     TEXT    NOT NULL,
    parent_call   TEXT    NOT NULL,
    agent         TEXT    NOT NULL,
    outcome       TEXT    NOT NULL,
    delivery      TEXT    NOT NULL,
    delivered_by  TEXT    NOT NULL,
    delivered_seq INTEGER NOT NULL,
    created_at    REAL    NOT NULL,
    ended_at      REAL    NOT NULL
) STRICT;
CREATE INDEX past_runs_of_parent ON past_runs (parent_id);

-- Of a run whose conversation was removed only the sums are left, and how it ended.
INSERT INTO past_runs
SELECT number - (SELECT max(number) FROM agent_runs), id, parent, call, agent, outcome, delivery, CASE delivery WHEN 'waited' THEN parent ELSE '' END, 0,
    created_at, ended_at FROM agent_runs
WHERE is_kept = 0 AND status <> 'spawned' AND parent IN (SELECT id FROM runs);
INSERT INTO past_spend
SELECT root_agent, root_sender, agent, '', count(*), 0, sum(tokens), 0, 0, 0, sum(cost) FROM agent_runs
WHERE is_kept = 0 OR (status <> 'spawned' AND started_at > 0
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = agent_runs.id))
GROUP BY root_agent, root_sender, agent;
DELETE FROM agent_runs
WHERE is_kept = 0 OR (status <> 'spawned' AND started_at > 0
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = agent_runs.id));

-- A run that has not begun, or ended before it did, had no conversation yet.
INSERT OR IGNORE INTO conversations (agent, sender, created_at, updated_at)
SELECT agent, sender, created_at, created_at FROM agent_runs ORDER BY number;

UPDATE runs SET
    kind = CASE WHEN spawned.parent = '' THEN 'background' ELSE 'teammate' END,
    root_id = CASE WHEN spawned.origin = '' THEN runs.id ELSE spawned.origin END,
    root_agent = CASE WHEN spawned.parent = '' THEN '' ELSE spawned.root_agent END,
    root_sender = CASE WHEN spawned.parent = '' THEN '' ELSE spawned.root_sender END,
    parent_id = spawned.parent, parent_call = spawned.call, parent_step = spawned.step,
    parent_seq = spawned.parent_seq, chain = spawned.chain, spawn_reason = spawned.spawn_reason,
    allowed_tools = nullif(spawned.allowed_tools, '[]'), outlives = spawned.outlives, client_key = spawned.client_key
FROM agent_runs AS spawned WHERE spawned.id = runs.id;

-- An end that was recorded on one side alone holds for both.
UPDATE runs SET status = 'ended', ended_at = spawned.ended_at, reply = spawned.result, outcome = spawned.outcome,
    error = spawned.error, hit_limit = spawned.hit_limit
FROM agent_runs AS spawned
WHERE spawned.id = runs.id AND spawned.status <> 'spawned' AND runs.status <> 'ended';

INSERT INTO runs (id, conversation, speaker, status, content, cwd, max_steps, max_seconds, max_tokens, max_spend,
    client_message_id, author, taint, root_id, created_at, started_at, ended_at, reply, outcome, error, hit_limit,
    completion, cost, steps, kind, root_agent, root_sender, parent_id, parent_call, parent_step, parent_seq, chain,
    spawn_reason, allowed_tools, outlives, client_key)
SELECT agent_runs.id, conversations.id, agent, CASE WHEN status = 'spawned' THEN 'queued' ELSE 'ended' END, instruction,
    agent_runs.cwd, max_steps, max_seconds, max_tokens, max_spend, '', '', taint,
    CASE WHEN origin = '' THEN agent_runs.id ELSE origin END, agent_runs.created_at, started_at, ended_at, result,
    outcome, error, hit_limit, tokens, cost, steps, CASE WHEN parent = '' THEN 'background' ELSE 'teammate' END,
    CASE WHEN parent = '' THEN '' ELSE root_agent END, CASE WHEN parent = '' THEN '' ELSE root_sender END, parent, call,
    step, parent_seq, chain, spawn_reason, nullif(allowed_tools, '[]'), outlives, client_key
FROM agent_runs JOIN conversations USING (agent, sender)
WHERE agent_runs.id NOT IN (SELECT id FROM runs) ORDER BY agent_runs.number;

-- A report names the runs it tells; where a wait told of one is not known exactly. Nobody wants those of no delivery.
INSERT INTO deliveries (item_id, conversation, seq, run_id, at)
SELECT spawned.id, conversations.id, coalesce(messages.id & 0xffffffff, 0),
    CASE spawned.delivery WHEN 'waited' THEN parent WHEN 'sent' THEN coalesce(messages.run_id, spawned.id) ELSE '' END,
    spawned.ended_at
FROM agent_runs AS spawned
JOIN conversations ON conversations.agent = root_agent AND conversations.sender = root_sender
LEFT JOIN messages ON delivery = 'sent' AND messages.id = (
    SELECT min(told.id) FROM messages AS told
    WHERE told.id BETWEEN (conversations.id << 32) AND (conversations.id << 32) + 0xffffffff
    AND told.role = 'user' AND told.agent <> '' AND instr(told.content, '(' || spawned.id || ') has ended: ') > 0)
WHERE delivery <> 'owed' AND parent <> '';

DROP TABLE agent_runs;

DROP INDEX runs_of_origin;
DROP INDEX runs_not_ended;
-- Also for one conversation, which may have many runs that have ended.
CREATE INDEX runs_not_ended ON runs (status, conversation) WHERE status <> 'ended';
DROP INDEX runs_turns_by_end;
-- Of a tree, those below its top: the top has no entry here, and is found by its id.
CREATE INDEX runs_of_root ON runs (root_id) WHERE root_id <> id;
CREATE INDEX runs_of_parent ON runs (parent_id) WHERE parent_id <> '';
CREATE INDEX runs_of_root_conversation ON runs (root_agent, root_sender) WHERE root_agent <> '';
-- A call that is made again after a restart finds what it spawned the first time, and a start made again its run.
CREATE UNIQUE INDEX runs_by_call ON runs (parent_id, parent_call) WHERE parent_call <> '';
CREATE UNIQUE INDEX runs_by_client_key ON runs (client_key) WHERE client_key <> '';
CREATE INDEX runs_by_end ON runs (ended_at) WHERE status = 'ended';
-- The run that a conversation was made for, however many turns it has.
CREATE INDEX runs_spawned_of_conversation ON runs (conversation) WHERE kind <> 'turn';
-- What is let go of after a while.
CREATE INDEX runs_spawned_by_end ON runs (ended_at) WHERE status = 'ended' AND kind <> 'turn';

-- Until when the owner has seen what traces report as failed: the doctor does not report it again.
CREATE TABLE acknowledged (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at REAL    NOT NULL
) STRICT;
INSERT INTO acknowledged VALUES (1, 0.0);

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

-- The daemons that are alive, as far as this store knows. A number is never used again.
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT
) STRICT;

-- Which node writes a conversation, 0 for none yet; the epoch goes up each time another one claims it.
ALTER TABLE conversations ADD COLUMN node INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
-- The epoch under which the run was queued, begun or taken over: it writes only while that is the current one.
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;

-- What MCP servers say of their tools, as the owner approved or denied it: `text` is what models are told. The pins of
-- 0.1.0 are dropped: their texts were accepted without having been shown to anybody.
DROP TABLE mcp_pins;
CREATE TABLE mcp_decisions (
    server     TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    approved   INTEGER NOT NULL,
    decided_at REAL    NOT NULL,
    PRIMARY KEY (server, tool, digest)
) STRICT, WITHOUT ROWID;

-- A revoked token stays, so that a later one of its name is not given its sender, and with it its conversations.
CREATE TABLE tokens_with_senders (
    digest       TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    sender       TEXT NOT NULL,
    senders      BLOB NOT NULL,
    created_at   REAL NOT NULL,
    last_used_at REAL NOT NULL,
    revoked_at   REAL NOT NULL,
    -- Whether it may decide approvals of its senders' conversations.
    may_approve  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO tokens_with_senders (digest, name, sender, senders, created_at, last_used_at, revoked_at)
SELECT digest, name, name, senders, created_at, last_used_at, revoked_at FROM tokens;
DROP TABLE tokens;
ALTER TABLE tokens_with_senders RENAME TO tokens;
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at = 0;
CREATE INDEX tokens_by_sender ON tokens (sender);

-- A secret belongs to the sender in whose conversation it was stored; `user` for those the owner has set. The scope is
-- JSON: which agents, senders, tools and hosts may use it.
CREATE TABLE owned_secrets (
    owner        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    sealed       BLOB    NOT NULL,
    scope        TEXT    NOT NULL DEFAULT '{}',
    created_at   REAL    NOT NULL,
    updated_at   REAL    NOT NULL,
    uses         INTEGER NOT NULL DEFAULT 0,
    used_at      REAL    NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, name)
) STRICT;
INSERT INTO owned_secrets (owner, name, sealed, created_at, updated_at, uses, used_at)
SELECT 'user', name, sealed, created_at, updated_at, uses, used_at FROM secrets;
DROP TABLE secrets;
ALTER TABLE owned_secrets RENAME TO secrets;
ALTER TABLE secret_uses ADD COLUMN owner TEXT NOT NULL DEFAULT 'user';

-- What makes the ids of this store's goals different from those of other stores.
CREATE TABLE store_identity (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO store_identity VALUES (1, random() & 0xfffffffffffffff);

-- Messages between agents, each for one goal. One is read once `deliveries` has its id; `evicted_at` is 0 unless it was
-- dropped unread because too many others came after it.
CREATE TABLE mail (
    number         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT    NOT NULL UNIQUE,
    conversation   INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    from_agent     TEXT    NOT NULL,
    from_goal      TEXT    NOT NULL,
    body           TEXT    NOT NULL,
    sent_at        REAL    NOT NULL,
    correlation_id TEXT    NOT NULL,
    thread         TEXT    NOT NULL,
    hops           INTEGER NOT NULL,
    taint          TEXT    NOT NULL,
    evicted_at     REAL    NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX mail_of_conversation ON mail (conversation, number) WHERE evicted_at = 0;
CREATE INDEX mail_of_thread ON mail (thread);
CREATE INDEX mail_evicted ON mail (evicted_at) WHERE evicted_at > 0;
-- Agents that mail starts no runs of.
CREATE INDEX mail_by_correlation ON mail (correlation_id) WHERE correlation_id <> '';

CREATE TABLE muted_agents (
    agent    TEXT NOT NULL PRIMARY KEY,
    muted_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
-- Mail for goals of other stores, and notices about mail from there. A row is deleted once the receiving daemon has stored
-- it; until then it can be published again. `content` is the mail; a row with `failed_at` was given back and waits for
-- nobody. `conversation` is the one of this store that the mail is from or for, 0 if there is none.
CREATE TABLE outbox (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT    NOT NULL UNIQUE,
    goal_id      TEXT    NOT NULL,
    store        INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    notice       TEXT    NOT NULL DEFAULT '',
    reason       TEXT    NOT NULL DEFAULT '',
    stream       TEXT    NOT NULL DEFAULT '',
    sequence     INTEGER NOT NULL DEFAULT 0,
    failed_at    REAL    NOT NULL DEFAULT 0,
    -- Last, so that the others are read without it: it may be long.
    content      TEXT    NOT NULL
) STRICT;
-- Most items are received and deleted before their place in the stream is stored.
CREATE INDEX outbox_of_store ON outbox (store, stream, sequence) WHERE failed_at = 0 AND stream <> '';
CREATE INDEX outbox_failed ON outbox (failed_at) WHERE failed_at > 0;
-- Bridge messages to goals of other stores: responses must match them when the outbox has them no longer. `content` is the
-- mail, `conversation` that of its sender.
CREATE TABLE sent_bridges (
    id             TEXT    NOT NULL PRIMARY KEY,
    conversation   INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    correlation_id TEXT    NOT NULL,
    content        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sent_bridges_by_correlation ON sent_bridges (correlation_id);
CREATE INDEX sent_bridges_of_conversation ON sent_bridges (conversation);
-- How far this store has received what the broker keeps for it.
CREATE TABLE inbox_position (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    stream   TEXT    NOT NULL,
    sequence INTEGER NOT NULL
) STRICT;
-- Daemons that were announced, with the key that each is recognised by.
CREATE TABLE known_daemons (
    name       TEXT    NOT NULL PRIMARY KEY,
    key        TEXT    NOT NULL,
    store      INTEGER NOT NULL,
    first_seen REAL    NOT NULL,
    last_seen  REAL    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_of_agent ON conversations (agent, updated_at);

-- Runs of workflows. `start_key` is the start that made it, so that it is not made twice; `node` is the daemon that works
-- on it. The states of its steps are those of the runs of their attempts.
CREATE TABLE workflows (
    id            TEXT    NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    source        TEXT    NOT NULL,
    owner         TEXT    NOT NULL,
    origin_agent  TEXT    NOT NULL DEFAULT '',
    origin_sender TEXT    NOT NULL DEFAULT '',
    start_key     TEXT    NOT NULL DEFAULT '',
    cwd           TEXT    NOT NULL DEFAULT '',
    search_path   TEXT    NOT NULL DEFAULT '',
    taint         TEXT    NOT NULL DEFAULT '',
    created_at    REAL    NOT NULL,
    cancelled_at  REAL    NOT NULL DEFAULT 0,
    ended_at      REAL    NOT NULL DEFAULT 0,
    status        TEXT    NOT NULL DEFAULT 'running',
    error         TEXT    NOT NULL DEFAULT '',
    node          INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX workflows_by_start ON workflows (start_key) WHERE start_key <> '';
CREATE INDEX workflows_unfinished ON workflows (id) WHERE ended_at = 0;
CREATE INDEX workflows_of_origin ON workflows (origin_agent, origin_sender) WHERE origin_agent <> '';
-- Attempts at steps, each written before its run is: the row decides that the attempt is made once.
CREATE TABLE workflow_attempts (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow TEXT    NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    step     TEXT    NOT NULL,
    attempt  INTEGER NOT NULL,
    run_id   TEXT    NOT NULL UNIQUE,
    UNIQUE (workflow, step, attempt)
) STRICT;
-- Results for conversations. One is delivered once `deliveries` has its id. `step` is empty for the whole workflow.
CREATE TABLE workflow_reports (
    id       TEXT NOT NULL PRIMARY KEY,
    workflow TEXT NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    agent    TEXT NOT NULL,
    sender   TEXT NOT NULL,
    step     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX workflow_reports_of_workflow ON workflow_reports (workflow);
CREATE INDEX workflow_reports_of_conversation ON workflow_reports (agent, sender);
-- The knowledge graph. Each owner, which is a sender, has its own.
-- Types and predicates: a row for each change; the newest one with a name is its current state.
CREATE TABLE graph_terms (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    owner        TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    is_exclusive INTEGER NOT NULL,
    reason       TEXT    NOT NULL,
    changed_at   REAL    NOT NULL,
    taint        TEXT    NOT NULL
) STRICT;
CREATE INDEX graph_terms_by_name ON graph_terms (owner, kind, name, number);
-- `parent` is the entity that this one was merged into, 0 for none; `root` the last of that chain, at first itself.
CREATE TABLE graph_entities (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    owner        TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    root         INTEGER NOT NULL,
    parent       INTEGER NOT NULL DEFAULT 0,
    merge_reason TEXT    NOT NULL DEFAULT '',
    merge_taint  TEXT    NOT NULL DEFAULT '',
    created_at   REAL    NOT NULL,
    taint        TEXT    NOT NULL,
    UNIQUE (owner, id)
) STRICT;
CREATE INDEX graph_entities_of_root ON graph_entities (root);
CREATE INDEX graph_entities_of_type ON graph_entities (owner, type);
CREATE TABLE graph_properties (
    entity INTEGER NOT NULL REFERENCES graph_entities (number) ON DELETE CASCADE,
    name   TEXT    NOT NULL,
    value  TEXT    NOT NULL,
    taint  TEXT    NOT NULL,
    PRIMARY KEY (entity, name)
) STRICT, WITHOUT ROWID;
-- Subject and object are the entities that the fact was asserted with, before any merge. A fact without `valid_from` or
-- `valid_to` is true without a beginning or an end; `retracted_at` is 0 unless it was retracted.
CREATE TABLE graph_facts (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    owner        TEXT    NOT NULL,
    subject      INTEGER NOT NULL REFERENCES graph_entities (number) ON DELETE CASCADE,
    predicate    TEXT    NOT NULL,
    object       INTEGER NOT NULL REFERENCES graph_entities (number) ON DELETE CASCADE,
    confidence   REAL    NOT NULL,
    source       TEXT    NOT NULL,
    valid_from   REAL,
    valid_to     REAL,
    recorded_at  REAL    NOT NULL,
    retracted_at REAL    NOT NULL DEFAULT 0,
    is_wrong     INTEGER NOT NULL DEFAULT 0,
    reason       TEXT    NOT NULL DEFAULT '',
    run_id       TEXT    NOT NULL,
    taint        TEXT    NOT NULL
) STRICT;
CREATE INDEX graph_facts_of_subject ON graph_facts (subject, predicate, object);
CREATE INDEX graph_facts_of_object ON graph_facts (object, predicate);
CREATE INDEX graph_facts_of_predicate ON graph_facts (owner, predicate);
CREATE INDEX graph_facts_in_order ON graph_facts (owner);
-- Schedules. `agent` and `sender` are the conversation that asked for the job and gets its results, `runs_as` the agent
-- that is given the prompt. `workflow` is the text of a workflow, instead of a prompt. `next_at` is NULL if it will not
-- fire.
CREATE TABLE cron_jobs (
    id            TEXT    NOT NULL PRIMARY KEY,
    agent         TEXT    NOT NULL,
    sender        TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    runs_as       TEXT    NOT NULL,
    prompt        TEXT    NOT NULL,
    workflow      TEXT    NOT NULL,
    schedule_kind TEXT    NOT NULL,
    schedule      TEXT    NOT NULL,
    zone          TEXT    NOT NULL,
    conversation_mode  TEXT    NOT NULL,
    missed        TEXT    NOT NULL,
    delivers      INTEGER NOT NULL,
    timeout       REAL,
    cwd           TEXT    NOT NULL,
    search_path   TEXT    NOT NULL,
    taint         TEXT    NOT NULL,
    created_at    REAL    NOT NULL,
    updated_at    REAL    NOT NULL,
    paused        INTEGER NOT NULL,
    next_at       REAL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX cron_jobs_by_name ON cron_jobs (agent, sender, name);
CREATE INDEX cron_jobs_due ON cron_jobs (next_at) WHERE next_at IS NOT NULL AND paused = 0;

-- The firings of jobs. There is one for an instant of a job, so that no firing has two runs. `run_id` is empty if it was
-- skipped.
CREATE TABLE cron_firings (
    job_id   TEXT    NOT NULL REFERENCES cron_jobs (id) ON DELETE CASCADE,
    due_at   REAL    NOT NULL,
    fired_at REAL    NOT NULL,
    run_id   TEXT    NOT NULL,
    skipped  TEXT    NOT NULL,
    manual   INTEGER NOT NULL,
    PRIMARY KEY (job_id, due_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX cron_firings_by_run ON cron_firings (run_id) WHERE run_id <> '';
CREATE INDEX cron_firings_by_time ON cron_firings (fired_at);

-- Knowledge and learnings belong to an owner, which is a sender. Those of 0.1.0, which nothing read, had none and are
-- dropped.
DROP TABLE knowledge;
-- Each version of a key. Search finds those that are `current`: the newest of what was saved, and all results of tools.
-- `agent` is the only one that finds a result; `origin_…` is the conversation that it is deleted with.
CREATE TABLE knowledge (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    owner         TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    category      TEXT    NOT NULL,
    content       TEXT    NOT NULL,
    tags          TEXT    NOT NULL,
    source        TEXT    NOT NULL,
    source_class  TEXT    NOT NULL,
    asset_label   TEXT    NOT NULL,
    taint         TEXT    NOT NULL,
    created_at    REAL    NOT NULL,
    agent         TEXT    NOT NULL,
    current       INTEGER NOT NULL,
    origin_agent  TEXT    NOT NULL,
    origin_sender TEXT    NOT NULL,
    UNIQUE (owner, key, version)
) STRICT;
CREATE INDEX knowledge_of_origin ON knowledge (origin_agent, origin_sender) WHERE origin_agent <> '';
CREATE INDEX knowledge_current ON knowledge (owner, agent) WHERE current;
-- `owner` is one word for the owner, and for the agent of a result: a search is over one reader's rows from the start.
CREATE VIRTUAL TABLE knowledge_index USING fts5 (
    owner, key, content, tags, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
DROP TABLE learnings;
CREATE TABLE learnings (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT    NOT NULL UNIQUE,
    owner         TEXT    NOT NULL,
    trigger       TEXT    NOT NULL,
    error_pattern TEXT    NOT NULL,
    diagnosis     TEXT    NOT NULL,
    fix           TEXT    NOT NULL,
    category      TEXT    NOT NULL,
    confidence    REAL    NOT NULL,
    occurrences   INTEGER NOT NULL,
    taint         TEXT    NOT NULL,
    created_at    REAL    NOT NULL,
    updated_at    REAL    NOT NULL,
    origin_agent  TEXT    NOT NULL,
    origin_sender TEXT    NOT NULL,
    UNIQUE (owner, trigger, error_pattern)
) STRICT;
CREATE INDEX learnings_of_owner ON learnings (owner, id);
CREATE INDEX learnings_of_origin ON learnings (origin_agent, origin_sender) WHERE origin_agent <> '';
CREATE VIRTUAL TABLE learning_index USING fts5 (
    owner, key, content, tags, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
-- The sender that the call was made for.
ALTER TABLE tool_audit ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX tool_audit_of_owner ON tool_audit (owner, tool);
CREATE INDEX tool_audit_by_time ON tool_audit (at);

-- Questions of the librarian. One is given to one run to ask, `asked_run`; `asked_seq` is the newest message then.
CREATE TABLE inquiries (
    id          TEXT    NOT NULL PRIMARY KEY,
    agent       TEXT    NOT NULL,
    sender      TEXT    NOT NULL,
    topic       TEXT    NOT NULL,
    question    TEXT    NOT NULL,
    context     TEXT    NOT NULL,
    priority    TEXT    NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('pending', 'resolved', 'dismissed')),
    taint       TEXT    NOT NULL,
    created_at  REAL    NOT NULL,
    asked_at    REAL    NOT NULL DEFAULT 0,
    asked_run   TEXT    NOT NULL DEFAULT '',
    asked_seq   INTEGER NOT NULL DEFAULT 0,
    answer      TEXT    NOT NULL DEFAULT '',
    closed_at   REAL    NOT NULL DEFAULT 0,
    fingerprint TEXT    NOT NULL,
    -- Its topic in the same form.
    subject     TEXT    NOT NULL,
    UNIQUE (sender, fingerprint)
) STRICT, WITHOUT ROWID;
CREATE INDEX inquiries_of_conversation ON inquiries (agent, sender);
-- How far each conversation was analysed for what is not known.
CREATE TABLE librarian_progress (
    conversation INTEGER NOT NULL PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
    analysed_seq INTEGER NOT NULL
) STRICT;
