"""What every store promises of lists: their order, where they are cut, and whose they are."""

from moot.domain.conversation import ConversationKey
from moot.domain.message import assistant
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.senders import SenderSet
from tests.contracts.store_kit import stored
from tests.unit.shelves import ADA, ADA_WITH_EVE, teammate_run


async def turn(store: Store, run_id: str, key: ConversationKey = ADA, *, at: float, text: str = "go") -> None:
    await store.begin(RunRequest(id=run_id, key=key, speaker=key.agent, content=text), now=at)
    await store.end(key, run_id, RunEnd(outcome=Outcome.COMPLETED, content=text), [assistant(text)], now=at + 1)


async def ended_teammate(store: Store, run_id: str, *, at: float) -> None:
    run = teammate_run(run_id, at=at)
    await store.spawn(run)
    await store.begin(run.request, now=at)
    await store.end(run.key, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant("done")], now=at + 1)


@stored
async def test_the_turns_that_ended_last_come_first_and_their_texts_are_cut(store: Store) -> None:
    await turn(store, "run-1", at=1.0, text="x" * 10_000)
    await turn(store, "run-2", ADA_WITH_EVE, at=5.0)
    await turn(store, "run-3", at=3.0)
    await ended_teammate(store, "arun-1", at=9.0)
    await store.begin(RunRequest(id="run-4", key=ADA, speaker="ada", content="goes on"), now=9.0)
    found = await store.list_ended_runs(SenderSet(is_everyone=True), limit=10)
    assert [run.id for run in found] == ["arun-1", "run-2", "run-3", "run-1"]
    assert [run.id for run in await store.list_ended_runs(SenderSet(is_everyone=True), limit=2)] == ["arun-1", "run-2"]
    # A teammate's is found with the sender it works for.
    assert [run.id for run in await store.list_ended_runs(SenderSet(names=("user",)), limit=2)] == ["arun-1", "run-3"]
    assert await store.list_ended_runs(SenderSet(), limit=2) == []
    # Those of one kind of conversation are found behind any number of others.
    tasks = [ConversationKey("ada", f"bg:arun-{number}:user") for number in (7, 8)]
    for number, key in enumerate(tasks):
        await turn(store, f"task-{number}", key, at=0.5 + number / 10)
    for owner, expected in (("user", ["task-1", "task-0"]), ("eve", [])):
        own = await store.list_ended_runs(SenderSet(names=(owner,)), prefix="bg:", limit=5)
        assert [run.id for run in own] == expected
    oldest = found[-1]
    assert oldest.end is not None
    assert 4_000 < len(oldest.request.content) < 5_000
    assert 4_000 < len(oldest.end.content) < 5_000


@stored
async def test_a_page_of_conversations_goes_on_where_the_one_before_ended(store: Store) -> None:
    for number in range(5):
        await turn(store, f"run-{number}", ConversationKey("ada", str(number)), at=float(number // 2))
    whole = await store.list_conversations()
    first = await store.list_conversations(limit=2)
    rest = await store.list_conversations(after=first[-1].place)
    assert [each.key.sender for each in whole] == ["4", "3", "2", "1", "0"]
    assert [*first, *rest] == whole
    assert await store.list_conversations(after=whole[-1].place) == []
