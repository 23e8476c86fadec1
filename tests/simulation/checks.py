"""What must hold of the database whenever a simulated daemon is gone, and at the end. Used by scenario.py."""

import json
from collections import Counter
from collections.abc import Iterator

from moot.domain.approval import Decision
from moot.domain.ask import AskState
from moot.domain.message import Message, Role
from moot.domain.run import Delivery, RunKind
from moot.domain.trace import TraceKind
from moot.multiagent.traces.timeline import timeline
from moot.store.memory import accounts, found_runs, traces
from moot.store.memory.database import Database, RunRow
from tests.simulation.scenario import Scenario, Sent, Violation

_OPEN = (AskState.PENDING, AskState.GRANTED)


def check_told(scenario: Scenario) -> None:
    """What clients were told is true, and the rows are sound."""
    database = scenario.world.database
    database.transact(lambda db: _raise_any(_list_untrue(db, scenario)))


def check_end(scenario: Scenario) -> None:
    """Nothing is left open once everything has come to an end."""
    database = scenario.world.database
    database.transact(lambda db: _raise_any(_list_left(db)))
    database.transact(lambda db: _raise_any(_list_disorder(db)))


def _raise_any(found: Iterator[str]) -> None:
    if problems := list(found):
        raise Violation("; ".join(problems))


def _list_untrue(db: Database, scenario: Scenario) -> Iterator[str]:
    told = scenario.told
    yield from told.untrue
    yield from accounts.check(db)
    for sent in told.sent:
        yield from _check_message(db, sent)
    yield from _check_imported(db, scenario)
    yield from _check_notes(db)
    for run_id, (key, end) in told.ends.items():
        row = db.runs.get(run_id)
        if row is None and key in scenario.records.deleted:
            continue
        if row is None or row.end is None:
            yield f"{run_id} was told as ended ({end.outcome}) and is not"
        elif row.end.outcome is not end.outcome:
            yield f"{run_id} was told as {end.outcome} and is stored as {row.end.outcome}"
    for ask_id, answer in told.answers.items():
        asked = db.asks.get(ask_id)
        if asked is None:
            yield from _check_gone(db, scenario, ask_id)
            continue
        ask = asked.ask
        if (ask.state, ask.answer) != (AskState.ANSWERED, answer):
            yield f"{ask_id} was answered {answer!r} and is {ask.state} {ask.answer!r}"
    for ask_id, (decision, attempt) in told.decisions.items():
        asked = db.asks.get(ask_id)
        if asked is None:
            yield from _check_gone(db, scenario, ask_id)
            continue
        ask = asked.ask
        call = f"fs_delete {ask.run_id} {ask.call_id}"
        if ask.attempt == attempt and decision is Decision.DENY and ask.state is not AskState.DENIED:
            yield f"{ask_id} was denied and is {ask.state}"
        if ask.attempt == attempt and decision is Decision.DENY and call in scenario.world.executed:
            yield f"{call} was denied and executed"
    for call, count in scenario.world.executed.items():
        if count > 1 and call.startswith("fs_delete"):
            yield f"{call} was executed {count} times"


def _check_gone(db: Database, scenario: Scenario, ask_id: str) -> Iterator[str]:
    """An ask goes with its run: deleted with a conversation, or removed after its time."""
    run_id = ask_id.partition("-call-")[0].removeprefix("ask-").removeprefix("grant-")
    if run_id in db.runs and not scenario.records.deleted:
        yield f"{ask_id} is gone, and its run is there"


def _check_imported(db: Database, scenario: Scenario) -> Iterator[str]:
    """What was imported is there as it was, until it is deleted."""
    for file in scenario.records.imported:
        conversation = db.conversation(file.key)
        if conversation is None:
            if file.is_acknowledged and not file.is_deleting:
                yield f"{file.key} was imported and is lost"
            continue
        entries = db.entries(conversation.id, 1, conversation.last_seq)
        if [entry.message.content for entry in entries] != file.contents:
            yield f"{file.key} was imported as {file.contents} and is {[entry.message.content for entry in entries]}"


def _check_notes(db: Database) -> Iterator[str]:
    for row in db.notes:
        conversation = db.conversations.get(row.conversation)
        if conversation is None:
            yield f"a note of conversation {row.conversation} is left"
        elif not 1 <= row.note.first_seq <= row.note.last_seq <= conversation.last_seq:
            yield f"a note of {conversation.key} is about {row.note.first_seq} to {row.note.last_seq}"


def _check_message(db: Database, sent: Sent) -> Iterator[str]:
    """An acknowledged message is in the history once, or waits. One that is retried may run again behind others."""
    if sent.is_deleting:
        return
    conversation = db.conversation(sent.key)
    runs = [] if conversation is None else db.runs.find("conversation", conversation.id)
    own = [row for row in runs if _content(db, row) == sent.content]
    places = Counter(filter(None, (_find_place(db, row) for row in own)))
    entries = db.entries(conversation.id, 1, conversation.last_seq) if conversation else []
    said = [entry.seq for entry in entries if entry.message.role is Role.USER and entry.message.content == sent.content]
    if sorted(said) != sorted(places):
        yield f"{sent.content!r} is in the history at {said}, its runs are at {sorted(places)}"
    if len(own) > 1 and not sent.is_retried:
        yield f"{sent.content!r} was sent once and has runs {[row.id for row in own]}"
    if sent.is_acknowledged and not own:
        yield f"{sent.content!r} was acknowledged and is lost"
    if sent.is_acknowledged and not sent.is_withdrawing and not said and all(row.is_ended for row in own):
        yield f"{sent.content!r} was acknowledged and ended without a message"
    if sent.is_withdrawn and said:
        yield f"{sent.content!r} was withdrawn and is in the history"


def _find_place(db: Database, row: RunRow) -> int:
    """The number of the message of a run: that of its turn, or in the turn of the run that it was shown to."""
    delivery = db.deliveries.get(row.id) if row.spawn.kind is RunKind.TURN else None
    return row.user_seq or (delivery.seq if delivery is not None else 0)


def _content(db: Database, row: RunRow) -> str:
    return found_runs.read(db, row).request.content


def _list_left(db: Database) -> Iterator[str]:
    for row in db.runs:
        if not row.is_ended:
            yield f"run {row.id} is still {row.status}"
        if row.parent_id:
            yield from _check_delivery(db, row)
    for asked in db.asks:
        if asked.ask.state in _OPEN:
            yield f"{asked.ask.id} is still {asked.ask.state}"
    for conversation in db.conversations:
        calls: set[str] = set()
        for entry in db.entries(conversation.id, 1, conversation.last_seq):
            calls |= {call.id for call in entry.message.tool_calls}
            calls.discard(entry.message.tool_call_id)
        if calls:
            yield f"calls of {conversation.key} have no result: {sorted(calls)}"


def _list_disorder(db: Database) -> Iterator[str]:
    """In a trace every decision stands behind its call and before the result, and begins with the ask being open."""
    for row in db.runs:
        events = timeline(traces.record(db, row, in_full=True), str, 10_000).events
        calls: set[str] = set()
        pending: set[str] = set()
        for event in events:
            payload = json.loads(event.payload)
            if event.kind is TraceKind.TOOL_CALL:
                calls.add(payload["id"])
            elif event.kind is TraceKind.TOOL_RESULT:
                calls.discard(payload["id"])
            elif event.kind is TraceKind.POLICY_DECISION and "ask" in payload:
                if payload["state"] == AskState.PENDING:
                    pending.add(payload["ask"])
                elif payload["ask"] not in pending:
                    yield f"the trace of {row.id} has {payload['state']} of {payload['ask']} before it was asked"
                ask = db.asks[payload["ask"]].ask
                if ask.call_id not in calls:
                    yield f"in the trace of {row.id}, {payload['state']} of {ask.id} is not between call and result"


def _check_delivery(db: Database, row: RunRow) -> Iterator[str]:
    """The result of a spawned run went to one place: into waits, or into one report."""
    delivery, marker = found_runs.delivery_of(db, row), f"({row.id}) has ended"
    reports = [
        entry
        for _, entry in db.messages.pairs()
        if entry.message.role is Role.USER and entry.message.agent and marker in entry.message.content
    ]
    waits = [
        (conversation, entry)
        for (conversation, _), entry in db.messages.pairs()
        if _shows_result(entry.message, row.id)
    ]
    # It is delivered by one message: the first of its parent, or of a run of the tree that waits for it, that shows it.
    # Another run of the tree that waits for it as well is shown it too, once.
    is_waited = len(waits) == len({entry.run_id for _, entry in waits}) > 0
    delivered = db.deliveries.get(row.id)
    if delivery is Delivery.WAITED and delivered is not None:
        # Results that are stored together are delivered by the last of their messages.
        own = [
            entry.seq for place, entry in waits if (place, entry.run_id) == (delivered.conversation, delivered.run_id)
        ]
        if not own or own[0] > delivered.seq:
            yield f"the result of {row.id} was not shown where it was delivered: {delivered}"
        for _, entry in waits:
            if found_runs.read(db, db.runs[entry.run_id]).root != found_runs.read(db, row).root:
                yield f"the result of {row.id} was shown to {entry.run_id}, of another conversation"
    if delivery is Delivery.OWED:
        yield f"the result of {row.id} is still owed"
    elif [is_waited, len(reports)] != [delivery is Delivery.WAITED, delivery is Delivery.SENT]:
        yield f"the result of {row.id} is {delivery}; it was waited for {len(waits)} times and reported {len(reports)}"


def _shows_result(message: Message, run_id: str) -> bool:
    """Whether it is what a wait, or a stop, told of the run once that had ended."""
    if message.role is not Role.TOOL or run_id not in message.content or not message.content.startswith("{"):
        return False
    told = json.loads(message.content)
    return any(
        each.get("agent_id") == run_id and ("outcome" in each or each.get("status") == "cancelled")
        for each in told.get("runs", [told])
    )
