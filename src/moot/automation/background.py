"""BackgroundTasks: background runs as an agent submits them for its conversation. They are those of `moot run --bg`.

Works with multiagent/teammates, which executes them and delivers their results. Used by bg_tools.
"""

from msgspec import Struct

from moot.automation.owners import find_owner, find_run_owner
from moot.domain.agent import ROOT
from moot.domain.approval import digest
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import JobDelivery
from moot.domain.errors import Busy, NotFound
from moot.domain.ports.store import Store
from moot.domain.ports.tool import RunContext
from moot.domain.run import Run, RunKind
from moot.domain.run_view import RunView
from moot.domain.senders import BACKGROUND_SENDER, SenderSet
from moot.engine.run_results import load_result, load_results
from moot.multiagent.peers.mail_causes import MailCauses
from moot.multiagent.teammates.run_factory import SpawnRequest
from moot.multiagent.teammates.teammates import Teammates

# Unfinished tasks of one conversation, so that tasks which submit others come to an end.
MOST_UNFINISHED = 20
# How many ended tasks of the sender are looked through, and how many of them are shown.
_READ_ENDED = 500
_SHOWN_ENDED = 50


class BackgroundTasks(Struct, frozen=True, kw_only=True):
    teammates: Teammates
    store: Store
    causes: MailCauses

    async def submit(self, context: RunContext, agent: str, prompt: str, delivery: JobDelivery) -> RunView:
        """Start a background run for the conversation of a run. The same call starts it once."""
        owner = find_owner(context)
        call = f"{context.run_id}/{context.call_id}"
        # The one that this very call has started before does not count.
        own = digest(owner.sender, call)
        others = [run for run in await self._list_unfinished(owner) if run.spawn.client_key != own]
        if len(others) >= MOST_UNFINISHED:
            raise Busy(f"{MOST_UNFINISHED} background tasks have not ended", fix="Wait for some, or cancel them.")
        request = SpawnRequest(
            agent=agent,
            instruction=prompt,
            reason="Background task",
            search_path=context.search_path,
            root=owner if delivery is not JobDelivery.NOWHERE else None,
            report_to=ROOT if delivery is JobDelivery.OWNER else "",
            taint=context.taint,
            cause=await self.causes.trace(context),
        )
        return await self.teammates.start(request, owner=owner.sender, cwd=context.cwd, client_message_id=call)

    async def find(self, owner: ConversationKey, task_id: str) -> RunView:
        """Return a task of an owner. Those of others do not exist for it."""
        view = self.teammates.find_live(task_id)
        if view is None:
            run = await self.store.get_run(task_id)
            view = RunView(await load_result(self.store, run)) if run is not None else None
        if view is None or not _is_task_of(view.run, owner):
            raise NotFound(f"there is no background task {task_id!r}", fix="See bg_list.")
        return view

    async def list_tasks(self, owner: ConversationKey) -> list[RunView]:
        """Return the tasks of an owner, newest first: all that have not ended, and the last that have."""
        live = [self._find_view(run) for run in await self._list_unfinished(owner)]
        known = {view.id for view in live}
        senders = SenderSet(names=(owner.sender,))
        ended = await self.store.list_ended_runs(senders, prefix=BACKGROUND_SENDER, limit=_READ_ENDED)
        over = [run for run in ended if _is_task_of(run, owner) and run.id not in known][:_SHOWN_ENDED]
        done = map(RunView, await load_results(self.store, over))
        return sorted([*live, *done], key=lambda view: view.run.created_at, reverse=True)

    async def cancel(self, owner: ConversationKey, task_id: str) -> RunView:
        return await self.teammates.stop((await self.find(owner, task_id)).id)

    async def _list_unfinished(self, owner: ConversationKey) -> list[Run]:
        stored = [owned.run for owned in await self.store.list_live_runs()]
        return [run for run in stored if _is_task_of(run, owner)]

    def _find_view(self, run: Run) -> RunView:
        return self.teammates.find_live(run.id) or RunView(run)


def _is_task_of(run: Run, owner: ConversationKey) -> bool:
    is_task = run.kind is RunKind.BACKGROUND and run.key.sender.startswith(BACKGROUND_SENDER)
    return is_task and find_run_owner(run) == owner
