"""MailCauses: what mail led to a run, which the mail that it sends inherits, and every run that it starts.

Used by peer_tools.py, and by the tools of automation/ that start runs, so that the budgets of wakes.py hold for all.
"""

from moot.domain.mail import MAIL_AUTHOR
from moot.domain.ports.mail import MailStore
from moot.domain.ports.store import Store
from moot.domain.ports.tool import RunContext
from moot.domain.run import MailCause


class MailCauses:
    def __init__(self, *, mail: MailStore, store: Store) -> None:
        self._mail = mail
        self._store = store

    async def trace(self, context: RunContext) -> MailCause:
        """Return the cause of what a run sends or starts. A run of a person begins a thread."""
        run_id = context.root_id or context.run_id
        run = await self._store.get_run(run_id)
        if run is not None and run.request.author == MAIL_AUTHOR:
            shown = await self._mail.list_shown_by(run_id)
            return MailCause(shown[0].thread, max(mail.hops for mail in shown) + 1)
        return run.request.cause if run is not None and run.request.cause.thread else MailCause(run_id)
