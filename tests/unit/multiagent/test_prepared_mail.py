"""Mail for another daemon is signed while the disk is waited for, and published after that, as it was stored."""

from msgspec.structs import replace

from moot.broker.memory import MemoryBroker
from moot.domain.events import MailSent
from moot.domain.mail import Mail, make_mail_id
from moot.multiagent.peers.daemons.signatures import Identity
from tests.simulation.clock import VirtualClock
from tests.unit.multiagent.peer_kit import Node, make_agent, pass_time, start_two

VIRTUAL_TIME = True


class _NotingIdentity(Identity):
    """Notes whether the mail it signs was stored before."""

    def __init__(self, node: Node) -> None:
        super().__init__(b"\x01" * 32)
        self.node = node
        self.was_stored: list[bool] = []

    def sign(self, data: bytes) -> str:
        if data.startswith(b"moot-mail-"):
            self.was_stored.append(any(isinstance(event.body, MailSent) for event in self.node.events))
        return super().sign(data)


async def test_mail_is_signed_once_while_it_is_stored() -> None:
    broker = MemoryBroker(VirtualClock())
    desk, laptop = Node(broker, "desk", 1, make_agent("ada")), Node(broker, "laptop", 2, make_agent("bob"))
    desk.identity = identity = _NotingIdentity(desk)
    for node, name in ((desk, "ada"), (laptop, "bob")):
        await node.start()
        await node.talk(name)
    await pass_time(3.0)
    assert (await desk.send("ada", "bob", "hello")).delivered_to
    await pass_time(0.1)
    assert await laptop.bodies("bob") == ["hello"]
    assert identity.was_stored == [False]
    for node in (desk, laptop):
        await node.stop()


async def test_what_is_published_is_what_was_stored() -> None:
    """A call that could not store its mail is repeated: the mail has the same id, but was sent at another time."""
    desk, laptop = await start_two(MemoryBroker(VirtualClock()))
    ada, bob = await desk.talk("ada"), await laptop.talk("bob")
    mail = Mail(
        id=make_mail_id("run-1", "call-1", bob.id),
        goal_id=bob.id,
        from_agent="ada",
        from_goal=ada.id,
        to_agent="bob@laptop",
        body="hello",
        sent_at=1_000.0,
    )
    relay = desk.others.relay
    relay.prepare([mail])
    items = await desk.storage.outbox.add([replace(mail, sent_at=2_000.0)], most=9)
    relay.add(items)
    await pass_time(0.1)
    assert [mail.sent_at for mail in await laptop.unread("bob")] == [2_000.0]
    for node in (desk, laptop):
        await node.stop()
