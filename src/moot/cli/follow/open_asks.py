"""Fetches the open asks of a conversation and renders them with the command that answers each."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from moot.cli.connect import remote_address
from moot.cli.program import hint
from moot.cli.render import approvals, asker_lines, flow, plain_data, questions, sanitize
from moot.client.connection import Connection
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from moot.wire.codec import PROTOCOL_VERSION

# The owner's sender name on the local socket, which is not displayed.
_OWN_SENDER = "user"
# Characters of a call shown in a list.
_WHAT_ROWS = 3


async def list_open_asks(connection: Connection, agent: str, sender: str) -> list[pb.AskInfo]:
    """The open asks of a conversation's runs, oldest first; an empty sender means the connection's own."""
    own = sender or await _own_sender(connection)
    found = (await connection.request(pb.ClientMessage(list_asks=pb.ListAsksMsg()))).ask_list.asks
    here = [info for info in found if (info.agent, info.sender) == (agent, own)]
    return sorted(here, key=lambda info: info.opened_at)


async def find_active_run(connection: Connection, agent: str, sender: str) -> str:
    """The active run of a conversation, or None; an empty sender means the connection's own."""
    own = sender or await _own_sender(connection)
    found = (await connection.request(pb.ClientMessage(list_runs=pb.ListRunsMsg()))).run_list.runs
    here = [info for info in found if info.kind == "turn" and (info.root_agent, info.root_sender) == (agent, own)]
    return next((info.run_id for info in here if not info.position), "")


async def list_asking_runs(connection: Connection, run_ids: Sequence[str]) -> list[pb.RunInfo]:
    """The runs that have an open ask: first of these and those they wait for, then of all that work for them.

    Nothing of runs that have ended: what these left behind holds nobody up.
    """
    listed = (await connection.request(pb.ClientMessage(list_runs=pb.ListRunsMsg()))).run_list.runs
    infos = {info.run_id: info for info in listed}
    found = [run_id for run_id in dict.fromkeys(run_ids) if run_id in infos and not infos[run_id].outcome]
    for run_id in found:
        found += [each for each in infos[run_id].waiting_on if each not in found] if run_id in infos else []
    for info in listed:
        # Those above come before those they spawned.
        found += [info.run_id] if info.parent in found and info.run_id not in found else []
    return [infos[run_id] for run_id in found if run_id in infos and infos[run_id].ask_id]


def answer_command(info: pb.AskInfo) -> str:
    """The command that answers an ask."""
    if info.kind != "question":
        return hint(f"moot inbox approve {shlex.quote(shorten_ask_id(info.ask_id))}")
    sender = "" if info.sender == _OWN_SENDER and not remote_address() else f" --as {shlex.quote(info.sender)}"
    options = len(info.questions) == 1 and bool(info.questions[0].options)
    return hint(f"moot reply {shlex.quote(info.agent)}{sender} {'NUMBER-OR-TEXT' if options else 'TEXT'}")


def dump_ask(info: pb.AskInfo) -> dict[str, Any]:
    """A question or an approval of the inbox, with the id that can be typed."""
    return plain_data.dump_ask(info) | {"short_id": shorten_ask_id(info.ask_id)}


def show_command(ask_id: str) -> str:
    return hint(f"moot inbox show {shorten_ask_id(ask_id)}")


def advise_decision(ask_id: str) -> str:
    """Who can decide an approval, and how."""
    return hint(f"{decide_with()}: moot inbox approve {shorten_ask_id(ask_id)}, or deny")


def render_advice(info: pb.AskInfo) -> str:
    """A sentence that says who can answer the ask, and how."""
    typed = sanitize.line(answer_command(info))
    if info.kind == "question":
        return f"Answer with: {typed}"
    return f"{decide_with()}: {typed}, or deny."


def decide_with() -> str:
    """Who can decide an approval; clients with a token cannot."""
    return "The owner decides, on the daemon's machine, with" if remote_address() else "Decide with"


def render_ask(info: pb.AskInfo) -> list[str]:
    """The ask and who asks it in a few lines, sanitized."""
    if info.kind != "question":
        return [*_render_approval(info), *asker_lines.render_asker(info)]
    return [
        *asker_lines.render_asker(info),
        *(line for question in info.questions for line in questions.render_question(question)),
    ]


def _render_approval(info: pb.AskInfo) -> list[str]:
    why = [f"why: {sanitize.exact_line(info.reason)}", *approvals.explain_project(info)]
    return [sanitize.exact_line(info.line), *why]


async def _own_sender(connection: Connection) -> str:
    hello = pb.ClientMessage(hello=pb.Hello(version=PROTOCOL_VERSION, client="moot"))
    return str((await connection.request(hello)).welcome.default_sender)


def render_entry(info: pb.AskInfo, number: int, width: int, folder: str = "") -> list[str]:
    """One entry of the list of open asks, sanitized; says how much was cut."""
    what, *more = _render_approval(info) if info.kind != "question" else [_render_questions(info)]
    until = datetime.fromtimestamp(info.expires_at).astimezone().strftime("%a %d %b %H:%M")
    whose = f"{asker_lines.render_conversation(info)}, until {until}"
    where = [f"in {sanitize.name(folder)}"] if folder and info.kind != "question" else []
    head = f"{number:>2}  "
    under = " " * len(head)
    room = (width - len(head)) * _WHAT_ROWS
    rows = [
        head + _shorten_middle(what, room),
        *(under + line for line in (*where, *asker_lines.render_asker(info), *more, whose)),
    ]
    return [flow.wrap_text(row, width, indent=under) for row in rows]


def _shorten_middle(text: str, room: int) -> str:
    """Shorten a text in the middle and say by how much, so that different texts stay distinguishable."""
    if sanitize.columns(text) <= room:
        return text
    end = text[-room // 4 :]
    return f"{sanitize.cut_with_count(text[: -len(end)], room - sanitize.columns(end) - 1)} … {end}"


def _render_questions(info: pb.AskInfo) -> str:
    """The questions with their options on one line."""
    lines: list[str] = []
    for question in info.questions:
        labels = " / ".join(sanitize.name(option.label) for option in question.options)
        lines.append(sanitize.name(question.question) + (f" ({labels})" if labels else ""))
    return " · ".join(lines)


def render_instructions(found: list[pb.AskInfo]) -> list[str]:
    """How to show and answer the listed asks by number, for the kinds in the list."""
    kinds = {info.kind for info in found}
    lines = ["Show one in full with: moot inbox show N"]
    if "approval" in kinds:
        here = "Decide with: moot inbox approve N, or deny N"
        lines.append("Only the owner decides, on the daemon's machine" if remote_address() else here)
    if kinds - {"approval"}:
        lines.append('Answer with: moot inbox reply N "TEXT"')
    return [hint(line) for line in lines]
