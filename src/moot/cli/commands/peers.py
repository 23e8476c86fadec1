"""`moot goals` and `moot peers`: who can be written to, and the messages between agents."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from json import dumps
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import require_utf8, send_request
from moot.cli.follow.follow_events import follow_events
from moot.cli.name_completion import complete_agents
from moot.cli.options import sender_option
from moot.cli.program import hint
from moot.cli.render import numbers, peer_data, plain_data, sanitize, terminal
from moot.cli.render.event_lines import Cell, render_row
from moot.cli.stdin import read_stdin
from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb

_ID_COLUMNS = 8
_TEXT_COLUMNS = 60
_MAIL_KINDS = frozenset(
    {pb.MAIL_SENT, pb.MAIL_DELIVERED, pb.MAIL_READ, pb.MAIL_EVICTED, pb.MAIL_DROPPED, pb.BRIDGE_REFUSED}
)


@click.command()
@click.argument("agent", default="", shell_complete=complete_agents)
@output.json_option
def goals(agent: str) -> None:
    """List the goals that agents can write to: active runs and recent conversations, of AGENT or of all agents."""
    found = send_request(pb.ClientMessage(list_goals=pb.ListGoalsMsg(agent=agent))).goals.goals

    def render(_: Any) -> str:
        rows = [
            [
                goal.goal_id[:_ID_COLUMNS],
                f"{sanitize.name(goal.agent)} as {sanitize.name(goal.owner)}",
                goal.kind,
                goal.state,
                str(goal.unread or ""),
                sanitize.exact_line(goal.label, _TEXT_COLUMNS),
            ]
            for goal in found
        ]
        table = terminal.render_table(["GOAL", "CONVERSATION", "KIND", "STATE", "UNREAD", "ABOUT"], rows)
        nothing = "No goals. A conversation is one while it has a run, and for a day after its last message."
        return table or output.wrap_prose(nothing, sys.stdout)

    output.emit([peer_data.to_goal_data(goal) for goal in found], render=render)


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def peers(context: click.Context) -> None:
    """Messages between agents: list, send, watch, dead, resend, outbox, daemons, mute, unmute.

    Without a command: list.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_peers)


@peers.command("list")
@click.option("--from", "agent", default="", metavar="AGENT", help="Show which agents AGENT may write to.")
@output.json_option
def list_peers(agent: str) -> None:
    """List the agents with their goals and unread messages."""
    found = send_request(pb.ClientMessage(list_peers=pb.ListPeersMsg(agent=agent))).peers.peers

    def render(_: Any) -> str:
        rows = [
            [
                sanitize.name(peer.agent_id),
                "yes" if peer.reachable else "no",
                str(peer.goals or ""),
                str(peer.unread or ""),
                "muted" if peer.muted else "yes" if peer.wake else "",
                sanitize.exact_line(peer.description, _TEXT_COLUMNS),
            ]
            for peer in found
        ]
        if not any(peer.daemon for peer in found):
            return terminal.render_table(["AGENT", "REACHABLE", "GOALS", "UNREAD", "WAKES", "DESCRIPTION"], rows)
        for peer, row in zip(found, rows, strict=True):
            row.insert(-1, numbers.format_time(peer.last_seen) if peer.daemon else "")
        return terminal.render_table(
            ["AGENT", "REACHABLE", "GOALS", "UNREAD", "WAKES", "LAST SEEN", "DESCRIPTION"], rows
        )

    output.emit([peer_data.to_peer_data(peer) for peer in found], render=render)


@peers.command()
@click.argument("agent", shell_complete=complete_agents)
@click.argument("message")
@sender_option
@click.option("--goal", "goal_id", default="", metavar="GOAL", help="Send to this goal only; see `moot goals`.")
@click.option("--correlation-id", default="", metavar="UUID", help="An id that an answer repeats.")
@output.json_option
def send(agent: str, message: str, sender: str, goal_id: str, correlation_id: str) -> None:
    """Send MESSAGE to all goals of AGENT. An agent reads it at its next step or turn.

    With - the message comes from stdin.
    """
    content = read_stdin() if message == "-" else require_utf8(message)
    request = pb.SendMailMsg(
        agent=agent, content=content, sender=sender, goal_id=goal_id, correlation_id=correlation_id
    )
    report = send_request(pb.ClientMessage(send_mail=request)).mail_report
    if not report.delivered_to and not report.queued_for:
        raise NotFound(
            "the message was not sent: " + "; ".join(report.unreachable_reasons),
            fix="See `moot goals`. A conversation can be written to for a day after its last message.",
        )

    def render(_: Any) -> str:
        to = sanitize.name(agent)
        sent = [f"Sent to {_count_goals(report.delivered_to)} of {to}."] if report.delivered_to else []
        if report.queued_for:
            sent.append(hint(f"Waits for {_count_goals(report.queued_for)} of {to}; `moot peers outbox` lists it."))
        return "\n".join([*sent, *(f"Note: {sanitize.exact(reason)}." for reason in report.unreachable_reasons)])

    data = {
        "delivered_to": list(report.delivered_to),
        "unreachable_reasons": list(report.unreachable_reasons),
        "queued_for": list(report.queued_for),
    }
    output.emit(data, render=render)


def _count_goals(goal_ids: Sequence[str]) -> str:
    return f"{len(goal_ids)} goal{'' if len(goal_ids) == 1 else 's'}"


@peers.command()
@click.option("-n", "count", type=click.IntRange(min=1), help="Stop after N events.")
@click.option("--ndjson", is_flag=True, help="Print each event as one line of JSON, as it happens.")
@output.json_option
def watch(count: int | None, ndjson: bool) -> None:
    """Follow the messages between agents, until Ctrl-C. Continues when a stopped daemon is back."""
    if output.wants_json() and count is None:
        raise click.UsageError("--json needs -n, since live events have no end; --ndjson prints line by line.")
    asyncio.run(_watch(count, ndjson=ndjson))


async def _watch(limit: int | None, *, ndjson: bool) -> None:
    collected: list[dict[str, Any]] = []
    shown = 0
    async with aclosing(follow_events()) as found:
        async for event in found:
            if event.kind == pb.GAP:
                output.print_prose(
                    "Some messages may not have been shown: the daemon does not keep these events any more."
                )
            if event.kind not in _MAIL_KINDS:
                continue
            shown += 1
            if output.wants_json():
                collected.append(plain_data.dump_event(event))
            else:
                output.write((dumps(plain_data.dump_event(event)) if ndjson else _render_mail(event)) + "\n")
            if shown == limit:
                break
    if output.wants_json():
        output.emit(collected)


def _render_mail(event: pb.AgentEventMsg) -> str:
    kind = pb.AgentEventKind.Name(event.kind).lower()
    mail = getattr(event.body, kind)
    names = f"{sanitize.name(mail.from_agent)} → {sanitize.name(mail.to_agent)}"
    text = sanitize.exact_line(mail.body, _TEXT_COLUMNS)
    reason = f"({sanitize.exact_line(mail.reason)})" if mail.reason else ""
    cells = [Cell(str(event.seq), {"dim": True}), Cell(numbers.format_moment(event.timestamp)), Cell(kind), Cell(names)]
    return render_row(cells, "  ".join(filter(None, (text, reason))), terminal.row_width(sys.stdout))


@peers.command()
@output.json_option
def dead() -> None:
    """List undelivered messages: evicted or deleted before they were read, or returned by another daemon."""
    found = send_request(pb.ClientMessage(list_dead_mail=pb.ListDeadMailMsg())).dead_mail.mail

    def render(_: Any) -> str:
        rows = [
            [
                each.mail.mail_id,
                f"{sanitize.name(each.mail.from_agent)} → {sanitize.name(each.mail.to_agent)}",
                numbers.format_time(each.evicted_at),
                sanitize.exact_line(each.mail.body, _TEXT_COLUMNS),
                sanitize.exact_line(each.mail.reason, _TEXT_COLUMNS),
            ]
            for each in found
        ]
        headings = ["MAIL", "FROM → TO", "EVICTED", "MESSAGE", "REASON"]
        if not any(each.mail.reason for each in found):
            headings, rows = headings[:-1], [row[:-1] for row in rows]
        return terminal.render_table(headings, rows) or "No messages were evicted."

    output.emit([peer_data.to_dead_mail_data(each) for each in found], render=render)


@peers.command()
@click.argument("mail_id")
@output.json_option
def resend(mail_id: str) -> None:
    """Send an evicted or returned message again."""
    mail = send_request(pb.ClientMessage(resend_mail=pb.ResendMailMsg(mail_id=mail_id))).mail_resent
    sent = f"Sent again to {sanitize.name(mail.to_agent)}."
    shown = f"{sent}\nNote: {sanitize.exact(mail.reason)}." if mail.reason else sent
    output.emit(peer_data.to_mail_data(mail), render=lambda _: shown)


@peers.command()
@output.json_option
def outbox() -> None:
    """List messages that other daemons have not received yet."""
    found = send_request(pb.ClientMessage(list_outbox=pb.ListOutboxMsg())).outbox

    def render(_: Any) -> str:
        rows = [
            [
                each.mail.mail_id,
                f"{each.mail.from_agent} → {each.mail.to_agent}",
                "sent" if each.published else "queued",
                numbers.format_time(each.mail.sent_at),
                sanitize.exact_line(each.mail.body, _TEXT_COLUMNS),
            ]
            for each in found.mail
        ]
        more = found.total - len(rows)
        table = terminal.render_table(["MAIL", "FROM → TO", "STATE", "SENT", "MESSAGE"], rows)
        rest = [f"{more} more."] if more > 0 else []
        return "\n".join([table, *rest]) if rows else "No messages wait for other daemons."

    output.emit([peer_data.to_outbox_data(each) for each in found.mail], render=render)


@peers.command()
@click.option("--forget", default="", metavar="NAME", help="Forget the daemon NAME and its key.")
@output.json_option
def daemons(forget: str) -> None:
    """List the other daemons on the broker, with the fingerprints of their keys."""
    found = send_request(pb.ClientMessage(list_daemons=pb.ListDaemonsMsg(forget=forget))).daemons

    def render(_: Any) -> str:
        if not found.name:
            return hint("This daemon has no broker that others are on. See: moot help peers")
        own = f"This daemon is {sanitize.name(found.name)}, key {found.fingerprint}."
        rows = [
            [
                sanitize.name(daemon.name),
                "live" if daemon.live else "away",
                numbers.format_time(daemon.last_seen),
                daemon.fingerprint,
                sanitize.exact_line(daemon.version, _ID_COLUMNS),
            ]
            for daemon in found.daemons
        ]
        table = terminal.render_table(["DAEMON", "STATE", "LAST SEEN", "KEY", "VERSION"], rows)
        problems = [f"{daemon.name}: {daemon.problem}." for daemon in found.daemons if daemon.problem]
        notes = [f"{problem}." for problem in (found.problem,) if problem] + problems
        return "\n".join([own, table or "No other daemons are known.", *map(sanitize.exact, notes)])

    output.emit([peer_data.to_daemon_data(daemon) for daemon in found.daemons], render=render)


@peers.command()
@click.argument("agent", default="", shell_complete=complete_agents)
@output.json_option
def mute(agent: str) -> None:
    """Start no more runs of AGENT because of messages; without AGENT, list the muted agents."""
    _set_muted(agent, muted=True)


@peers.command()
@click.argument("agent", shell_complete=complete_agents)
@output.json_option
def unmute(agent: str) -> None:
    """Start runs of AGENT because of messages again."""
    _set_muted(agent, muted=False)


def _set_muted(agent: str, *, muted: bool) -> None:
    answer = send_request(pb.ClientMessage(mute_agent=pb.MuteAgentMsg(agent=agent, muted=muted))).agent_muted

    def render(_: Any) -> str:
        if not answer.agents:
            return "No agents are muted."
        return "Muted: " + ", ".join(map(sanitize.name, answer.agents)) + "."

    output.emit({"muted": list(answer.agents)}, render=render)
