"""Commands that move one conversation: export, import, delete."""

import os
import sys
import tempfile
from pathlib import Path

import click

from moot.cli import output, prompts
from moot.cli.connect import send_request
from moot.cli.name_completion import complete_files
from moot.cli.options import conversation_arguments, sender_option
from moot.cli.render import sanitize
from moot.cli.render.numbers import format_plural
from moot.cli.stdin import read_stdin
from moot.domain.errors import BadRequest, Conflict
from moot.wire import moot_pb2 as pb

_LONGEST_TEXT = 8 * 1024 * 1024


@click.command()
@conversation_arguments
@click.option("-o", "--output", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Replace the file when it exists.")
@output.json_option
def export(agent: str, sender: str, target: Path | None, force: bool) -> None:
    """Write the conversation with AGENT as JSONL, archives and attribution included."""
    jsonl, count = _fetch_export(agent, sender)
    if target is not None:
        _write_file(target, jsonl, replace=force)
        data = {"path": str(target), "messages": count}
        output.emit(data, render=lambda _: f"Wrote {format_plural(count, 'message')} to {target}.")
        return
    data = {"jsonl": jsonl, "messages": count}
    output.emit(data, render=lambda _: sanitize.clean(jsonl) if sys.stdout.isatty() else jsonl)


def _fetch_export(agent: str, sender: str) -> tuple[str, int]:
    """Fetch the complete export; long conversations arrive in parts."""
    request = pb.ExportMsg(agent=agent, sender=sender)
    parts: list[str] = []
    count = 0
    while True:
        answer = send_request(pb.ClientMessage(export=request)).exported
        parts.append(answer.jsonl)
        count += answer.messages
        if not answer.next_seq:
            return "".join(parts), count
        request.first_seq = answer.next_seq


def _write_file(target: Path, text: str, *, replace: bool) -> None:
    """Write to a temporary file and rename it, so that a full disk leaves no partial file."""
    if target.exists() and not replace:
        raise Conflict(f"{target} exists already", fix="Choose another name, or add --force.")
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            os.chmod(draft, 0o600)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise BadRequest(f"{target} cannot be written: {error.strerror}", fix="Choose another place.") from error


@click.command("import")
@click.argument("file", shell_complete=complete_files)
@click.option("--agent", default="", help="Agent name; overrides the one in the file.")
@click.option("--trust", is_flag=True, help="The file is your own: treat unmarked content as trusted.")
@sender_option
@output.json_option
def import_(file: str, agent: str, sender: str, trust: bool) -> None:
    """Import a conversation from the JSONL in FILE, or from stdin if FILE is -."""
    text = read_stdin() if file == "-" else _read_file(Path(file))
    answer = _send_import(pb.ImportMsg(agent=agent, sender=sender, jsonl=text, trust=trust))
    for reason in answer.skipped:
        output.print_note(f"skipped: {sanitize.line(reason)}")
    data = {
        "agent": answer.agent,
        "sender": answer.sender,
        "messages": answer.messages,
        "archives": answer.archives,
        "skipped": list(answer.skipped),
    }
    output.emit(
        data,
        render=lambda _: (
            f"Imported {format_plural(answer.messages, 'message')} and {format_plural(answer.archives, 'archive')}"
            f" into {sanitize.name(answer.agent)} as {sanitize.name(answer.sender)}."
        ),
    )


def _send_import(request: pb.ImportMsg) -> pb.Imported:
    """Send the text, or only its path if it is too large for a frame and the daemon is local."""
    message = pb.ClientMessage()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", suffix=".jsonl") as file:
        if len(request.jsonl.encode()) > _LONGEST_TEXT:
            file.write(request.jsonl)
            file.flush()
            request.path, request.jsonl = file.name, ""
        # `import` is a Python keyword, so the field is only accessible through getattr.
        getattr(message, "import").CopyFrom(request)
        return send_request(message).imported


def _read_file(path: Path) -> str:
    try:
        # newline="" keeps the line ends; the daemon accepts all kinds.
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 text", fix="Give a file that `moot export` wrote.") from error
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="Check the path.") from error


@click.command()
@conversation_arguments
@click.option("--yes", is_flag=True, help="Delete without asking.")
@output.json_option
def delete(agent: str, sender: str, yes: bool) -> None:
    """Delete the conversation with AGENT and everything stored for it. Shows what would be deleted and asks first."""
    counts = send_request(pb.ClientMessage(delete=pb.DeleteMsg(agent=agent, sender=sender))).deleted
    what = _render_deletion(counts)
    if not yes and output.wants_json():
        output.emit(_deletion_data(counts))
        return
    if not yes:
        whose = f"{sanitize.name(agent)} as {sanitize.name(sender) or 'you'}"
        output.print_note(
            output.wrap_prose(f"This deletes {what} of {whose}. This cannot be undone; `moot export` saves a copy.")
        )
        if not sys.stdin.isatty():
            raise BadRequest("nothing was deleted: there is no terminal to confirm on", fix="Add --yes.")
        prompts.require_confirmation("Delete them?")
    done = send_request(pb.ClientMessage(delete=pb.DeleteMsg(agent=agent, sender=sender, confirm=True))).deleted
    output.emit(_deletion_data(done), render=lambda _: f"Deleted {what}.")


_ALWAYS_TOLD = ("messages", "archives", "runs")
# Counts of a deletion, with the singular of each.
_TOLD_WHERE_THERE = {
    "memories": ("memory", "memories"),
    "tasks": ("task", "tasks"),
    "schedules": ("scheduled job", "scheduled jobs"),
    "documents": ("indexed document", "indexed documents"),
    "notes": ("note", "notes"),
    "outputs": ("kept result", "kept results"),
    "lessons": ("learning or inquiry", "learnings and inquiries"),
    "rules": ("rule", "rules"),
    "mail": ("message from an agent", "messages from agents"),
    "jobs": ("background command", "background commands"),
    "files": ("file of its own folder", "files of its own folder"),
}


def _render_deletion(counts: pb.Deleted) -> str:
    parts = [format_plural(getattr(counts, name), name[:-1]) for name in _ALWAYS_TOLD]
    for name, (one, many) in _TOLD_WHERE_THERE.items():
        count = getattr(counts, name)
        parts += [f"{count} {one if count == 1 else many}"] if count else []
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _deletion_data(answer: pb.Deleted) -> dict[str, object]:
    return {name: getattr(answer, name) for name in (*_ALWAYS_TOLD, *_TOLD_WHERE_THERE, "deleted")}
