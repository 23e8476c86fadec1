"""The tool `send_user_message`, with which agents of the role assistant speak to the person (domain/user_message.py).

Offered by multiagent/teammates/briefing.py; the loop treats other text of a run that has it as not sent.
"""

import os
from typing import Any

from moot.domain.errors import BadRequest, TooLarge
from moot.domain.events import UserMessageSent
from moot.domain.ports.tool import RunContext
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.text import clean
from moot.domain.user_message import (
    MAX_ATTACHMENTS,
    MAX_MESSAGE_BYTES,
    SEND_USER_MESSAGE,
    Attachment,
    MessageStatus,
    UserMessage,
    render_receipt,
)
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.off_limits import OffLimits
from moot.tools.threads import run_in_thread


class SendUserMessage:
    spec = ToolSpec(
        name=SEND_USER_MESSAGE,
        safety=Safety.SAFE,
        group="conversation",
        # The message is the stored call: making it again after a restart sends nothing new.
        repeatable=True,
        description=(
            "Send a message to the person. This is all they see of your work: your other text is not shown to them. "
            "Use the status `normal` to answer, and `proactive` to report something they did not ask for."
        ),
        parameters={
            "type": "object",
            "properties": {
                "message": {"type": "string", "description": f"The whole text, at most {MAX_MESSAGE_BYTES} bytes."},
                "status": {"type": "string", "enum": [str(status) for status in MessageStatus]},
                "attachments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": f"At most {MAX_ATTACHMENTS} paths of files in the working directory.",
                },
            },
            "required": ["message", "status"],
            "additionalProperties": False,
        },
    )

    def __init__(self, off_limits: OffLimits) -> None:
        self._off_limits = off_limits

    def line(self, arguments: dict[str, Any]) -> str:
        return f"tell you: {str(arguments.get('message', ''))[:200]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        content, status = clean(str(arguments["message"])), str(arguments["status"])
        if not content.strip():
            raise BadRequest("`message` is empty", fix="Write what the person should read.")
        size = len(content.encode())
        if size > MAX_MESSAGE_BYTES:
            raise TooLarge(f"`message` is {size} bytes, max {MAX_MESSAGE_BYTES}", fix="Attach a file instead.")
        if status not in list(MessageStatus):
            raise BadRequest(f"`status` must be one of {', '.join(MessageStatus)}", fix="Use `normal` to answer.")
        paths = _list_paths(arguments.get("attachments"))
        attachments = await run_in_thread(self._measure, paths, context.cwd) if paths else ()
        sent = UserMessage(
            content=content, status=MessageStatus(status), attachments=attachments, call_id=context.call_id
        )
        context.emit(UserMessageSent(sent))
        return render_receipt(attachments)

    def _measure(self, paths: list[str], cwd: str) -> tuple[Attachment, ...]:
        """Return the files with their sizes. They must be readable as for the file tools."""
        found: list[Attachment] = []
        with ConfinedFolder(cwd, self._off_limits) as ground:
            top = ground.real(ground.spot("."))
            for path in paths:
                with ground.passing():
                    spot = ground.spot(path)
                    _, status = ground.open_file(spot)
                    found.append(Attachment(path=os.path.relpath(ground.real(spot), top), size=status.st_size))
        return tuple(dict.fromkeys(found))


def _list_paths(given: Any) -> list[str]:
    if not isinstance(given, list):
        return []
    if not all(isinstance(path, str) for path in given):
        raise BadRequest("`attachments` must be a list of paths")
    if len(given) > MAX_ATTACHMENTS:
        raise BadRequest(f"{len(given)} attachments, max {MAX_ATTACHMENTS}", fix="Put them into one file, or send two.")
    return given
