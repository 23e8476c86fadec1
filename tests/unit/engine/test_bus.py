"""The bus: numbers, what is kept, and readers that come late or cannot keep up."""

from typing import Any

from moot.domain.events import Event, Gap, MailDelivered, MailEvicted, MailRead, MailSent, TextChunk
from moot.domain.mail import Mail
from moot.engine.bus import SEQ_BLOCK, Bus
from tests.unit.events import SOURCE
from tests.unit.shelves import SetClock


def new_bus(**limits: Any) -> Bus:
    return Bus(clock=SetClock(), **limits)


def publish(bus: Bus, *texts: str) -> None:
    for text in texts:
        bus.publish(SOURCE, TextChunk(text))


class Slow:
    """A reader that takes so many items and no more, until it is given room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.items: list[int | Gap] = []

    def __call__(self, item: Event | Gap) -> bool:
        if not self.room:
            return False
        self.room -= 1
        self.items.append(item.seq if isinstance(item, Event) else item)
        return True


async def test_a_number_is_never_used_twice() -> None:
    reserved = 40

    async def reserve(count: int) -> int:
        nonlocal reserved
        reserved += count
        return reserved

    for first in (41, 41 + SEQ_BLOCK):
        bus, reader = Bus(clock=SetClock(), reserve=reserve), Slow(10)
        await bus.reserve_numbers()
        await bus.reserve_numbers()
        bus.subscribe(reader)
        publish(bus, "a", "b")
        assert reader.items == [first, first + 1]
    assert reserved == 40 + 2 * SEQ_BLOCK


async def test_numbers_are_reserved_before_they_run_out() -> None:
    blocks: list[int] = []

    async def reserve(count: int) -> int:
        blocks.append(count)
        return sum(blocks)

    bus = Bus(clock=SetClock(), reserve=reserve)
    await bus.reserve_numbers()
    bus.seq += SEQ_BLOCK // 2 + 1
    await bus.reserve_numbers()
    assert (len(blocks), bus.seq) == (2, SEQ_BLOCK // 2 + 1)


def test_a_late_reader_gets_what_is_kept_after_a_number_and_is_told_what_is_missing() -> None:
    bus = new_bus(max_events=3)
    publish(bus, *"abcde")
    late, later, early = Slow(10), Slow(10), Slow(10)
    bus.subscribe(late, since=0)
    bus.subscribe(later, since=3)
    bus.subscribe(early)
    publish(bus, "f")
    assert late.items == [Gap(1, 2), 3, 4, 5, 6]
    assert later.items == [4, 5, 6]
    assert early.items == [6]


def test_what_is_kept_is_bounded_by_its_size_too() -> None:
    bus, late = new_bus(max_size=10), Slow(10)
    publish(bus, "x" * 6, "x" * 6, "x" * 50)
    bus.subscribe(late, since=0)
    assert late.items == [Gap(1, 2), 3]


def test_the_size_of_mail_counts_whatever_happens_to_it() -> None:
    bus, late = new_bus(max_size=10), Slow(10)
    mail = Mail(id="m", goal_id="g", from_agent="a", from_goal="", to_agent="b", body="x" * 6, sent_at=0.0)
    for kind in (MailSent, MailDelivered, MailRead, MailEvicted):
        bus.publish(SOURCE, kind(mail))
    bus.subscribe(late, since=0)
    assert late.items == [Gap(1, 3), 4]


def test_a_slow_reader_goes_on_where_it_stopped() -> None:
    bus, slow = new_bus(), Slow(1)
    subscription = bus.subscribe(slow)
    publish(bus, *"abc")
    assert slow.items == [1]
    slow.room = 1
    subscription.resume()
    slow.room = 10
    subscription.resume()
    publish(bus, "d")
    assert slow.items == [1, 2, 3, 4]


def test_a_slow_reader_is_told_what_was_dropped() -> None:
    bus, slow = new_bus(max_events=2), Slow(1)
    subscription = bus.subscribe(slow)
    publish(bus, *"abcde")
    slow.room = 1
    subscription.resume()
    assert slow.items == [1, Gap(2, 3)]
    slow.room = 10
    subscription.resume()
    publish(bus, "f")
    assert slow.items == [1, Gap(2, 3), 4, 5, 6]


def test_a_number_of_another_store_is_answered_with_a_gap() -> None:
    bus, reader = new_bus(), Slow(10)
    publish(bus, "a")
    bus.subscribe(reader, since=99)
    publish(bus, "b")
    assert reader.items == [Gap(1, 1), 2]


def test_a_reader_that_publishes_does_not_change_the_order_for_others() -> None:
    bus, other = new_bus(), Slow(10)

    def echo(event: Event) -> None:
        if event.seq == 1:
            publish(bus, "echo")

    bus.observe(echo, TextChunk)
    bus.subscribe(other)
    publish(bus, "a")
    assert other.items == [1, 2]


def test_a_broken_reader_stops_nobody() -> None:
    bus, other = new_bus(), Slow(10)

    def broken(_event: Event) -> None:
        raise RuntimeError("broken")

    leave = bus.observe(broken, TextChunk)
    bus.subscribe(other, wants=lambda event: event.seq != 2)
    publish(bus, *"abc")
    leave()
    leave()
    assert other.items == [1, 3]
