"""A real daemon, killed and restarted at will, tells the same story as a list: history, voices, archives, titles.

Short by default; MOOT_STATEFUL_EXAMPLES=200 (and MOOT_STATEFUL_STEPS=60) makes it a long walk.
"""

import asyncio
import os
import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.wire import moot_pb2 as pb
from tests.chaos.daemon import SUMMARY, Mortal, new_home
from tests.daemon_process import eventually
from tests.talking import Speech, Talking

LONG = "MOOT_STATEFUL_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("MOOT_STATEFUL_EXAMPLES", "10"))
STEPS = int(os.environ.get("MOOT_STATEFUL_STEPS", "25"))
WAIT = 20.0
ANY = "(whatever it says)"

senders = st.sampled_from(["user", "tg:1", "tg-1"])
guests = st.sampled_from(["ben", "cyd"])
words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40)


@dataclass(slots=True)
class Line:
    role: str
    content: str
    agent: str = ""
    outcome: str = ""
    archive: int = 0

    def is_told_as(self, told: pb.HistoryMessage) -> bool:
        says = (told.role, told.agent, told.outcome, told.archive)
        return says == (self.role, self.agent, self.outcome, self.archive) and self.content in (ANY, told.content)


@dataclass(slots=True)
class Talk:
    """What one conversation should be: a list, and who is being waited for."""

    lines: list[Line] = field(default_factory=list)
    archives: int = 0
    title: str = ""
    asking: Speech | None = None
    # Messages in line behind a question: their text, their guest, and their stream unless the daemon was restarted.
    waiting: list[tuple[str, str, Speech | None]] = field(default_factory=list)
    last_id: tuple[str, str, str] | None = None

    @property
    def active(self) -> list[Line]:
        return [line for line in self.lines if not line.archive]

    def turn(self, content: str, *replies: Line, outcome: str = "completed") -> None:
        self.lines += [Line("user", content, outcome=outcome), *replies]

    def ask_in_vain(self) -> None:
        """The question was not answered: its call has a result that says so, and its turn an outcome."""
        user = max(place for place, line in enumerate(self.lines) if line.role == "user")
        self.lines[user].outcome = "cancelled"
        self.lines.append(Line("tool", ANY))
        self.asking = None


def heard(text: str) -> str:
    return f"Heard: #{text.rpartition('#')[2]}"


class ConversationMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="moot-machine-"))
        self.home = new_home(self.folder)
        self.talks: dict[str, Talk] = {}
        self.counter = 0
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.daemon: Mortal | None = None

    def teardown(self) -> None:
        self.hang_up()
        if self.daemon is not None:
            self.daemon.kill_9()
        self.loop.close()
        failures = self.home.failures()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert failures == []

    # ---- the daemon ---------------------------------------------------------------------------

    @initialize()
    def start(self) -> None:
        daemon = self.daemon = Mortal.launch(self.home)
        assert daemon is not None
        self.client: Talking = self.do(self.stack.enter_async_context(daemon.client()))

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, WAIT))

    def hang_up(self) -> None:
        self.do(self.stack.aclose())
        for talk in self.talks.values():
            for speech in (talk.asking, *(speech for _, _, speech in talk.waiting)):
                if speech is not None:
                    self.do(asyncio.wait({speech._task}))

    def restart(self) -> None:
        self.hang_up()
        self.start()
        for sender, talk in self.talks.items():
            if talk.asking is not None:
                talk.asking = self.do(self.attach(sender))
            talk.waiting = [(text, guest, None) for text, guest, _ in talk.waiting]

    async def attach(self, sender: str) -> Speech:
        """A question outlives the daemon, and whoever comes later is asked the same."""
        speech = self.client.attach("ada", sender)
        await speech.until("ask_user")
        return speech

    async def idle(self, sender: str) -> None:
        async def is_idle() -> bool:
            return not ((await self.client.history("ada", sender)).queued or await self.client.active(sender=sender))

        # What nobody follows announces its end to nobody.
        await eventually(is_idle)

    @precondition(lambda self: self.talks)
    @rule()
    def crash(self) -> None:
        assert self.daemon is not None
        self.daemon.kill_9()
        self.restart()

    @precondition(lambda self: self.talks)
    @rule()
    def stop(self) -> None:
        assert self.daemon is not None
        self.daemon.terminate()
        assert self.daemon.reap() == 0
        self.restart()

    # ---- talking ------------------------------------------------------------------------------

    def talk(self, sender: str) -> Talk:
        return self.talks.setdefault(sender, Talk())

    def text(self, words: str) -> str:
        self.counter += 1
        return f"{words} #{self.counter}"

    def answered(self, talk: Talk, text: str, guest: str) -> None:
        talk.turn(text, Line("assistant", heard(text), guest))

    def send(self, sender: str, words: str, guest: str) -> None:
        """A turn, or a place in line while a question is open."""
        talk, text = self.talk(sender), self.text(words)
        message_id = f"m{self.counter}"
        speech = self.begin(sender, text, guest=guest, client_message_id=message_id)
        if talk.asking is not None:
            self.do(speech.until("queued"))
            talk.waiting.append((text, guest, speech))
            return
        self.do(speech.end())
        assert speech.outcome == "completed"
        assert speech.text == heard(text)
        assert {start.agent for start in speech.of("text_start")} == {guest or "ada"}
        self.answered(talk, text, guest)
        talk.last_id = (text, guest, message_id)

    def begin(self, sender: str, text: str, **fields: Any) -> Speech:
        async def start() -> Speech:
            return self.client.start("ada", text, sender, **fields)

        return self.do(start())

    @rule(sender=senders, words=words)
    def speak(self, sender: str, words: str) -> None:
        self.send(sender, words, "")

    @rule(sender=senders, guest=guests, words=words)
    def bring_a_guest(self, sender: str, guest: str, words: str) -> None:
        self.send(sender, words, guest)

    @precondition(lambda self: any(talk.last_id and not talk.asking for talk in self.talks.values()))
    @rule(data=st.data())
    def send_the_last_one_again(self, data: st.DataObject) -> None:
        known = sorted(name for name, talk in self.talks.items() if talk.last_id and not talk.asking)
        sender = data.draw(st.sampled_from(known))
        last_id = self.talks[sender].last_id
        assert last_id is not None
        text, guest, message_id = last_id
        speech = self.begin(sender, text, guest=guest, client_message_id=message_id)
        self.do(speech.end())
        assert (speech.outcome, speech.text) == ("completed", heard(text))

    @rule(sender=senders)
    def use_tools(self, sender: str) -> None:
        talk, text = self.talk(sender), self.text("note twice")
        if talk.asking is not None:
            return
        self.do(self.begin(sender, text).end())
        talk.turn(
            text,
            Line("assistant", ""),
            Line("tool", "noted 0"),
            Line("tool", "noted 1"),
            Line("assistant", "Both are noted."),
        )

    @rule(sender=senders)
    def give_a_name(self, sender: str) -> None:
        talk, text = self.talk(sender), self.text("name it")
        if talk.asking is not None:
            return
        self.do(self.begin(sender, text).end())
        talk.turn(text, Line("assistant", ""), Line("tool", ANY), Line("assistant", "It has a name."))
        talk.title = "A name"

    @rule(sender=senders)
    def kill_a_run(self, sender: str) -> None:
        talk, text = self.talk(sender), self.text("hang")
        if talk.asking is not None:
            return
        speech = self.begin(sender, text)
        self.do(speech.until("start"))
        self.do(self.client.kill("ada", sender))
        self.do(speech.end())
        assert speech.outcome == "cancelled"
        talk.turn(text, outcome="cancelled")

    @rule(sender=senders)
    def kill_what_is_idle(self, sender: str) -> None:
        if sender not in self.talks or self.talks[sender].asking is None:
            assert self.do(self.client.kill("ada", sender)).HasField("pong")

    # ---- questions ----------------------------------------------------------------------------

    @rule(sender=senders)
    def let_it_ask(self, sender: str) -> None:
        talk, text = self.talk(sender), self.text("ask me")
        if talk.asking is not None:
            return
        talk.asking = self.begin(sender, text)
        self.do(talk.asking.until("ask_user"))
        talk.turn(text, Line("assistant", ""), outcome="")

    def asking(self) -> list[str]:
        return sorted(name for name, talk in self.talks.items() if talk.asking is not None)

    def go_on(self, sender: str) -> None:
        """What waited behind the question has its turn."""
        talk = self.talks[sender]
        for text, guest, speech in talk.waiting:
            if speech is not None:
                self.do(speech.end())
                assert speech.outcome == "completed"
            self.answered(talk, text, guest)
        self.do(self.idle(sender))
        talk.waiting.clear()

    @precondition(lambda self: self.asking())
    @rule(data=st.data(), words=words)
    def answer(self, data: st.DataObject, words: str) -> None:
        sender = data.draw(st.sampled_from(self.asking()))
        talk, answer = self.talks[sender], self.text(words)
        assert talk.asking is not None
        self.do(self.client.reply("ada", answer, sender))
        self.do(talk.asking.end())
        assert talk.asking.outcome == "completed"
        talk.asking = None
        talk.lines[-2].outcome = "completed"
        talk.lines += [Line("tool", answer), Line("assistant", f"You answered: {answer}")]
        self.go_on(sender)

    @precondition(lambda self: self.asking())
    @rule(data=st.data())
    def kill_while_it_asks(self, data: st.DataObject) -> None:
        sender = data.draw(st.sampled_from(self.asking()))
        talk = self.talks[sender]
        assert talk.asking is not None
        self.do(self.client.kill("ada", sender))
        self.do(talk.asking.end())
        assert talk.asking.outcome == "cancelled"
        talk.ask_in_vain()
        self.go_on(sender)

    @rule(sender=senders)
    def answer_nobody(self, sender: str) -> None:
        if sender not in self.asking():
            with pytest.raises(NotFound):
                self.do(self.client.reply("ada", "nobody asked", sender))

    # ---- memory and mistakes ------------------------------------------------------------------

    @rule(sender=senders)
    def compact(self, sender: str) -> None:
        talk = self.talks.get(sender)
        if talk is None or not talk.active:
            with pytest.raises(Conflict):
                self.do(self.client.compact("ada", sender))
            return
        if talk.asking is not None:
            return
        done = self.do(self.client.compact("ada", sender))
        talk.archives += 1
        assert (done.number, done.summary) == (talk.archives, SUMMARY)
        for line in talk.active:
            line.archive = talk.archives

    @rule(sender=senders, mistake=st.sampled_from(["agent", "guest", "itself", "empty"]))
    def make_a_mistake(self, sender: str, mistake: str) -> None:
        agent, guest, text = "ada", "", "hello"
        match mistake:
            case "agent":
                agent = "nobody"
            case "guest":
                guest = "nobody"
            case "itself":
                guest = "ada"
            case "empty":
                text = "  "
        with pytest.raises((NotFound, BadRequest)):
            self.do(self.client.send(agent, text, sender, guest=guest))

    # ---- the same story -----------------------------------------------------------------------

    @invariant()
    def the_daemon_tells_the_same_story(self) -> None:
        if self.daemon is None:
            return
        listed = {info.sender: info for info in self.do(self.client.conversations())}
        expected = {sender: talk for sender, talk in self.talks.items() if talk.lines}
        assert set(listed) == set(expected)
        for sender, talk in expected.items():
            history = self.do(self.client.history("ada", sender, all=True))
            assert [told.seq for told in history.messages] == list(range(1, len(talk.lines) + 1))
            for line, told in zip(talk.lines, history.messages, strict=True):
                assert line.is_told_as(told), f"{line} is told as {told}"
            assert list(history.queued) == [text for text, _, _ in talk.waiting]
            assert history.title == talk.title
            active = self.do(self.client.history("ada", sender))
            assert len(active.messages) == len(talk.active)
            assert listed[sender].archives == talk.archives == len(self.do(self.client.archives("ada", sender)))


TestConversations = ConversationMachine.TestCase
TestConversations.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=not LONG,
    # Making a failure smaller takes hundreds of daemons: only on the long walk.
    phases=tuple(Phase) if LONG else (Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
