"""The requests of clients while a daemon is killed: every kind, in several conversations at once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.chaos.daemon import Mortal
from tests.chaos.ledger import VANISHING, Ledger, Sent, lost
from tests.daemon_process import Home
from tests.talking import Speech, Talking

ACT_SECONDS = 20.0


class Workload:
    """Acts on one daemon, written into one ledger. An act ends when the daemon does."""

    def __init__(self, talk: Talking, ledger: Ledger, home: Home, rng: Random) -> None:
        self.talk = talk
        self.ledger = ledger
        self.home = home
        self.rng = rng

    async def perform(self, acts: list[tuple[str, str]]) -> None:
        """Do (act, sender) pairs: those of one sender in order, different senders at the same time."""
        lines: dict[str, list[str]] = {}
        for act, sender in acts:
            lines.setdefault(sender, []).append(act)
        async with asyncio.TaskGroup() as group:
            for sender, names in lines.items():
                group.create_task(self._line(sender, names))

    async def _line(self, sender: str, names: list[str]) -> None:
        for name in names:
            try:
                async with asyncio.timeout(ACT_SECONDS):
                    await ACTS[name](self, sender)
            except MootError as error:
                if lost(error):
                    return
                self.ledger.surprises.append(f"{name} for {sender}: {error.type}: {error.message}")
            except TimeoutError:
                self.ledger.surprises.append(f"{name} for {sender} was not answered within {ACT_SECONDS:.0f} s")
                return

    # ---- what the acts are made of --------------------------------------------------------------

    def start(self, sent: Sent) -> Speech:
        sent.attempts += 1
        fields = {"client_message_id": sent.message_id} if sent.message_id else {}
        return self.talk.start(sent.agent, sent.content, sent.sender, guest=sent.guest, **fields)

    async def finish(self, sent: Sent, speech: Speech, *, refusals: tuple[str, ...] = ()) -> None:
        try:
            await speech.end()
        except MootError as error:
            if lost(error) or error.type not in refusals:
                raise
        finally:
            sent.note(speech)

    async def say(self, sender: str, text: str, *, guest: str = "", message_id: str = "") -> Sent:
        sent = self.ledger.new("ada", sender, text, guest=guest, message_id=message_id)
        await self.finish(sent, self.start(sent))
        return sent

    # ---- acts -----------------------------------------------------------------------------------

    async def chat(self, sender: str) -> None:
        for _ in range(3):
            await self.say(sender, "hello")

    async def guest(self, sender: str) -> None:
        await self.say(sender, "and you", guest=self.rng.choice(("ben", "cyd")))

    async def tools(self, sender: str) -> None:
        await self.say(sender, "note twice")

    async def title(self, sender: str) -> None:
        named = await self.say(sender, "name it")
        if named.outcome == "completed":
            self.ledger.titled.add(named.key)

    async def slow(self, sender: str) -> None:
        await self.say(sender, "speak slowly")

    async def burst(self, sender: str) -> None:
        """Several messages at once: the first runs, the others wait in line."""
        ids = iter(("", f"burst-{self.ledger.counter}", ""))
        sents = [self.ledger.new("ada", sender, "speak slowly", message_id=next(ids)) for _ in range(3)]
        speeches = [self.start(sent) for sent in sents]
        try:
            for sent, speech in zip(sents, speeches, strict=True):
                await self.finish(sent, speech)
        finally:
            for sent, speech in zip(sents, speeches, strict=True):
                sent.note(speech)

    async def kill(self, sender: str) -> None:
        sent = self.ledger.new("ada", sender, "speak slowly")
        speech = self.start(sent)
        try:
            await speech.until("chunk", count=self.rng.randint(1, 5))
            await self.talk.kill("ada", sender)
        finally:
            sent.note(speech)
        await self.finish(sent, speech)

    async def compact(self, sender: str) -> None:
        await self.say(sender, "remember this")
        done = await self.talk.compact("ada", sender)
        self.ledger.compacted["ada", sender] = done.number

    async def ask(self, sender: str) -> None:
        sent = self.ledger.new("ada", sender, "ask me")
        speech = self.start(sent)
        try:
            await speech.until("ask_user")
            answer = f"answer {sent.order}"
            await self.talk.reply("ada", answer, sender)
            self.ledger.answers[sent.content] = answer
        finally:
            sent.note(speech)
        await self.finish(sent, speech)

    async def again(self, sender: str) -> None:
        """A message that fails is sent again under its id; one that worked is replayed."""
        broken = await self.say(sender, "break", message_id=f"again-{self.ledger.counter}")
        await self.finish(broken, self.start(broken))
        fine = await self.say(sender, "hello", message_id=f"fine-{self.ledger.counter}")
        await self.finish(fine, self.start(fine))

    async def withdraw(self, sender: str) -> None:
        """A message is taken out of the line; then what it waited for is stopped."""
        sents = [self.ledger.new("ada", sender, "hang"), self.ledger.new("ada", sender, "hello")]
        speeches = [self.start(sent) for sent in sents]
        try:
            await speeches[1].until("queued")
            sents[1].withdrawn = None
            await self.talk.ask(withdraw=pb.WithdrawMsg(agent="ada", sender=sender))
            sents[1].withdrawn = True
            await self.talk.kill("ada", sender)
            for sent, speech in zip(sents, speeches, strict=True):
                await self.finish(sent, speech)
        finally:
            for sent, speech in zip(sents, speeches, strict=True):
                sent.note(speech)

    async def directory(self, sender: str) -> None:
        self.ledger.counter += 1
        folder = self.home.path / f"folder-{self.ledger.counter}"
        folder.mkdir()
        allowed = self.ledger.directories.setdefault(("ada", sender), {""})
        allowed.add(str(folder))
        await self.talk.ask(working_directory=pb.WorkingDirectoryMsg(agent="ada", sender=sender, cwd=str(folder)))
        self.ledger.directories["ada", sender] = {str(folder)}

    async def vanish(self, sender: str) -> None:
        """A queued message whose agent is gone when its turn comes can only be refused."""
        agent = f"{VANISHING}-{sender}"
        path = self.home.write_agent(agent)
        sents = [self.ledger.new(agent, sender, "speak slowly"), self.ledger.new(agent, sender, "hello")]
        speeches = [self.start(sent) for sent in sents]
        try:
            await speeches[1].until("queued")
            path.unlink(missing_ok=True)
            await self.talk.ask(reload=pb.ReloadMsg())
            for sent, speech in zip(sents, speeches, strict=True):
                await self.finish(sent, speech, refusals=("not_found",))
        finally:
            self.home.write_agent(agent)
            for sent, speech in zip(sents, speeches, strict=True):
                sent.note(speech)

    async def bring(self, sender: str) -> None:
        """Import a conversation, and delete it again."""
        sender = f"{sender}-import-{self.ledger.counter}"
        self.ledger.counter += 1
        await self._import(sender, 6, 20)
        await self._delete(sender)

    async def flood(self, sender: str) -> None:
        """An import long enough for the log to be moved into the database."""
        self.ledger.counter += 1
        await self._import(f"{sender}-flood-{self.ledger.counter}", 120, 40_000)
        await self.say(sender, "hello")

    async def backup(self, _sender: str) -> None:
        self.ledger.counter += 1
        path = self.home.path / f"backup-{self.ledger.counter}.db"
        await self.talk.ask(backup=pb.BackupMsg(path=str(path)))

    async def _import(self, sender: str, messages: int, size: int) -> None:
        lines = [json.dumps({"agent": "ada", "created_by": sender, "title": ""})]
        lines += [
            json.dumps({"role": ("user", "assistant")[number % 2], "content": f"{number} {'x' * size}"})
            for number in range(messages)
        ]
        self.ledger.imported["ada", sender] = (messages, None)
        await self.talk.import_("\n".join(lines) + "\n", agent="ada", sender=sender)
        self.ledger.imported["ada", sender] = (messages, True)

    async def _delete(self, sender: str) -> None:
        self.ledger.deleted["ada", sender] = None
        await self.talk.ask(delete=pb.DeleteMsg(agent="ada", sender=sender, confirm=True))
        self.ledger.deleted["ada", sender] = True


Act = Callable[[Workload, str], Awaitable[None]]
ACTS: dict[str, Act] = {
    name: getattr(Workload, name)
    for name in (
        "chat", "guest", "tools", "title", "slow", "burst", "kill", "compact", "ask", "again", "vanish", "bring",
        "flood", "backup", "withdraw", "directory",
    )
}  # fmt: skip

# Which act comes by a point; every other point is passed by any conversation at all.
_ACT_OF = {
    "append": "tools", "enqueue": "burst", "queued": "burst", "rerun": "again",
    "archive": "compact", "compaction": "compact", "title": "title", "delete": "bring", "import": "bring",
    "part": "flood", "checkpoint": "flood", "backup": "backup", "tool": "tools", "tools": "tools", "ask": "ask",
    "kill": "kill", "withdrawn": "withdraw", "cwd": "directory",
}  # fmt: skip


def act_for(point: str) -> str:
    first, _, second = point.partition(".")
    return _ACT_OF.get(first) or _ACT_OF.get(second) or "chat"


async def drain(daemon: Mortal, ledger: Ledger, sender: str) -> None:
    """Stop the daemon in the ordinary way while somebody is being answered and somebody waits."""
    try:
        async with daemon.client() as talk:
            workload = Workload(talk, ledger, daemon.home, Random(0))
            sents = [ledger.new("ada", sender, "hang"), ledger.new("ada", sender, "hello")]
            speeches = [workload.start(sent) for sent in sents]
            await speeches[1].until("queued")
            daemon.terminate()
            for sent, speech in zip(sents, speeches, strict=True):
                try:
                    await workload.finish(sent, speech, refusals=("unavailable",))
                except MootError as error:
                    if not lost(error):
                        raise
    except MootError as error:
        if not lost(error):
            raise
