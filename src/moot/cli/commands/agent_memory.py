"""`moot memory`: what agents remember about you: list, show, search, forget, export."""

import json
from collections.abc import Callable
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.connect import require_utf8, run_connected, send_request
from moot.cli.name_completion import complete_agents, complete_memories
from moot.cli.options import sender_option
from moot.cli.render import numbers, sanitize, terminal
from moot.client.connection import Connection
from moot.domain.errors import NotFound
from moot.domain.near_names import suggest_name
from moot.domain.text import normalize_name
from moot.wire import moot_pb2 as pb


def _owner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    agent = click.option(
        "--agent", default="", metavar="AGENT", shell_complete=complete_agents, help="Only what this agent remembers."
    )
    return agent(sender_option(command))


@click.group(cls=CommandGroup, invoke_without_command=True)
@_owner_options
@output.json_option
@click.pass_context
def memory(context: click.Context, agent: str, sender: str) -> None:
    """List what agents remember about you."""
    if context.invoked_subcommand is None:
        _print_list(_fetch(agent, sender), "Nothing is remembered yet.")


@memory.command("list")
@_owner_options
@output.json_option
def list_memories(agent: str, sender: str) -> None:
    """List what agents remember about you."""
    _print_list(_fetch(agent, sender), "Nothing is remembered yet.")


@memory.command()
@click.argument("words")
@_owner_options
@output.json_option
def search(words: str, agent: str, sender: str) -> None:
    """List the memories that contain all WORDS, in their key, text or tags."""
    _print_list(_fetch(agent, sender, require_utf8(words)), "Nothing found.")


@memory.command()
@click.argument("key", shell_complete=complete_memories)
@_owner_options
@output.json_option
def show(key: str, agent: str, sender: str) -> None:
    """Show the memories with this KEY in full."""
    found = _require(key, agent, sender)
    output.emit([_memory_data(each) for each in found], render=lambda _: "\n\n".join(map(_render_memory, found)))


@memory.command()
@click.argument("key", shell_complete=complete_memories)
@_owner_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output.json_option
def forget(key: str, agent: str, sender: str, yes: bool) -> None:
    """Delete the memories with this KEY. The agents do not find them any more."""
    found = _require(key, agent, sender)
    if not yes and not output.wants_json():
        output.print_note("\n\n".join(map(_render_memory, found)))
        prompts.require_confirmation("Forget this?")
    for each in found:
        request = pb.ForgetMemoryMsg(agent=each.agent, sender=each.sender, key=each.key)
        send_request(pb.ClientMessage(forget_memory=request))
    names = ", ".join(f"{sanitize.name(each.agent)} as {sanitize.name(each.sender)}" for each in found)
    output.emit([_memory_data(each) for each in found], render=lambda _: f"Forgotten by {names}.")


@memory.command()
@_owner_options
@output.json_option
def export(agent: str, sender: str) -> None:
    """Print the memories as JSON lines, or as one document with --json."""
    found = _fetch(agent, sender)
    data = [_memory_data(each) for each in found]
    output.emit(data, render=lambda _: "\n".join(json.dumps(each, ensure_ascii=True) for each in data))


def _fetch(agent: str, sender: str, query: str = "") -> list[pb.MemoryInfo]:
    async def fetch(connection: Connection) -> list[pb.MemoryInfo]:
        request = pb.ClientMessage(list_memories=pb.ListMemoriesMsg(agent=agent, sender=sender, query=query))
        found: list[pb.MemoryInfo] = []
        while True:
            page = (await connection.request(request)).memory_list
            found.extend(page.memories)
            if not page.next_cursor:
                return found
            request.list_memories.cursor = page.next_cursor

    return run_connected(fetch)


def _require(key: str, agent: str, sender: str) -> list[pb.MemoryInfo]:
    key, everything = normalize_name(key), _fetch(agent, sender)
    found = [each for each in everything if each.key == key]
    if not found:
        near = suggest_name(key, {each.key for each in everything})
        raise NotFound(f"there is no memory {key!r}", fix=f"{near}`moot memory` lists them.")
    return found


def _print_list(found: list[pb.MemoryInfo], nothing: str) -> None:
    def render(_: Any) -> str:
        rows = [
            [each.key, f"{each.agent} as {each.sender}", numbers.format_time(each.updated_at), each.content]
            for each in found
        ]
        return terminal.render_table(["KEY", "CONVERSATION", "CHANGED", "MEMORY"], rows) or nothing

    output.emit([_memory_data(each) for each in found], render=render)


def _memory_data(info: pb.MemoryInfo) -> dict[str, Any]:
    shape = {
        "agent": info.agent,
        "sender": info.sender,
        "key": info.key,
        "content": info.content,
        "kind": info.kind,
        "tags": list(info.tags),
        "confidence": info.confidence,
        "uses": info.uses,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
    }
    return shape | ({"taint": info.taint} if info.taint else {})


def _render_memory(info: pb.MemoryInfo) -> str:
    facts = [
        ("conversation", f"{info.agent} as {info.sender}"),
        ("kind", info.kind),
        ("tags", ", ".join(info.tags)),
        ("changed", numbers.format_time(info.updated_at)),
        ("contains text from", info.taint),
    ]
    lines = [terminal.paint(sanitize.line(info.key), bold=True)]
    lines += [f"{name:13} {sanitize.line(value)}" for name, value in facts if value]
    return "\n".join([*lines, *(f"> {line}" for line in sanitize.clean(info.content).split("\n"))])
