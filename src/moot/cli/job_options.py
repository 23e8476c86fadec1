"""The arguments and the output of commands that schedule a job. Used by commands/cron.py and commands/workflow.py."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.render import cron_lines
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb

_F = TypeVar("_F", bound=Callable[..., Any])
_KINDS = ("cron", "every", "at")
_OPTIONS = (
    click.option("--cron", default="", metavar="EXPR", help='Crontab expression, such as "0 8 * * MON-FRI".'),
    click.option("--every", default="", metavar="DURATION", help="Interval, such as 1h30m."),
    click.option("--at", default="", metavar="TIME", help="Once, such as 2027-01-31T08:00:00+01:00."),
    click.option(
        "--timezone", "--tz", default="", metavar="ZONE", help="IANA name. Default: that of the daemon's computer."
    ),
    click.option(
        "--missed",
        type=click.Choice(["once", "skip"]),
        default="once",
        help="Make up for missed runs once, or skip them.",
    ),
    click.option(
        "--deliver",
        type=click.Choice(["conversation", "owner", "none"]),
        default="conversation",
        help="Report results in the conversation, in your conversation with moot (owner), or only keep them in the "
        "history of the job.",
    ),
)


def schedule_options(command: _F) -> _F:
    """--cron, --every, --at and --timezone, --missed, and --deliver."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_schedule(options: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the kind and the text of the schedule; None if there is none. Raise BadRequest for several."""
    given = [(kind, options[kind]) for kind in _KINDS if options[kind]]
    if len(given) > 1:
        raise one_schedule_error()
    return given[0] if given else None


def one_schedule_error() -> BadRequest:
    return BadRequest("a job has one schedule", fix="Give one of --cron, --every and --at.")


def save_job(request: pb.SaveCronJobMsg, *, added: str, replaced: str) -> None:
    """Save a job and print it, after a word that says whether it is new."""
    answer = send_request(pb.ClientMessage(save_cron_job=request)).cron_jobs
    (job,) = answer.jobs
    verb = added if answer.created else replaced
    output.emit(
        cron_lines.dump_job(job) | {"created": answer.created},
        render=lambda _: f"{verb} {cron_lines.render_next(job)}",
    )
