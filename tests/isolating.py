"""A conversation in which something of every kind is stored, and the readers that may or may not find it.

Used by tests/journeys/test_isolation.py; the kinds are in isolation_kinds.py.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToJson

from moot.client.connection import connect
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import LiveDaemon, eventually
from tests.fake_provider import Provider
from tests.isolation_kinds import ARCHIVES, BACKGROUND, KINDS, MAIL, MESSAGES, QUESTIONS, TOPIC, WORKFLOWS, Kind
from tests.talking import Talking

AGENT, SENDER = "ada", "sue"


def fill(value: Any, names: dict[str, str]) -> Any:
    """Return the value with the names in its texts replaced."""
    if isinstance(value, dict):
        return {key: fill(each, names) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    for name, text in names.items():
        value = value.replace(name, text)
    return value


@dataclass
class Seen:
    """All that a reader was shown, and what each search for a kind has returned."""

    everything: str = ""
    found: dict[str, str] = field(default_factory=dict)


class Harbour:
    """One conversation in which something of every kind is stored, in a running daemon."""

    def __init__(self, daemon: LiveDaemon, provider: Provider, talk: Talking) -> None:
        self.daemon = daemon
        self.provider = provider
        self.talk = talk
        # Ids of what was stored. Whoever knows one has no more rights.
        self.names = {"TASK": "", "FLOW": "", "TODO": "", "REF": "", "FOLDER": "", "JOB": "", "SAVED": ""}
        self.run_ids: list[str] = []
        self._numbers = 0

    # ---- storing ----

    async def fill(self) -> None:
        for kind in (BACKGROUND, WORKFLOWS):
            self.provider.program({"match": kind.word, "text": f"done {kind.word}"})
        self.provider.program({"match": f"row to the {TOPIC}$", "text": "Rowed."})
        self.provider.program({"match": "has ended|Results of", "text": "I see.", "repeat": 9})
        stores = [
            {
                "id": f"call_store_{number:04d}",
                "name": tool,
                "arguments": fill(arguments, {"WORD": kind.word, "TOPIC": TOPIC}),
            }
            for number, (kind, (tool, arguments)) in enumerate((kind, call) for kind in KINDS for call in kind.stores)
        ]
        steps = [{"match": ARCHIVES.word, "calls": [call]} for call in stores]
        self.provider.program(*steps, {"match": ARCHIVES.word, "text": "Kept."})
        speech = await self.talk.say(AGENT, f"keep the {TOPIC} archived {ARCHIVES.word}", SENDER)
        assert speech.outcome == "completed", speech.ended
        results = {result.call_id: result for result in speech.of("tool_result")}
        for call in stores:
            result = results[str(call["id"])]
            assert not result.is_error, f"{call['name']}: {result.output}"
            self._note_ids(str(call["name"]), result.output)
        (written,) = self.daemon.home.path.rglob("short.txt")
        self.names["FOLDER"] = str(written.parent)
        await eventually(self.talk.is_idle)
        await self._summarize()
        await self._write_mail()
        await self._ask()
        self._inquire()
        self.provider.program({"match": MESSAGES.word, "text": "I heard."})
        await self.talk.say(AGENT, f"now the {TOPIC} {MESSAGES.word}", SENDER)
        traces = await self.talk.ask(list_runs=pb.ListRunsMsg(all=True))
        self.run_ids = [run.run_id for run in traces.run_list.runs]

    def _note_ids(self, tool: str, output: str) -> None:
        found = json.loads(output) if output.startswith("{") else {}
        match tool:
            case "bg_submit":
                self.names["TASK"] = found["task_id"]
            case "workflow_run":
                self.names["FLOW"] = found["run_id"]
            case "workflow_save":
                self.names["SAVED"] = found["file_path"]
            case "cron_add":
                self.names["JOB"] = found["id"]
            case "task_create":
                self.names["TODO"] = found["task_id"]
            case "fs_read":
                (self.names["REF"],) = set(re.findall(r'ref "([^"]+)"', output))

    async def _summarize(self) -> None:
        self.provider.program({"match": "Write the summary now", "text": "They talked. Nothing is open."})
        await self.talk.compact(AGENT, SENDER)

    async def _write_mail(self) -> None:
        goals = (await self.talk.ask(list_goals=pb.ListGoalsMsg(agent=AGENT))).goals.goals
        (goal,) = [goal.goal_id for goal in goals if goal.sender == SENDER]
        mail = pb.SendMailMsg(agent=AGENT, sender=SENDER, content=f"ahoy {MAIL.word}", goal_id=goal)
        await self.talk.ask(send_mail=mail)

    async def _ask(self) -> None:
        """Leave a question open, in a run of its own."""
        question = {"name": "ask_user", "arguments": {"questions": [{"question": f"Which {QUESTIONS.word}?"}]}}
        self.provider.program({"match": "ask something$", "calls": [question]})
        await self.talk.ask(start_run=pb.StartRunMsg(agent=AGENT, sender=SENDER, content="ask something"))
        await eventually(self.talk.asks)

    def _inquire(self) -> None:
        """Store an inquiry, which otherwise an analysis of the conversation does."""
        home = self.daemon.home
        word = next(kind.word for kind in KINDS if kind.name == "inquiries")
        columns = (
            "id, agent, sender, topic, question, context, priority, status, taint, created_at, fingerprint, subject"
        )
        values = (
            "inquiry-harbour",
            AGENT,
            SENDER,
            TOPIC,
            f"Where is {word}?",
            "",
            "high",
            "pending",
            "",
            1.0,
            "x",
            "y",
        )
        home.change(f"INSERT INTO inquiries ({columns}) VALUES ({', '.join('?' * len(values))})", [values])

    # ---- reading ----

    def _searches(self, mark: str) -> list[tuple[Kind, dict[str, Any]]]:
        found = []
        for kind in KINDS:
            for number, (tool, arguments) in enumerate(kind.finds):
                call_id = f"call_{mark}_{KINDS.index(kind):02d}_{number:02d}"
                found.append((kind, {"id": call_id, "name": tool, "arguments": fill(arguments, self.names)}))
        return found

    async def read_as(
        self, agent: str, sender: str, *, guest: str = "", talk: Talking | None = None, teammate: str = ""
    ) -> Seen:
        """Let an agent search for everything; return what its model was shown."""
        self._numbers += 1
        mark = f"look{self._numbers}"
        searches = self._searches(mark)
        calls = [call for _, call in searches]
        if teammate:
            self._program_teammate(mark, teammate, calls)
        else:
            self.provider.program({"match": f"{mark}$", "calls": calls}, {"match": f"{mark}$", "text": "I looked."})
        before = len(self.provider.bodies())
        speech = await (talk or self.talk).say(
            agent, f"search {mark}" if not teammate else f"let it {mark}", sender, guest=guest
        )
        assert speech.outcome == "completed", speech.ended
        bodies = [body for body in self.provider.bodies()[before:] if _is_for(body, f"search {mark}")]
        assert bodies
        told = {
            message["tool_call_id"]: str(message["content"])
            for message in bodies[-1]["messages"]
            if message["role"] == "tool"
        }
        seen = Seen(json.dumps([body["messages"] for body in bodies], ensure_ascii=False))
        for kind, call in searches:
            seen.found[kind.name] = seen.found.get(kind.name, "") + told.get(call["id"], "")
        return seen

    async def spoil_as(self, agent: str, sender: str, *, talk: Talking | None = None) -> None:
        """Let an agent try to delete or overwrite everything. It does so to what is its own, if anything."""
        self._numbers += 1
        mark = f"spoil{self._numbers}"
        names = [{**self.names, "WORD": kind.word} for kind in KINDS for _ in kind.spoils]
        calls = [call for kind in KINDS for call in kind.spoils]
        steps = [
            {"match": f"{mark}$", "calls": [{"name": tool, "arguments": fill(arguments, known)}]}
            for known, (tool, arguments) in zip(names, calls, strict=True)
        ]
        self.provider.program(*steps, {"match": f"{mark}$", "text": "I tried."})
        speech = await (talk or self.talk).say(agent, f"try {mark}", sender)
        results = speech.of("tool_result")
        assert len(results) == len(calls)
        # A workflow of somebody else is not run, also if its file is known.
        assert [result.is_error for result in results if result.name == "workflow_run"] == [True]

    async def spoil_with_requests(self, talk: Talking) -> None:
        """Send requests that delete what belongs to the conversation."""
        conversation = {"agent": AGENT, "sender": SENDER}
        requests: list[dict[str, Any]] = [
            {"delete": pb.DeleteMsg(confirm=True, **conversation)},
            {"forget_memory": pb.ForgetMemoryMsg(key=TOPIC, **conversation)},
            {"change_graph": pb.ChangeGraphMsg(change="clear", sender=SENDER)},
            {"stop_run": pb.StopRunMsg(run_id=self.names["TASK"])},
            {"cancel_workflow": pb.CancelWorkflowMsg(run_id=self.names["FLOW"])},
            {"compact": pb.CompactMsg(agent=AGENT, sender=SENDER)},
            {"open_stretch": pb.OpenStretchMsg(agent=AGENT, sender=SENDER)},
            {"kill": pb.KillMsg(**conversation)},
            {"remove_secret": pb.RemoveSecretMsg(name="zqsecretszq", owner=SENDER)},
        ]
        for request in requests:
            refused = False
            try:
                await talk.ask(**request)
            except MootError:
                refused = True
            assert refused, f"{next(iter(request))} was not refused"

    def _program_teammate(self, mark: str, teammate: str, calls: list[dict[str, Any]]) -> None:
        spawn = {"name": "agent_spawn", "arguments": {"agent": teammate, "instruction": f"search {mark}"}}
        wait = {"name": "agent_wait", "arguments": {"agent_id": "{agent_id}"}}
        self.provider.program(
            {"match": f"search {mark}$", "calls": calls},
            {"match": f"search {mark}$", "text": "I looked."},
            {"match": f"let it {mark}$", "calls": [spawn]},
            {"match": f"let it {mark}$", "calls": [wait]},
            {"match": f"let it {mark}$", "text": "It looked."},
        )

    async def ask_everything(self, talk: Talking) -> str:
        """Send every request that reads something, as the conversation's own person would; return all answers."""
        answers = []
        for request in self._requests():
            with suppress(MootError):
                answers.append(MessageToJson(await talk.ask(**request)))
        return "\n".join(answers)

    def _requests(self) -> Iterator[dict[str, Any]]:
        for name, message in _reading_requests():
            for values in self._values(message):
                yield {name: values}

    def _values(self, message: Any) -> Iterator[Any]:
        """Return messages of a type: with ids and the conversation, with the conversation alone, and empty."""
        fields = message.DESCRIPTOR.fields_by_name
        conversation = {"agent": AGENT, "sender": SENDER}
        known = {
            **dict.fromkeys(("query", "node", "key", "name", "subject"), TOPIC),
            "workflow": "harbour-flow", "number": 1, "step": 1, "all": True, "confirm": False,
        }  # fmt: skip
        views: list[dict[str, Any]] = [{}]
        if "view" in fields:
            views = [{"view": each} for each in ("facts", "walk", "entities", "terms", "conflicts")]
        for view in views:
            for names in ({}, conversation, {**known, **conversation}, known):
                chosen = {name: value for name, value in {**names, **view}.items() if _takes(fields.get(name), value)}
                yield message(**chosen)
        for run_id in (*self.run_ids, self.names["FLOW"], self.names["TASK"]):
            for extra in ({}, conversation):
                chosen = {name: value for name, value in extra.items() if _takes(fields.get(name), value)}
                if _takes(fields.get("run_id"), run_id):
                    yield message(run_id=run_id, **chosen)
                if "run_ids" in fields:
                    yield message(run_ids=[run_id], **chosen)
        if "name" in fields:
            yield message(name="harbour-flow")


def _takes(field_: FieldDescriptor | None, value: Any) -> bool:
    if field_ is None or field_.is_repeated:
        return False
    texts, numbers = FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL
    if isinstance(value, str):
        return field_.cpp_type == texts
    if isinstance(value, bool):
        return field_.cpp_type == numbers
    return field_.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)


def _reading_requests() -> Iterator[tuple[str, Any]]:
    """Return every request of the protocol whose name says that it reads."""
    for each in pb.ClientMessage.DESCRIPTOR.fields:
        verb = each.name.partition("_")[0]
        if verb in ("list", "get", "read", "export", "recall", "audit", "search", "find"):
            assert each.message_type is not None
            yield each.name, getattr(pb, each.message_type.name)


def _is_for(body: dict[str, Any], task: str) -> bool:
    """Whether a request is that of the run with this task; a parent has the task in a call only."""
    return any(message["role"] == "user" and task in str(message["content"]) for message in body["messages"])


async def read_as_token(harbour: Harbour) -> Seen:
    """Return what the holder of a token finds: with its agent's tools, and with every request."""
    address = (await harbour.talk.ask(get_stats=pb.GetStats())).stats.tcp
    secret = (await harbour.talk.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
    async with connect(address, token=secret) as connection:
        phone = Talking(connection)
        seen = await harbour.read_as(AGENT, "", talk=phone)
        seen.everything += await harbour.ask_everything(phone)
        await harbour.spoil_as(AGENT, "", talk=phone)
        await harbour.spoil_with_requests(phone)
    return seen
