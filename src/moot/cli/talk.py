"""Commands that act on a conversation in progress: reply, kill, compact."""

import click

from moot.cli import output, safe
from moot.cli.connect import ask_daemon, stdin_text, utf8
from moot.cli.options import conversation
from moot.wire import moot_pb2 as pb


@click.command()
@conversation
@click.argument("text")
@output.json_option
def reply(agent: str, sender: str, text: str) -> None:
    """Answer the oldest question that AGENT is waiting on. TEXT may be - for stdin."""
    content = stdin_text() if text == "-" else utf8(text)
    ask_daemon(pb.ClientMessage(reply_to_ask=pb.ReplyToAsk(agent=agent, sender=sender, content=content)))
    output.emit({"agent": agent, "answered": True}, render=lambda _: "Answered; the run goes on.")


@click.command()
@conversation
@output.json_option
def kill(agent: str, sender: str) -> None:
    """Stop the run in flight, if there is one. Messages that wait stay."""
    ask_daemon(pb.ClientMessage(kill=pb.KillMsg(agent=agent, sender=sender)))
    output.emit({"agent": agent, "killed": True}, render=lambda _: "Nothing of it runs any more.")


@click.command()
@conversation
@output.json_option
def compact(agent: str, sender: str) -> None:
    """Turn the history into an archive, once the conversation is free."""
    with output.progress("Compacting"):
        answer = ask_daemon(pb.ClientMessage(compact=pb.CompactMsg(agent=agent, sender=sender))).compact
    data = {"number": answer.number, "title": answer.title, "summary": answer.summary}
    output.emit(
        data,
        render=lambda _: f"Archive {answer.number}: {safe.line(answer.title)}\n\n{safe.clean(answer.summary)}",
    )
