"""What a lane does with queued messages for the active run, and with a run that is stopped twice."""

from typing import cast

from moot.domain.events import make_event_source
from moot.domain.run import Outcome, RunRequest
from moot.engine.asks import Asks
from moot.engine.lanes import Lane, LaneSteering, Ticket
from moot.engine.run_stream import RunStream
from tests.unit.shelves import ADA, SetClock


async def do_nothing(_ticket: Ticket) -> None:
    return


def make_ticket(run_id: str, *, steers: str = "", kept: bool = True) -> Ticket:
    request = RunRequest(id=run_id, key=ADA, speaker="ada", content=run_id, steers=steers)
    stream = RunStream(make_event_source(request))
    return Ticket(key=ADA, work=do_nothing, stream=stream, clock=SetClock(), request=request, kept=kept)


class NoAsks:
    def list_local_of_conversation(self, _key: object) -> list[object]:
        return []


def make_lane(*waiting: Ticket) -> Lane:
    lane = Lane(ADA, cast(Asks, NoAsks()))
    lane.active = make_ticket("active")
    lane.waiting.extend(waiting)
    return lane


def list_waiting(lane: Lane) -> list[str]:
    return [ticket.request.id for ticket in lane.waiting if ticket.request is not None]


def list_taken(steering: LaneSteering) -> list[str]:
    return [request.id for request in steering.take()]


def test_messages_that_could_not_be_shown_wait_again_in_their_order() -> None:
    lane = make_lane(*(make_ticket(name, steers="active") for name in ("one", "two")), make_ticket("three"))
    steering = LaneSteering(lane, lambda _ticket: None)

    taken = steering.take()
    assert [request.id for request in taken] == ["one", "two"]
    assert list_waiting(lane) == ["three"]

    steering.put_back(taken)
    assert list_waiting(lane) == ["one", "two", "three"]


def test_a_message_is_not_shown_before_an_earlier_one_that_is_being_stored() -> None:
    first = make_ticket("one", steers="active", kept=False)
    lane = make_lane(first, make_ticket("two", steers="active"))
    steering = LaneSteering(lane, lambda _ticket: None)

    assert list_taken(steering) == []
    assert list_waiting(lane) == ["one", "two"]

    first.kept = True
    assert list_taken(steering) == ["one", "two"]


def test_a_run_that_was_killed_is_not_resumed_because_the_daemon_stops_before_it_has_ended() -> None:
    killed, working = make_ticket("killed"), make_ticket("working")
    killed.halt(Outcome.CANCELLED)

    killed.suspend()
    working.suspend()

    assert (killed.suspended, killed.stop) == (False, Outcome.CANCELLED)
    assert (working.suspended, working.stop) == (True, Outcome.INTERRUPTED)
