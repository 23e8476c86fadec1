"""What a run waits for before its model answers, as one short line. Used by the chat and `follow`."""

from moot.wire import moot_pb2 as pb

_ALL = 100


def render_preparing(event: pb.PreparingEvent) -> str:
    """Return "reading the prompt 40 %", or that the model is loaded, with the duration of the call before."""
    if event.stage == "tools":
        return "starting MCP servers"
    text = "loading the model"
    if event.stage == "reading":
        text = f"reading the prompt {event.percent} %" if event.percent < _ALL else "thinking"
    return f"{text} · last call {event.previous_ms / 1000:.0f}s" if event.previous_ms else text
