"""`moot workflow`: workflows: run, show, list, history, cancel, save, schedule, check, remove."""

import os
import time
from contextlib import suppress
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.commands.ask import working_folder
from moot.cli.connect import caller_search_path, send_request
from moot.cli.exits import Exit
from moot.cli.follow import workflow_progress
from moot.cli.job_options import one_schedule_error, read_schedule, save_job, schedule_options
from moot.cli.name_completion import complete_agents, complete_workflow_runs, complete_workflows
from moot.cli.options import cwd_option, sender_option
from moot.cli.program import hint
from moot.cli.render import cron_lines, sanitize, terminal, workflow_lines
from moot.cli.render.numbers import format_plural
from moot.cli.render.workflow_lines import Canvas
from moot.client.errors import RunFailed
from moot.domain.errors import BadRequest, NotFound, TooLarge
from moot.domain.workflow_file import SUFFIX
from moot.domain.workflow_yaml import MAX_BYTES
from moot.wire import moot_pb2 as pb

_ascii_option = click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
_run_argument = click.argument("run", shell_complete=complete_workflow_runs)
_workflow_argument = click.argument("workflow", metavar="FILE|NAME", shell_complete=complete_workflows)


@click.group(cls=CommandGroup, invoke_without_command=True)
@sender_option
@output.json_option
@click.pass_context
def workflow(context: click.Context, sender: str) -> None:
    """List your saved workflows."""
    if context.invoked_subcommand is None:
        _list_workflows(sender)


@workflow.command("list")
@sender_option
@output.json_option
def list_workflows(sender: str) -> None:
    """List your saved workflows: their steps, when they run next, and how the last run ended."""
    _list_workflows(sender)


def _list_workflows(sender: str) -> None:
    request = pb.ClientMessage(list_workflows=pb.ListWorkflowsMsg(sender=sender))
    found = send_request(request).workflows.workflows
    output.emit(
        [workflow_lines.dump_workflow(info) for info in found], render=lambda _: workflow_lines.render_workflows(found)
    )


@workflow.command()
@_workflow_argument
@click.option("--bg", "background", is_flag=True, help="Print the id of the run and return.")
@click.option(
    "--report-to",
    default="",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="Also report the result in your conversation with AGENT.",
)
@cwd_option("Working directory of the steps. Default: the current one.")
@sender_option
@_ascii_option
@output.json_option
def run(workflow: str, *, background: bool, report_to: str, cwd: str, sender: str, ascii_only: bool) -> int:
    """Run a workflow: a FILE, or a saved one by NAME. Shows its progress and prints the results.

    Exits with 0 if it completed, with 1 if it failed or was cancelled, and with 3 if it waits for you and there is no
    terminal.
    """
    request = pb.StartWorkflowMsg(
        **_read_argument(workflow),
        report_to=report_to,
        cwd=working_folder(cwd),
        search_path=caller_search_path(),
        sender=sender,
    )
    info = send_request(pb.ClientMessage(start_workflow=request)).workflow_run
    if background:
        output.emit(workflow_lines.dump_run(info), render=lambda _: sanitize.name(info.run_id))
        return int(Exit.OK)
    return _finish(workflow_progress.follow_run(info.run_id), ascii_only=ascii_only)


@workflow.command()
@click.argument("workflow", metavar="RUN|NAME|FILE", shell_complete=complete_workflow_runs)
@click.option("--step", default="", metavar="STEP", help="Print the whole result of this step.")
@click.option("--plan", is_flag=True, help="Show the saved workflow NAME, not its newest run.")
@click.option("--once", is_flag=True, help="Do not follow a run that has not ended.")
@sender_option
@_ascii_option
@output.json_option
def show(workflow: str, *, step: str, plan: bool, once: bool, sender: str, ascii_only: bool) -> int:
    """Draw a workflow as a graph: a run by its id, the newest run of NAME, or a FILE.

    On a terminal a run that has not ended is followed.
    """
    info = None if plan or _is_file(workflow) else _find_run(workflow, sender)
    if info is None:
        _show_plan(workflow, sender, ascii_only=ascii_only)
        return int(Exit.OK)
    if step:
        return _show_step(info, step)
    if not info.ended_at and not once and workflow_progress.is_watched():
        return _finish(workflow_progress.follow_run(info.run_id), ascii_only=ascii_only)
    output.emit(workflow_lines.dump_run(info), render=lambda _: _render_run(info, ascii_only=ascii_only))
    return int(Exit.OK)


@workflow.command()
@click.argument("name", default="", shell_complete=complete_workflows)
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=20, help="At most N. Default: 20.")
@sender_option
@output.json_option
def history(name: str, limit: int, sender: str) -> None:
    """List runs of workflow NAME, or of all workflows, newest first."""
    request = pb.ListWorkflowRunsMsg(name=name.removesuffix(SUFFIX), sender=sender, limit=limit)
    found = send_request(pb.ClientMessage(list_workflow_runs=request)).workflow_runs.runs
    output.emit([workflow_lines.dump_run(each) for each in found], render=lambda _: workflow_lines.render_runs(found))


@workflow.command()
@_run_argument
@sender_option
@output.json_option
def cancel(run: str, sender: str) -> None:
    """Cancel a RUN, by id or the newest of a workflow: running steps are stopped, no more are started."""
    request = pb.CancelWorkflowMsg(run_id=run, sender=sender)
    info = send_request(pb.ClientMessage(cancel_workflow=request)).workflow_run
    output.emit(workflow_lines.dump_run(info), render=lambda _: f"Cancelled {sanitize.name(info.run_id)}.")


@workflow.command()
@click.argument("file", type=click.Path())
@click.option("--name", default="", metavar="NAME", help="Save it under this name. Default: the one in the file.")
@click.option(
    "--agent",
    default="",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="Your conversation with AGENT gets the results of scheduled runs. Default: moot.",
)
@cwd_option("Working directory of scheduled runs. Default: the current one.")
@sender_option
@output.json_option
def save(file: str, name: str, agent: str, cwd: str, sender: str) -> None:
    """Save FILE under its name. If it has a `schedule`, it runs at these times from now on."""
    request = pb.SaveWorkflowMsg(
        source=_read_file(file),
        file=os.path.basename(file),
        name=name,
        agent=agent,
        sender=sender,
        cwd=working_folder(cwd),
        search_path=caller_search_path(),
    )
    info = send_request(pb.ClientMessage(save_workflow=request)).workflow
    text = f"Saved {sanitize.name(info.name)}."
    if info.HasField("job"):
        text += f" Scheduled: {cron_lines.render_when(info.job)}. {hint('moot cron')} lists and pauses schedules."
    output.emit(workflow_lines.dump_workflow(info), render=lambda _: text)


@workflow.command()
@_workflow_argument
@schedule_options
@click.option("--name", default="", metavar="JOB", help="Name of the job. Default: that of the workflow.")
@click.option(
    "--agent",
    default="",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="Your conversation with AGENT gets the results. Default: moot.",
)
@cwd_option("Working directory of the steps. Default: the current one.")
@sender_option
@output.json_option
def schedule(workflow: str, *, name: str, deliver: str, cwd: str, sender: str, **options: str) -> None:
    """Schedule a workflow: a FILE, or a saved one by NAME. The job keeps a copy of the text.

    Give one of --cron, --every and --at; without them the schedule of the file is used. `moot cron` lists, pauses and
    removes schedules.
    """
    info = _get_workflow(workflow, sender)
    kind, when = _choose_schedule(options, info)
    request = pb.SaveCronJobMsg(
        name=name or info.name,
        workflow=info.source,
        file=os.path.basename(workflow),
        schedule_type=kind,
        schedule=when,
        deliver_to=[deliver],
        cwd=working_folder(cwd),
        search_path=caller_search_path(),
        sender=sender,
        timezone=options["timezone"] or info.timezone,
        agent=options["agent"],
        missed=options["missed"],
    )
    save_job(request, added="Scheduled", replaced="Rescheduled")


@workflow.command()
@_workflow_argument
@sender_option
@output.json_option
def check(workflow: str, sender: str) -> None:
    """Check a workflow, and print every mistake with its line. Nothing is started."""
    argument = _read_argument(workflow)
    # A saved one that has run at its time is as good as before.
    request = pb.GetWorkflowMsg(**argument, sender=sender, before_saving="source" in argument)
    info = send_request(pb.ClientMessage(get_workflow=request)).workflow
    output.emit(
        workflow_lines.dump_workflow(info),
        render=lambda _: f"{sanitize.name(info.name)}: {format_plural(len(info.steps), 'step')}, no mistakes.",
    )


@workflow.command()
@click.argument("name", shell_complete=complete_workflows)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@sender_option
@output.json_option
def remove(name: str, yes: bool, sender: str) -> None:
    """Remove the saved workflow NAME. Its runs and its schedule stay."""
    if not yes and not output.wants_json():
        prompts.require_confirmation(f"Remove the workflow {sanitize.name(name)}?")
    request = pb.RemoveWorkflowMsg(name=name, sender=sender)
    info = send_request(pb.ClientMessage(remove_workflow=request)).workflow
    text = f"Removed {sanitize.name(info.name)}."
    if info.HasField("job"):
        text += f" It is still scheduled; `{hint('moot cron remove')} {sanitize.name(info.name)}` removes the schedule."
    output.emit(workflow_lines.dump_workflow(info), render=lambda _: text)


# ---- arguments ------------------------------------------------------------------------------------


def _is_file(text: str) -> bool:
    return os.sep in text or text.endswith((".yaml", ".yml")) or os.path.isfile(text)


def _read_argument(text: str) -> dict[str, Any]:
    """Return the fields that name a workflow: the text of a file, or the name of a saved one."""
    if _is_file(text):
        return {"source": _read_file(text), "file": os.path.basename(text)}
    return {"name": text}


def _read_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", fix="`moot workflow list` lists saved workflows.") from None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="Give a readable file.") from error
    if len(data) > MAX_BYTES:
        raise TooLarge(f"{path} is larger than {MAX_BYTES // 1024} KiB", fix="Split the workflow.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest(f"{path} is not UTF-8 text", fix="Save it as UTF-8.") from None
    if not text.strip():
        raise BadRequest(f"{path} is empty", fix="Write a workflow; see `moot help workflows`.")
    return text


def _get_workflow(text: str, sender: str) -> pb.WorkflowInfo:
    request = pb.GetWorkflowMsg(**_read_argument(text), sender=sender)
    return send_request(pb.ClientMessage(get_workflow=request)).workflow


def _find_run(text: str, sender: str) -> pb.WorkflowRunInfo | None:
    """Return a run, or None for a saved workflow that has never run."""
    request = pb.ClientMessage(get_workflow_run=pb.GetWorkflowRunMsg(run_id=text, sender=sender))
    if text.startswith("wf-"):
        return send_request(request).workflow_run
    with suppress(NotFound):
        return send_request(request).workflow_run
    return None


def _choose_schedule(options: dict[str, str], info: pb.WorkflowInfo) -> tuple[str, str]:
    chosen = read_schedule(options)
    if chosen is not None:
        return chosen
    if not info.schedule:
        raise one_schedule_error()
    first, _, rest = info.schedule.partition(" ")
    return (first, rest) if first in ("every", "at") else ("cron", info.schedule)


# ---- output ---------------------------------------------------------------------------------------


def _make_canvas(ascii_only: bool) -> Canvas:
    is_plain = ascii_only or not workflow_lines.can_draw()
    return Canvas(width=max(0, terminal.terminal_width() - 1), ascii_only=is_plain)


def _render_run(info: pb.WorkflowRunInfo, *, ascii_only: bool) -> str:
    drawn = workflow_lines.render_run(info, time.time(), _make_canvas(ascii_only))
    results = workflow_lines.render_results(info) if info.status == "completed" else ""
    return f"{drawn}\n\n{results}" if results else drawn


def _finish(info: pb.WorkflowRunInfo, *, ascii_only: bool) -> int:
    """Print a run that has ended; return its exit code."""
    error = None
    if info.status != "completed":
        error = RunFailed(f"workflow run {info.run_id} ended: {info.status}", fix="")
    output.emit(workflow_lines.dump_run(info), render=lambda _: _render_run(info, ascii_only=ascii_only), error=error)
    return int(Exit.OK if error is None else Exit.RUN_FAILED)


def _show_plan(text: str, sender: str, *, ascii_only: bool) -> None:
    info = _get_workflow(text, sender)
    output.emit(
        workflow_lines.dump_workflow(info),
        render=lambda _: workflow_lines.render_plan(info, _make_canvas(ascii_only)),
    )


def _show_step(info: pb.WorkflowRunInfo, name: str) -> int:
    """Print the whole result of a step."""
    step = next((each for each in info.steps if each.id == name), None)
    if step is None:
        names = ", ".join(each.id for each in info.steps[:10])
        raise NotFound(f"workflow {info.name} has no step {name!r}", fix=f"Steps are: {names}.")
    result, error = step.result, step.error
    if step.run_id and step.state in ("completed", "failed"):
        with suppress(NotFound):
            found = send_request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=step.run_id))).run
            result, error = found.result or result, found.error or error
    data = {"step": name, "state": step.state, "run_id": step.run_id or None, "result": result, "error": error}
    output.emit(data, render=lambda _: sanitize.clean(result or error or step.state))
    return int(Exit.RUN_FAILED if step.state == "failed" else Exit.OK)
