"""Mail is shown in its order, also if a run that begins with some of it waits behind another run."""

from pathlib import Path

from moot.daemon.clock import SystemClock
from moot.domain.mail import MAIL_AUTHOR, Mail, render_mail
from moot.domain.run import RunRequest
from moot.engine.mailboxes import Mailboxes
from moot.store.memory.storage import open_memory_storage
from tests.contracts.store_kit import DONE, KEY, request
from tests.unit.engine.engine_kit import engine
from tests.unit.shelves import ADA


def make_mail(goal_id: str, number: int) -> Mail:
    return Mail(
        id=f"mail-{number}",
        goal_id=goal_id,
        from_agent="bob",
        from_goal="",
        to_agent="ada",
        body=f"message {number}",
        sent_at=0.0,
    )


async def test_mail_that_follows_what_another_run_is_about_to_show_waits() -> None:
    storage = await open_memory_storage(SystemClock())
    await storage.store.begin(request("run-1", "hi", KEY), now=0.0)
    await storage.store.end(KEY, "run-1", DONE, [], now=0.0)
    goal = await storage.mail.find_goal_of(KEY)
    assert goal is not None
    first, second = make_mail(goal.id, 1), make_mail(goal.id, 2)
    mailboxes = Mailboxes(storage.mail)
    await storage.mail.send([first], now=0.0)
    assert await mailboxes.collect(KEY, "run-waking") == [first]
    await storage.mail.send([second], now=0.0)
    mailboxes.add(KEY)
    assert await mailboxes.collect(KEY, "run-other") == []
    assert mailboxes.may_have_mail(KEY)
    assert await mailboxes.collect(KEY, "run-waking") == [second]
    mailboxes.release(KEY, "run-waking")
    assert await mailboxes.collect(KEY, "run-other") == [first, second]


async def test_an_active_run_leaves_mail_to_the_queued_run_that_begins_with_earlier_mail(tmp_path: Path) -> None:
    async with engine(tmp_path) as one:
        await one.say("hello", "run-0")
        one.disk.appends.clear()
        one.disk.append_asked.clear()
        active = one.start("act", "run-1")
        await one.disk.append_asked.wait()
        goal = await one.mail.find_goal_of(ADA)
        assert goal is not None
        first, second = make_mail(goal.id, 1), make_mail(goal.id, 2)
        await one.mail.send([first], now=0.0)
        waking = RunRequest(
            id="run-2",
            key=ADA,
            speaker="ada",
            content=render_mail([first]),
            author=MAIL_AUTHOR,
            delivers=(first.id,),
        )
        stream = await one.runs.submit(waking)
        await one.mail.send([second], now=0.0)
        one.mailboxes.add(ADA)
        one.disk.appends.set()
        await active
        await stream.wait_end()
        entries = await one.store.list_entries(ADA)
    shown = [entry.message.content for entry in entries if entry.message.agent == MAIL_AUTHOR]
    assert shown == [render_mail([first]), render_mail([second])]
