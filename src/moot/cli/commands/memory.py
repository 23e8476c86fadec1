"""Commands that read stored data: history, conversations, archives, recall, usage."""

import sys
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from itertools import zip_longest
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import require_utf8, run_connected, send_request
from moot.cli.name_completion import complete_agents, complete_archives
from moot.cli.options import conversation_arguments, sender_option
from moot.cli.program import hint
from moot.cli.render import (
    calls,
    colours,
    flow,
    group_background,
    numbers,
    plain_data,
    run_lines,
    sanitize,
    teammate_lines,
    terminal,
)
from moot.cli.render.user_messages import list_sent_calls, render_attachments, render_note
from moot.client.connection import Connection
from moot.domain.errors import NotFound
from moot.domain.mail import MAIL_AUTHOR, list_mail_in
from moot.domain.task_notification import TASK_AUTHOR, list_notifications_in
from moot.wire import moot_pb2 as pb

# Characters of a tool's output shown in a history; --json has all of it.
_TOOL_COLUMNS = 75
_NOTICE_COLUMNS = 160
# Conversations per page.
_PAGE = 1_000

_Listed = dict[tuple[str, str], pb.ConversationInfo]


def speaker_name(entry: pb.HistoryMessage, primary: str, asker: str = colours.USER) -> str:
    """The author of a message: the agent, or the sender of a user message."""
    return entry.agent or (asker if entry.role == "user" else primary)


def render_transcript(
    messages: Sequence[pb.HistoryMessage],
    primary: str,
    *,
    asker: str = colours.USER,
    with_private: bool = False,
    sent_calls: Collection[str] | None = None,
) -> str:
    """Render messages as text: authors, one line per tool call, and the outcome of turns that failed.

    `sent_calls` are those that sent a message to the person, if they are not all in these messages. Text that was not
    sent is shown only if it is wanted.
    """
    sent_calls = list_sent_calls(messages) if sent_calls is None else sent_calls
    blocks: list[str] = []
    for entry in messages:
        if entry.role == "tool" and entry.tool_call_id in sent_calls:
            continue
        if entry.role == "tool":
            blocks.append(_render_result(entry))
            continue
        if entry.role == "user" and blocks:
            blocks.append("")
        name = speaker_name(entry, primary, asker)
        if (entry.content or entry.role == "user") and (with_private or not entry.private):
            blocks += _render_notices(entry, primary) or [_render_content(name, primary, entry)]
        for sent in entry.sent:
            blocks.append(_render_speech(name, primary, sent.content, render_note(sent)))
            blocks += [terminal.paint(f"  {line}", dim=True) for line in render_attachments(sent)]
        blocks += [
            terminal.paint(f"  ⚒ {calls.render_call(call, _TOOL_COLUMNS)}", dim=True)
            for call in entry.tool_calls
            if call.call_id not in sent_calls
        ]
        if entry.outcome not in ("", "completed"):
            note = run_lines.render_outcome(entry.outcome, entry.error)
            text = flow.wrap_text(f"  ({sanitize.line(note)})", terminal.row_width(sys.stdout), indent="   ")
            blocks.append(terminal.paint(text, fg="red"))
    return "\n".join(blocks)


def _render_result(entry: pb.HistoryMessage) -> str:
    failed, text = calls.render_result(entry.content, _TOOL_COLUMNS, is_error=entry.is_error)
    source = f" (words from {sanitize.line(entry.taint)})" if entry.taint else ""
    mark = terminal.paint(failed, fg="red") if failed else terminal.paint("→", dim=True)
    return f"  {mark} {terminal.paint(f'{text}{source}', dim=True)}"


def _render_notices(entry: pb.HistoryMessage, primary: str) -> list[str]:
    """Ends of workers on one line each, and messages of other agents; empty for any other message."""
    if entry.agent == TASK_AUTHOR:
        ends = map(teammate_lines.describe_end, list_notifications_in(entry.content) or [])
        return [f"⚑ {sanitize.exact_line(end, _NOTICE_COLUMNS)}" for end in ends]
    if entry.agent == MAIL_AUTHOR:
        arrow = f"→ {sanitize.name(primary)}: "
        heads = ((f"✉ {sanitize.name(sender)} {arrow}", body) for sender, body in list_mail_in(entry.content))
        return [f"{head}{_hang(body, sanitize.columns(head))}" for head, body in heads]
    return []


def _render_content(name: str, primary: str, entry: pb.HistoryMessage) -> str:
    is_guest = entry.role != "user" and entry.agent not in ("", primary)
    note = " (not sent)" if entry.private else " (guest)" if is_guest else ""
    return _render_speech(name, primary, entry.content, note)


def _render_speech(name: str, primary: str, content: str, note: str) -> str:
    head = terminal.paint(sanitize.name(name), fg=colours.name_colour(name, primary), bold=True)
    width = sanitize.columns(sanitize.name(name)) + len(note)
    return f"{head}{terminal.paint(note, dim=True) if note else ''} › {_hang(content, width + len(' › '))}"


def _hang(content: str, used: int) -> str:
    """Indent a message behind a name that takes `used` columns, so that no line of it can imitate another message.

    The indentation is deeper than that of tool calls and outcomes, so it cannot imitate those either.
    """
    wrapped = flow.Flow(terminal.row_width(sys.stdout), used=used, indent="    ")
    rows = wrapped.feed(sanitize.clean(content).rstrip()) + wrapped.end()
    return "\n".join(row.rstrip() for row in rows.split("\n"))


def _render_queued(content: str, guest: str) -> str:
    state = f"waiting, for {sanitize.line(guest)}" if guest else "waiting"
    return terminal.paint(f"({state}) {sanitize.line(content)}", dim=True)


@click.command()
@conversation_arguments
@click.option("--all", "everything", is_flag=True, help="Include archived messages and text that was not sent to you.")
@click.option("-n", "last", type=click.IntRange(min=1), help="Only the last N messages.")
@output.json_option
def history(agent: str, sender: str, everything: bool, last: int | None) -> None:
    """Show the conversation with AGENT."""
    request = pb.GetHistoryMsg(agent=agent, sender=sender, all=everything, newest=last or 0)
    answer = send_request(pb.ClientMessage(get_history=request)).history
    messages = list(answer.messages)
    while answer.next_seq:
        request.first_seq = answer.next_seq
        answer = send_request(pb.ClientMessage(get_history=request)).history
        messages.extend(answer.messages)

    queued = list(zip_longest(answer.queued, answer.queued_guests, fillvalue=""))

    def render(_: Any) -> str:
        parts = [terminal.paint(sanitize.line(answer.title), bold=True)] if answer.title else []
        if answer.summary and not everything:
            parts.append(terminal.paint(f"── archived: {sanitize.line(answer.summary_title)} ──", dim=True))
        parts.append(render_transcript(messages, agent, with_private=everything))
        parts += [_render_queued(content, guest) for content, guest in queued]
        return "\n".join(part for part in parts if part) or "No messages yet."

    data: dict[str, Any] = {
        "title": answer.title,
        "summary_title": "" if everything else answer.summary_title,
        "summary": "" if everything else answer.summary,
        "messages": [plain_data.dump_message(entry, with_private=everything) for entry in messages],
        "queued": [{"content": content, "guest": guest} for content, guest in queued],
    }
    output.emit(data, render=render)


_all_option = click.option(
    "--all", "everything", is_flag=True, help="Include conversations of teammates, and list background runs one by one."
)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--agent", default="", shell_complete=complete_agents, help="Only conversations with this agent.")
@sender_option
@_all_option
@output.json_option
@click.pass_context
def conversations(context: click.Context, agent: str, sender: str, everything: bool) -> None:
    """List the conversations, newest first. Background runs are grouped by agent.

    With --json they are not grouped.
    """
    if context.invoked_subcommand is None:
        _list_conversations(agent, sender, everything)


@conversations.command("list")
@click.option("--agent", default="", shell_complete=complete_agents, help="Only conversations with this agent.")
@sender_option
@_all_option
@output.json_option
def list_conversations(agent: str, sender: str, everything: bool) -> None:
    """List the conversations, newest first."""
    _list_conversations(agent, sender, everything)


def _list_conversations(agent: str, sender: str, everything: bool) -> None:
    request = pb.ListConversationsMsg(agent=agent, sender=sender, all=everything, limit=_PAGE)
    listed = run_connected(lambda connection: _fetch_all_conversations(connection, request))
    found = sorted(listed, key=lambda info: info.updated_at, reverse=True)

    def render(_: Any) -> str:
        rows = [
            [
                info.agent,
                info.sender,
                str(info.message_count),
                str(info.archives),
                "running" if info.running else numbers.format_time(info.updated_at),
                info.taint,
                info.title,
            ]
            for info in (found if everything else group_background.group_conversations(found))
        ]
        headers = ["AGENT", "SENDER", "MESSAGES", "ARCHIVES", "LAST", "UNTRUSTED", "TITLE"]
        return terminal.render_table(headers, rows) or hint('No conversations yet. Start one: moot ask moot "Hello"')

    output.emit([plain_data.dump_conversation(info) for info in found], render=render)


async def _fetch_all_conversations(
    connection: Connection, request: pb.ListConversationsMsg
) -> list[pb.ConversationInfo]:
    """Fetch all pages. Conversations used meanwhile move to the first page, which is fetched again."""
    found: _Listed = {}
    async with aclosing(_fetch_pages(connection, request)) as pages:
        async for page in pages:
            found |= page
    if len(found) > request.limit:
        async with aclosing(_fetch_pages(connection, request)) as pages:
            async for page in pages:
                if all(found.get(key) == info for key, info in page.items()):
                    break
                found |= page
    return list(found.values())


async def _fetch_pages(connection: Connection, request: pb.ListConversationsMsg) -> AsyncGenerator[_Listed, None]:
    message = pb.ClientMessage(list_conversations=request)
    while True:
        answer = (await connection.request(message)).conversation_list
        yield {(info.agent, info.sender): info for info in answer.conversations}
        if not answer.next_cursor:
            return
        message.list_conversations.cursor = answer.next_cursor


@click.command()
@conversation_arguments
@click.argument("number", type=click.IntRange(min=1), required=False, shell_complete=complete_archives)
@output.json_option
def archives(agent: str, sender: str, number: int | None) -> None:
    """List the archives of the conversation with AGENT, or show archive NUMBER with its messages."""
    if number is not None:
        _show_archive(agent, sender, number)
        return
    request = pb.ListArchivesMsg(agent=agent, sender=sender)
    found = send_request(pb.ClientMessage(list_archives=request)).archive_list.archives

    def render(_: Any) -> str:
        rows = [
            [str(info.number), numbers.format_time(info.archived_at), f"{info.first_seq}–{info.last_seq}", info.title]
            for info in found
        ]
        return terminal.render_table(["NUMBER", "ARCHIVED", "MESSAGES", "TITLE"], rows) or "No archives yet."

    output.emit([plain_data.dump_archive(info) for info in found], render=render)


def _show_archive(agent: str, sender: str, number: int) -> None:
    request = pb.GetArchiveMsg(agent=agent, sender=sender, number=number)
    info = send_request(pb.ClientMessage(get_archive=request)).archive
    while info.next_seq:
        request.first_seq = info.next_seq
        more = send_request(pb.ClientMessage(get_archive=request)).archive
        info.messages.extend(more.messages)
        info.next_seq = more.next_seq
    output.emit(plain_data.dump_archive(info), render=lambda _: _render_archive(info, agent))


def _render_archive(info: pb.ArchiveInfo, agent: str) -> str:
    head = terminal.paint(f"Archive {info.number}: {sanitize.line(info.title)}", bold=True)
    # Quoted line by line, so that a summary cannot imitate an archive's heading or a message.
    quoted = "\n".join(f"> {line}" for line in sanitize.clean(info.summary).splitlines())
    summary = terminal.paint(quoted, dim=True)
    return "\n".join(part for part in (head, summary, render_transcript(info.messages, agent)) if part)


def _render_marked(info: pb.ArchiveInfo) -> pb.ArchiveInfo:
    """An archive with a mark wherever only part of a message is included."""
    for message in info.messages:
        before = "… " if message.offset else ""
        after = " …" if message.offset + len(message.content) < message.length else ""
        message.content = f"{before}{message.content}{after}"
    return info


@click.command()
@conversation_arguments
@click.argument("query")
@click.option("-n", "limit", type=click.IntRange(1, 100), default=5, show_default=True, help="At most N archives.")
@output.json_option
def recall(agent: str, sender: str, query: str, limit: int) -> None:
    """Search the archives of the conversation with AGENT for QUERY."""
    request = pb.RecallMsg(agent=agent, sender=sender, query=require_utf8(query), limit=limit)
    found = send_request(pb.ClientMessage(recall=request)).recalled.archives
    output.emit(
        [plain_data.dump_archive(info) for info in found],
        render=lambda _: (
            "\n\n".join(_render_archive(_render_marked(info), agent) for info in found) or "No match in the archives."
        ),
    )


@click.command()
@click.argument("agent", default="", shell_complete=complete_agents)
@sender_option
@click.option("--all", "everything", is_flag=True, help="List background runs one by one.")
@output.json_option
def usage(agent: str, sender: str, everything: bool) -> None:
    """Show tokens and cost per conversation and model, for all or for one AGENT.

    Usage of teammates is listed below the conversation they worked for; background runs are grouped by
    agent. With --json they are not grouped.
    """
    found = send_request(pb.ClientMessage(get_usage=pb.GetUsageMsg(agent=agent, sender=sender))).usage.usage
    if agent and not found:
        _require_conversation(agent, sender)

    def render(_: Any) -> str:
        shown = found if everything else group_background.group_usage(found)
        rows = [
            [
                f"└ {info.agent}" if info.root_agent else info.agent,
                info.sender,
                info.model or "no model",
                str(info.runs),
                numbers.format_count(info.prompt),
                numbers.format_count(info.completion),
                numbers.format_cost(info.cost),
            ]
            for info in sorted(shown, key=lambda each: (each.root_agent or each.agent, each.sender, each.root_agent))
        ]
        headers = ["AGENT", "SENDER", "MODEL", "RUNS", "PROMPT", "COMPLETION", "COST"]
        return terminal.render_table(headers, rows) or "No usage yet."

    output.emit([plain_data.dump_spend(info) for info in found], render=render)


def _require_conversation(agent: str, sender: str) -> None:
    """Raise if there is no conversation with the agent; one without usage is fine."""
    request = pb.ListConversationsMsg(agent=agent, sender=sender, limit=1)
    if not send_request(pb.ClientMessage(list_conversations=request)).conversation_list.conversations:
        raise NotFound(
            f"there is no conversation with {sanitize.name(agent)}"
            + (f" as {sanitize.name(sender)}" if sender else ""),
            fix="`moot conversations` lists them.",
        )
