"""Handler that undoes and redoes changes of files. Works with tools/files/change_log."""

from collections.abc import Callable

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.conversation import ConversationKey
from moot.domain.text import clean
from moot.tools.files.change_log import ChangeLog
from moot.tools.files.file_change import FileChange, UndoRequest
from moot.tools.files.off_limits import OffLimits
from moot.tools.threads import run_in_thread
from moot.wire import moot_pb2 as pb

_SHOWN = 200_000
_SHOWN_PATHS = 1_000


class UndoRequests:
    def __init__(
        self, *, changes: ChangeLog, off_limits: Callable[[], OffLimits], redact: Callable[[str], str]
    ) -> None:
        self._changes = changes
        self._off_limits = off_limits
        self._redact = redact

    async def undo(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("undo changes of files")
        request = message.undo
        wanted = UndoRequest(
            key=ConversationKey(request.agent, principal.sender(request.sender)) if request.agent else None,
            run_id=request.run_id,
            is_redo=request.redo,
            is_forced=request.force,
            is_dry=request.dry_run,
        )
        change, diff = await run_in_thread(self._move, wanted)
        undone = pb.Undone(
            number=change.number,
            agent=change.agent,
            sender=change.sender,
            run_id=change.run_id,
            tool=change.tool,
            at=change.at,
            cwd=clean(change.cwd),
            paths=[clean(each.path) for each in change.paths[:_SHOWN_PATHS]],
            diff=diff,
            dry_run=request.dry_run,
            by=change.by or change.agent,
        )
        reply.send(pb.ServerMessage(undone=undone))

    def _move(self, wanted: UndoRequest) -> tuple[FileChange, str]:
        moved = self._changes.move(wanted, self._off_limits())
        # Secrets are removed first: a cut in the middle of one would leave half of it.
        diff = clean(self._redact(moved.diff))
        more = len(diff) - _SHOWN
        return moved.change, diff if more <= 0 else f"{diff[:_SHOWN]}\n… {more} more characters"
