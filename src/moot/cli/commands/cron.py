"""`moot cron`: scheduled jobs: add, list, show, pause, resume, remove, run, history."""

from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.commands.ask import working_folder
from moot.cli.connect import caller_search_path, require_utf8, send_request
from moot.cli.job_options import one_schedule_error, read_schedule, save_job, schedule_options
from moot.cli.name_completion import complete_agents, complete_cron_jobs
from moot.cli.options import cwd_option, sender_option
from moot.cli.render import cron_lines
from moot.wire import moot_pb2 as pb

_job_argument = click.argument("job", shell_complete=complete_cron_jobs)
_SHOWN_FIRINGS = 5


def _with_filter(command: Any) -> Any:
    """--agent and --as: whose jobs."""
    agent = click.option(
        "--agent", default="", metavar="AGENT", shell_complete=complete_agents, help="Only jobs of this agent."
    )
    return agent(sender_option(command))


@click.group(cls=CommandGroup, invoke_without_command=True)
@_with_filter
@output.json_option
@click.pass_context
def cron(context: click.Context, agent: str, sender: str) -> None:
    """List your scheduled jobs."""
    if context.invoked_subcommand is None:
        _list_jobs(agent, sender)


@cron.command("list")
@_with_filter
@output.json_option
def list_jobs(agent: str, sender: str) -> None:
    """List your scheduled jobs: their state, their next time, and how the last run ended."""
    _list_jobs(agent, sender)


def _list_jobs(agent: str, sender: str) -> None:
    request = pb.ListCronJobsMsg(agent=agent, sender=sender)
    answer = send_request(pb.ClientMessage(list_cron_jobs=request)).cron_jobs
    found = answer.jobs
    _note_disabled(answer)
    output.emit([cron_lines.dump_job(job) for job in found], render=lambda _: cron_lines.render_jobs(found))


@cron.command()
@click.argument("name")
@click.argument("prompt")
@schedule_options
@click.option(
    "--agent",
    default="",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="The agent that works and whose conversation with you gets the results. Default: moot.",
)
@sender_option
@click.option(
    "--session",
    "session_mode",
    type=click.Choice(["isolated", "main"]),
    default="isolated",
    help="Start each run in a new conversation, or all runs in the same one.",
)
@click.option("--timeout", default="", metavar="DURATION", help="How long a run may work, such as 10m.")
@cwd_option("Working directory of the runs. Default: the current one.")
@output.json_option
def add(name: str, prompt: str, *, deliver: str, cwd: str, **options: str) -> None:
    """Add job NAME, which gives an agent PROMPT; a job of the same name is replaced.

    Give one of --cron, --every and --at.
    """
    chosen = read_schedule(options)
    if chosen is None:
        raise one_schedule_error()
    kind, schedule = chosen
    request = pb.SaveCronJobMsg(
        name=require_utf8(name),
        prompt=require_utf8(prompt),
        schedule_type=kind,
        schedule=schedule,
        deliver_to=[deliver],
        cwd=working_folder(cwd),
        search_path=caller_search_path(),
        sender=options["sender"],
        timezone=options["timezone"],
        agent=options["agent"],
        missed=options["missed"],
        session_mode=options["session_mode"],
        timeout=options["timeout"],
    )
    save_job(request, added="Added", replaced="Replaced")


@cron.command()
@_job_argument
@_with_filter
@output.json_option
def show(job: str, agent: str, sender: str) -> None:
    """Show JOB, by name or id, and its latest runs."""
    request = pb.ListCronJobsMsg(job=job, agent=agent, sender=sender)
    answer = send_request(pb.ClientMessage(list_cron_jobs=request)).cron_jobs
    (found,) = answer.jobs
    _note_disabled(answer)
    wanted = pb.ListFiringsMsg(job=found.job_id, limit=_SHOWN_FIRINGS)
    firings = send_request(pb.ClientMessage(list_firings=wanted)).firings.firings
    output.emit(
        cron_lines.dump_job(found) | {"history": [cron_lines.dump_firing(each) for each in firings]},
        render=lambda _: cron_lines.render_job(found, firings),
    )


@cron.command()
@click.argument("job", default="", shell_complete=complete_cron_jobs)
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=20, help="At most N. Default: 20.")
@_with_filter
@output.json_option
def history(job: str, limit: int, agent: str, sender: str) -> None:
    """List the latest runs of JOB, or of all jobs, newest first."""
    request = pb.ListFiringsMsg(job=job, agent=agent, sender=sender, limit=limit)
    found = send_request(pb.ClientMessage(list_firings=request)).firings.firings
    output.emit([cron_lines.dump_firing(each) for each in found], render=lambda _: cron_lines.render_firings(found))


@cron.command()
@_job_argument
@_with_filter
@output.json_option
def pause(job: str, agent: str, sender: str) -> None:
    """Pause JOB. A run that has begun continues."""
    changed = _change(job, agent, sender, "pause").jobs[0]
    output.emit(cron_lines.dump_job(changed), render=lambda _: f"Paused {cron_lines.render_name(changed)}.")


@cron.command()
@_job_argument
@_with_filter
@output.json_option
def resume(job: str, agent: str, sender: str) -> None:
    """Resume JOB. Runs that were due while it was paused are skipped."""
    changed = _change(job, agent, sender, "resume").jobs[0]
    output.emit(cron_lines.dump_job(changed), render=lambda _: f"Resumed {cron_lines.render_next(changed)}")


@cron.command()
@_job_argument
@_with_filter
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output.json_option
def remove(job: str, agent: str, sender: str, yes: bool) -> None:
    """Remove JOB and its history. A run that has begun continues."""
    if not yes and not output.wants_json():
        request = pb.ListCronJobsMsg(job=job, agent=agent, sender=sender)
        (found,) = send_request(pb.ClientMessage(list_cron_jobs=request)).cron_jobs.jobs
        output.print_note(f"{cron_lines.render_next(found)}")
        prompts.require_confirmation("Remove it?")
    removed = _change(job, agent, sender, "remove").jobs[0]
    output.emit(cron_lines.dump_job(removed), render=lambda _: f"Removed {cron_lines.render_name(removed)}.")


@cron.command("run")
@_job_argument
@_with_filter
@output.json_option
def run_now(job: str, agent: str, sender: str) -> None:
    """Start a run of JOB now, in addition to its schedule, and print its id. `moot wait RUN` prints the result."""
    answer = _change(job, agent, sender, "run")
    output.emit(
        cron_lines.dump_job(answer.jobs[0]) | {"run_id": answer.run_id}, render=lambda _: cron_lines.render_id(answer)
    )


def _note_disabled(answer: pb.CronJobList) -> None:
    """Show active jobs as off, if schedules are turned off."""
    if not answer.disabled:
        return
    output.print_prose("Schedules are off ([cron] enabled = false): no job runs at its time.")
    for job in answer.jobs:
        if job.status == "active":
            job.status, job.next_at = "off", 0.0


def _change(job: str, agent: str, sender: str, action: str) -> pb.CronJobList:
    request = pb.ChangeCronJobMsg(job=job, action=action, agent=agent, sender=sender)
    return send_request(pb.ClientMessage(change_cron_job=request)).cron_jobs
