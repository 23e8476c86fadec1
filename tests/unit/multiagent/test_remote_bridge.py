"""Shutdown and plan messages between daemons, over the broker in memory: checked by both, refused with a reason."""

import json
from typing import Any

import pytest

from moot.broker.memory import MemoryBroker
from moot.domain.errors import BadRequest
from moot.domain.events import BridgeRefused, MailDropped
from moot.domain.inbox_message import INBOX_SUBJECT, encode_message, make_subject
from moot.domain.mail import Mail, make_mail_id
from moot.domain.ports.broker import BrokerMessage
from moot.multiagent.peers.letter import Letter
from tests.contracts.broker_kit import publish
from tests.simulation.clock import VirtualClock
from tests.unit.multiagent.peer_kit import Node, make_agent, pass_time, start_two

VIRTUAL_TIME = True
ID = "7a3b2f00-0000-4000-8000-000000000001"
OTHER = ID.replace("1", "2")


def bridge(kind: str, request_id: str = ID, **fields: Any) -> str:
    return json.dumps({"type": kind, "request_id": request_id, **fields})


def refusals(node: Node) -> list[str]:
    return [event.body.reason for event in node.events if isinstance(event.body, BridgeRefused)]


async def put(node: Node, agent: str, body: str, to: str, goal_id: str) -> None:
    """Send a message that the daemon of its sender does not check."""
    goal = await node.talk(agent)
    mail = Mail(
        id=make_mail_id("run-raw", f"{body}/{agent}", goal_id),
        goal_id=goal_id,
        from_agent=agent,
        from_goal=goal.id,
        to_agent=to,
        body=body,
        sent_at=5.0,
        correlation_id=ID,
    )
    await node.storage.outbox.add([mail], most=100)
    node.others.relay.wake()
    await pass_time(1.0)


async def test_a_request_and_its_response_cross_the_broker() -> None:
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    asked = await desk.send("ada", "bob@laptop", bridge("shutdown_request", reason="enough"))
    assert (len(asked.delivered_to), asked.unreachable_reasons) == (1, ())
    await pass_time(3.0)
    (mail,) = await laptop.unread("bob")
    assert (mail.correlation_id, json.loads(mail.body)["reason"]) == (ID, "enough")
    # The outbox is empty, and the request is still known: its id is used, and only its receiver may answer.
    assert await desk.storage.outbox.count_waiting() == 0
    with pytest.raises(BadRequest, match="was used before"):
        await desk.send("ada", "bob@laptop", bridge("shutdown_request"))
    answer = await laptop.send("bob", "ada@desk", bridge("shutdown_response", approved=True))
    assert answer.delivered_to == (mail.from_goal,)
    await pass_time(3.0)
    assert [json.loads(body)["approved"] for body in await desk.bodies("ada")] == [True]
    with pytest.raises(BadRequest, match="was answered before"):
        await laptop.send("bob", "ada@desk", bridge("shutdown_response", approved=False))
    assert refusals(desk) == [f"`request_id` {ID} was used before"]
    assert refusals(laptop) == [f"the request {ID} was answered before"]
    for node in (desk, laptop):
        await node.stop()


async def test_a_call_that_is_repeated_after_a_crash_sends_nothing_and_is_no_error() -> None:
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    (goal,) = await desk.storage.mail.list_goals(since=0.0, limit=9)
    letter = Letter(
        origin=("run-1", "call-1"),
        from_agent="ada",
        from_goal=goal.id,
        root=goal.key,
        to="bob@laptop",
        body=bridge("shutdown_request"),
        emit=lambda _: None,
    )
    sent = await desk.peers.sender.send(letter)
    await pass_time(3.0)
    # Its daemon is not there any more.
    await laptop.stop()
    await pass_time(0.1)
    assert (await desk.peers.sender.send(letter)).delivered_to == sent.delivered_to
    await laptop.start()
    await pass_time(3.0)
    assert len(await laptop.unread("bob")) == 1
    for node in (desk, laptop):
        await node.stop()


MALFORMED = {
    bridge("shutdown_now"): "unknown type `shutdown_now`",
    '{"type": "shutdown_request"}': "`request_id` of shutdown_request must be a UUID",
    bridge("shutdown_request", force=True): "shutdown_request has no `force`",
    bridge("shutdown_response", approved="yes"): "`approved` of shutdown_response must be true or false",
    bridge("plan_approval_request", plan=" "): "`plan` must have 1 to 8192 bytes",
    bridge("plan_approval_response", approved=False): "a rejection needs a `reason`",
    bridge("shutdown_request", OTHER): "`correlation_id` differs from `request_id`",
    bridge("shutdown_response", approved=True): f"no such request {ID} was sent to you by that goal",
    bridge("plan_approval_response", approved=True): f"no such request {ID} was sent to you by that goal",
}


@pytest.mark.parametrize("body", MALFORMED)
async def test_the_receiving_daemon_refuses_what_the_sending_one_let_pass(body: str) -> None:
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    (goal,) = await laptop.storage.mail.list_goals(since=0.0, limit=9)
    await put(desk, "ada", body, "bob@laptop", goal.id)
    assert await laptop.unread("bob") == []
    for node in (laptop, desk):
        (reason,) = refusals(node)
        assert MALFORMED[body] in reason
        assert not [event for event in node.events if isinstance(event.body, MailDropped)]
    assert laptop.peers.dropped_mail == {"bridge": 1}
    (dead,) = await desk.storage.outbox.list_failed(limit=9)
    assert MALFORMED[body] in dead.reason
    for node in (desk, laptop):
        await node.stop()


async def test_a_second_response_and_that_of_another_goal_are_refused_by_the_daemon_that_asked() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    laptop.agents["eve"] = make_agent("eve")
    await desk.send("ada", "bob@laptop", bridge("plan_approval_request", plan="cut"))
    await pass_time(1.0)
    (request,) = await laptop.unread("bob")
    await put(laptop, "eve", bridge("plan_approval_response", approved=True), "ada@desk", request.from_goal)
    assert await desk.unread("ada") == []
    # The sender reads why.
    assert await laptop.bodies("eve") == [
        f"ada@desk has not got the plan_approval_response: no such request {ID} was sent to you by that goal"
    ]
    # Two answers in one batch: the first one counts.
    broker.partition("desk")
    for approved in (True, False):
        body = bridge("plan_approval_response", approved=approved, reason="why")
        await put(laptop, "bob", body, "ada@desk", request.from_goal)
    broker.heal("desk")
    await pass_time(9.0)
    assert [json.loads(body)["approved"] for body in await desk.bodies("ada")] == [True]
    assert refusals(laptop)[-1] == f"the request {ID} was answered before"
    for node in (desk, laptop):
        await node.stop()


async def test_a_request_for_a_goal_that_has_gone_is_answered_with_the_reason() -> None:
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    (goal,) = await laptop.storage.mail.list_goals(since=0.0, limit=9)
    del laptop.agents["bob"]
    await put(desk, "ada", bridge("shutdown_request"), "bob@laptop", goal.id)
    (mail,) = await desk.unread("ada")
    assert (mail.from_agent, mail.correlation_id) == ("@moot", ID)
    assert json.loads(mail.body) == {
        "type": "shutdown_response",
        "request_id": ID,
        "approved": False,
        "reason": f"bob@laptop has not got the shutdown_request: no live goal `{goal.id}`",
    }
    for node in (desk, laptop):
        await node.stop()


async def test_what_nobody_signed_cannot_ask_for_a_shutdown() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = await start_two(broker)
    laptop.accepts_unsigned = True
    goal = await laptop.talk("bob")
    mail = Mail(
        id="",
        goal_id=goal.id,
        from_agent="ada",
        from_goal=goal.id,
        to_agent="bob",
        body=bridge("shutdown_request"),
        sent_at=5.0,
        correlation_id=ID,
    )
    broker_message = BrokerMessage(
        subject=make_subject(INBOX_SUBJECT, goal.id), payload=encode_message(mail), headers={}
    )
    await publish(desk.connection, broker_message, message_id="")
    await pass_time(1.0)
    assert await laptop.unread("bob") == []
    assert laptop.drops == ["shutdown_request must be signed by a daemon"]
    for node in (desk, laptop):
        await node.stop()
