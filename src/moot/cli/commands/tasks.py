"""`moot tasks`: the task lists of your conversations: list, show, add, and set the status."""

from collections.abc import Sequence
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import require_utf8, send_request
from moot.cli.name_completion import complete_agents, complete_tasks
from moot.cli.options import conversation_arguments, sender_option
from moot.cli.render import numbers, sanitize, terminal
from moot.domain.errors import BadRequest, NotFound
from moot.domain.task import TaskStatus
from moot.wire import moot_pb2 as pb

_list_options = (
    click.option(
        "--agent",
        default="",
        metavar="AGENT",
        shell_complete=complete_agents,
        help="Only tasks of conversations with this agent.",
    ),
    click.option(
        "--status", type=click.Choice([status.value for status in TaskStatus]), help="Only tasks with this status."
    ),
    click.option("--all", "everything", is_flag=True, help="Include tasks that are done."),
)


def _with_list_options(command: Any) -> Any:
    for option in reversed(_list_options):
        command = option(command)
    return command


@click.group(cls=CommandGroup, invoke_without_command=True)
@_with_list_options
@sender_option
@output.json_option
@click.pass_context
def tasks(context: click.Context, agent: str, sender: str, status: str | None, everything: bool) -> None:
    """List the open tasks of your conversations."""
    if context.invoked_subcommand is None:
        _list_tasks(agent, sender, status, everything)


@tasks.command("list")
@_with_list_options
@sender_option
@output.json_option
def list_tasks(agent: str, sender: str, status: str | None, everything: bool) -> None:
    """List the open tasks of your conversations."""
    _list_tasks(agent, sender, status, everything)


def _list_tasks(agent: str, sender: str, status: str | None, everything: bool) -> None:
    found = _fetch(pb.ListTasksMsg(agent=agent, sender=sender, status=status or "", all=everything))

    def render(_: Any) -> str:
        rows = [
            [task.task_id, task.status.replace("_", " "), f"{task.agent} as {task.sender}", task.title]
            for task in found
        ]
        return terminal.render_table(["TASK", "STATUS", "CONVERSATION", "TITLE"], rows) or "No open tasks."

    output.emit([_task_data(task) for task in found], render=render)


@tasks.command()
@click.argument("task", shell_complete=complete_tasks)
@output.json_option
def show(task: str) -> None:
    """Show TASK; the beginning of its id is enough."""
    found = [each for each in _fetch(pb.ListTasksMsg(all=True)) if each.task_id.startswith(task)]
    exact = [each for each in found if each.task_id == task] or found
    if not exact:
        raise NotFound(f"there is no task {task!r}", fix="`moot tasks --all` lists them.")
    if len(exact) > 1:
        named = ", ".join(each.task_id for each in exact[:5])
        raise BadRequest(f"{task!r} is ambiguous: {named}", fix="Give more characters of the id.")
    output.emit(_task_data(exact[0]), render=lambda _: _render_task(exact[0]))


@tasks.command()
@conversation_arguments
@click.argument("title")
@click.option("--description", default="", metavar="TEXT", help="What else is needed to do it.")
@output.json_option
def add(agent: str, sender: str, title: str, description: str) -> None:
    """Add a task to the conversation with AGENT."""
    request = pb.AddTaskMsg(
        agent=agent, sender=sender, title=require_utf8(title), description=require_utf8(description)
    )
    (added,) = send_request(pb.ClientMessage(add_task=request)).task_list.tasks
    output.emit(_task_data(added), render=lambda _: f"Added {added.task_id}: {sanitize.line(added.title)}")


@tasks.command("set")
@click.argument("task", shell_complete=complete_tasks)
@click.argument("status", type=click.Choice([status.value for status in TaskStatus]))
@output.json_option
def set_status(task: str, status: str) -> None:
    """Set the status of TASK; the beginning of its id is enough."""
    _change(task, status)


@tasks.command()
@click.argument("task", shell_complete=complete_tasks)
@output.json_option
def close(task: str) -> None:
    """Set TASK to done; the beginning of its id is enough."""
    _change(task, TaskStatus.DONE)


def _change(task: str, status: str) -> None:
    request = pb.ChangeTaskMsg(task_id=task, status=status)
    (changed,) = send_request(pb.ClientMessage(change_task=request)).task_list.tasks
    text = f"{changed.task_id} is {changed.status.replace('_', ' ')}: {sanitize.line(changed.title)}"
    output.emit(_task_data(changed), render=lambda _: text)


def _fetch(request: pb.ListTasksMsg) -> Sequence[pb.TaskInfo]:
    return send_request(pb.ClientMessage(list_tasks=request)).task_list.tasks


def _task_data(task: pb.TaskInfo) -> dict[str, Any]:
    shape = {
        "id": task.task_id,
        "agent": task.agent,
        "sender": task.sender,
        "title": task.title,
        "description": task.description,
        "status": task.status,
        "parent_id": task.parent_id or None,
        "taken_by": task.taken_by or None,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
    }
    return shape | ({"taint": task.taint} if task.taint else {})


def _render_task(task: pb.TaskInfo) -> str:
    facts = [
        ("id", task.task_id),
        ("status", task.status.replace("_", " ")),
        ("conversation", f"{task.agent} as {task.sender}"),
        ("part of", task.parent_id),
        ("taken by", task.taken_by),
        ("created", numbers.format_time(task.created_at)),
        ("changed", numbers.format_time(task.updated_at)),
        ("contains text from", task.taint),
    ]
    lines = [terminal.paint(sanitize.line(task.title), bold=True)]
    lines += [f"{name:13} {sanitize.line(value)}" for name, value in facts if value]
    lines += ["", sanitize.clean(task.description)] if task.description else []
    return "\n".join(lines)
