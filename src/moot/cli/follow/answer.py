"""Collects the events of a run into its reply and outcome. No I/O. Used by `follow_run` and the demo."""

from typing import Any

from moot.cli.render import plain_data
from moot.cli.render.user_messages import dump_user_message
from moot.wire import moot_pb2 as pb

# The flags of `moot ask` and `moot run` that name a limit.
_FLAGS = {"steps": "--max-steps", "seconds": "--max-seconds", "tokens": "--max-tokens", "spend": "--max-spend"}
_KEPT = "Your message is kept in the history."
_FIXES = {
    "model_error": f"`moot models test` checks the model. {_KEPT}",
    "denied": "Send it again to decide again. What a security rule has blocked stays blocked.",
    "timeout": "Allow more time with --max-seconds, or ask for less at once.",
    "interrupted": "The daemon stopped during the run; send the message again.",
    "cancelled": "Your message is kept; send it again if you did not stop it.",
    "internal_error": "`moot doctor` may say more; the daemon's log has the details.",
}


class RunResult:
    """Collects the events of one run. The reply is the text of the last step; earlier steps ended in tool calls."""

    def __init__(self) -> None:
        self.agent = ""
        self.run_id = ""
        # Only a run that has called tools can have left teammates behind.
        self.has_called_tools = False
        self.content = ""
        self.outcome = ""
        self.error = ""
        self.limit = ""
        # What an assistant has sent, and whether it has text beside it.
        self.messages: list[pb.UserMessageInfo] = []
        self.has_private_text = False
        self._end = pb.StreamEnd()
        self._is_withdrawn = False
        self._steered_into = ""

    def take(self, event: pb.StreamEvent) -> None:
        kind = event.WhichOneof("event")
        self.has_private_text |= kind == "private_text"
        self.has_called_tools |= kind == "tool_start"
        if kind == "chunk":
            self.content += event.chunk.content
        elif kind == "user_message":
            self.messages.append(event.user_message)
        elif kind in ("tool_start", "discarded"):
            self.content = ""
        elif kind == "steered":
            self.content = ""
            # Before the start, the message is this one, and was shown to another run.
            self._steered_into = "" if self.agent else event.steered.into
        elif kind == "start":
            self.agent = event.start.agent
            self.run_id = event.start.run_id
        elif kind == "withdrawn":
            self._is_withdrawn = True
        elif kind == "end":
            self._end = event.end
            self.agent = event.end.agent
            self.outcome = event.end.outcome
            self.error = event.end.error
            self.limit = event.end.limit

    @property
    def text(self) -> str:
        """What reaches the person: the messages of an assistant, and the text of the last step."""
        return "\n\n".join(filter(None, [*(message.content for message in self.messages), self.content]))

    def suggest_fix(self) -> str:
        if self.limit in _FLAGS:
            return f"Allow more with {_FLAGS[self.limit]}, up to what [limits] and [budget] of the configuration allow."
        if self.limit:
            return f"Raise {self.limit} in [limits] of the configuration, or ask for less at once."
        if self._is_withdrawn:
            return "It is not in the history; send it again if it should be answered."
        if self.outcome == "model_error" and "Run: moot " in self.error:
            return f"Run that command. {_KEPT}"
        if self.outcome == "denied":
            return self._explain_denied()
        return _FIXES.get(self.outcome, "")

    def _explain_denied(self) -> str:
        if "mode plan" in self.error:
            return f"`moot mode {self.agent or 'AGENT'} work` lets it act; then send the message again."
        if "nobody to ask" in self.error:
            return "Nobody is asked while `unattended` is true in [security.interceptor]."
        return _FIXES["denied"]

    def data(self) -> dict[str, Any]:
        """The result as --json prints it."""
        end = self._end
        shape: dict[str, Any] = {
            "agent": self.agent,
            "content": self.text,
            "outcome": self.outcome,
            "usage": plain_data.dump_usage(end.usage),
            "cost": end.cost,
            "model": end.model,
            "provider": end.provider,
        }
        extra = {"error": end.error, "limit": end.limit, "steered_into": self._steered_into}
        if self.messages or self.has_private_text:
            shape["messages"] = [dump_user_message(message) for message in self.messages]
        return shape | {key: value for key, value in extra.items() if value}
