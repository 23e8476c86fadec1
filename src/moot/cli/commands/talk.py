"""Commands on an active conversation: reply, kill, compact."""

import click

from moot.cli import output
from moot.cli.connect import require_utf8, run_connected, send_request
from moot.cli.follow import open_asks
from moot.cli.follow.lane_progress import LaneProgress
from moot.cli.options import conversation_arguments
from moot.cli.render import questions, sanitize
from moot.cli.render.numbers import format_plural
from moot.cli.stdin import read_stdin
from moot.client.connection import Connection
from moot.domain.errors import Conflict
from moot.wire import moot_pb2 as pb


@click.command()
@conversation_arguments
@click.argument("text")
@click.option("--literal", is_flag=True, help="Send TEXT literally, even if it is the number of an option.")
@output.json_option
def reply(agent: str, sender: str, text: str, literal: bool) -> None:
    """Answer the oldest open question of AGENT. TEXT may be - for stdin.

    If the question has options, a number selects one (1,3 selects several where allowed);
    anything else is sent as text. `moot status` shows the questions.
    """
    typed = read_stdin() if text == "-" else require_utf8(text)
    content = run_connected(lambda connection: _reply(connection, agent, sender, typed, literal=literal))
    chosen = f" with {sanitize.line(content, 60)}" if content != typed else ""
    data = {"agent": agent, "answered": True, "content": content}
    output.emit(data, render=lambda _: f"Answered{chosen}; the run continues.")


async def _reply(connection: Connection, agent: str, sender: str, typed: str, *, literal: bool) -> str:
    open_here = await open_asks.list_open_asks(connection, agent, sender)
    open_questions = [info for info in open_here if info.kind == "question"]
    if open_here and not open_questions:
        raise Conflict(
            "it waits for an approval; text cannot approve a call:\n" + "\n".join(open_asks.render_ask(open_here[0])),
            fix=open_asks.render_advice(open_here[0]),
        )
    content = typed if literal or not open_questions else _resolve_option(open_questions[0], typed)
    answer = pb.ReplyToAsk(agent=agent, sender=sender, content=content)
    if open_questions:
        # An option by its number is one of this question.
        answer = questions.address_reply(open_questions[0], agent, sender, content)
    await connection.request(pb.ClientMessage(reply_to_ask=answer))
    return content


def _resolve_option(oldest: pb.AskInfo, typed: str) -> str:
    """The label of a numbered option, if the oldest ask is a single question with options."""
    if len(oldest.questions) != 1:
        return typed
    chosen = questions.parse_answer(oldest.questions[0], typed)
    return typed if chosen == typed.strip() else chosen


@click.command()
@conversation_arguments
@output.json_option
def kill(agent: str, sender: str) -> None:
    """Stop the active run and the background commands of a conversation. Queued messages stay."""
    answer = send_request(pb.ClientMessage(kill=pb.KillMsg(agent=agent, sender=sender))).pong
    data = {"agent": agent, "killed": answer.stopped, "commands": answer.commands}
    output.emit(data, render=lambda _: _describe_kill(sanitize.name(agent), answer))


def _describe_kill(name: str, answer: pb.Pong) -> str:
    commands = format_plural(answer.commands, "background command") if answer.commands else ""
    if answer.stopped:
        return f"Stopped {name}{' and ' if commands else ''}{commands}. Your message is kept."
    return f"Stopped {commands} of {name}; no run was active." if commands else f"{name} has no active run here."


@click.command()
@conversation_arguments
@output.json_option
def compact(agent: str, sender: str) -> None:
    """Compact the history into an archive once the conversation is idle. Ctrl-C before that changes nothing."""
    message = pb.ClientMessage(compact=pb.CompactMsg(agent=agent, sender=sender, tell_queued=True))
    with output.progress("Compacting") as bar:
        answer = run_connected(lambda connection: connection.request(message, LaneProgress(bar, "Compacting"))).compact
    data = {"number": answer.number, "title": answer.title, "summary": answer.summary}
    output.emit(
        data,
        render=lambda _: f"Archive {answer.number}: {sanitize.line(answer.title)}\n\n{sanitize.clean(answer.summary)}",
    )
