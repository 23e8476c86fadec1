"""Named points in the life of a turn where a test can have this process killed. Nothing happens unless it asks.

MOOT_FAIL_AT=NAME, or NAME:COUNT, kills the process with SIGKILL when it passes the point, or passes it for the
COUNT-th time. The variable is read once, so that a point costs a call and nothing more where it is not set.
"""

import os
import signal
from itertools import count

# Writes of the store: each can be killed with its work done and not committed, and committed but not told.
WRITES = (
    "begin", "append", "end", "enqueue", "rerun", "archive", "title", "cwd", "delete", "part", "import",
)  # fmt: skip

# Those of a team, and of calls that ask their owner.
TEAM_WRITES = ("spawn", "ask", "answer", "decide", "use")

TEAM_POINTS = (
    *(f"commit.{write}" for write in TEAM_WRITES),
    *(f"committed.{write}" for write in TEAM_WRITES),
    "teammate.spawned",
    "teammate.begun",
    "teammate.halted",
    "teammate.ended",
    "teammate.delivered",
    "teammate.interrupted",
    "teammates.recovered",
)

POINTS = (
    *(f"commit.{write}" for write in WRITES),
    *(f"committed.{write}" for write in WRITES),
    "checkpoint.before",
    "checkpoint.after",
    "migration.kept",
    "migration.applied",
    "migration.committed",
    "backup.copied",
    "daemon.recovered",
    "daemon.resumed",
    "daemon.listening",
    "submit.received",
    "queued.before",
    "queued.sent",
    "withdrawn.recorded",
    "start.before",
    "start.sent",
    "model.call",
    "model.chunk",
    "model.replied",
    "tool.recorded",
    "tool.before",
    "tool.after",
    "tool.result",
    "tools.completed",
    "ask.opened",
    "ask.answered",
    "kill.halted",
    "compaction.summarised",
    "compaction.archived",
    "end.before",
    "end.recorded",
    "end.sent",
    "drain.begun",
    "drain.halted",
    "drain.done",
    *TEAM_POINTS,
)

# Points that only a change of several files, or a restore, passes.
FILE_POINTS = ("files.changing", "restore.staged", "restore.planned", "restore.moved", "restore.exchanged")

# Points that only a run passes that is shown a message while it is active.
STEER_POINTS = ("steer.taken", "steer.recorded")

# Points that only mail between agents passes.
PEER_POINTS = (
    *(f"{when}.{write}" for when in ("commit", "committed") for write in ("mail", "outbox", "settled", "receipt")),
    "mail.shown",
    "mail.waking",
    "relay.published",
    "receipt.stored",
)

# Points that only workflows pass.
WORKFLOW_POINTS = (
    "commit.workflow",
    "committed.workflow",
    "workflow.created",
    "workflow.intended",
    "workflow.started",
    "workflow.stepped",
    "workflow.ended",
    "workflow.reported",
    "workflow.cancelled",
)
# Points that only changes of the knowledge graph pass.
GRAPH_POINTS = ("commit.graph", "committed.graph")
# Points that only the index of documents passes.
DOCUMENT_POINTS = ("documents.parsed", "commit.documents", "committed.documents", "documents.stored")
# Points that only changes of knowledge and learnings pass.
KNOWLEDGE_WRITES = ("knowledge", "learning", "inquiry")
KNOWLEDGE_POINTS = tuple(f"{when}.{write}" for write in KNOWLEDGE_WRITES for when in ("commit", "committed"))
# Points that only a scheduled job passes.
CRON_POINTS = ("cron.due", "commit.fire", "committed.fire", "cron.fired", "cron.started")


def _setting(text: str) -> tuple[str, int]:
    name, _, passes = text.partition(":")
    rare = (*FILE_POINTS, *PEER_POINTS, *STEER_POINTS, *GRAPH_POINTS, *CRON_POINTS, *WORKFLOW_POINTS, *KNOWLEDGE_POINTS)
    rare = (*rare, *DOCUMENT_POINTS)
    if name and name not in (*POINTS, *rare):
        raise ValueError(f"MOOT_FAIL_AT: there is no point {name!r}; src/moot/failpoint.py names them all")
    return name, int(passes or 1)


_name, _fatal_pass = _setting(os.environ.get("MOOT_FAIL_AT", ""))
_passes = count(1)


def reach(point: str, of: str = "") -> None:
    """Say that the process has come to this point; `of` completes the name where one line serves several."""
    if _name:
        _kill_at(f"{point}.{of}" if of else point)


def _kill_at(point: str) -> None:
    if point == _name and next(_passes) == _fatal_pass:
        os.kill(os.getpid(), signal.SIGKILL)
