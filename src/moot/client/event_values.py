"""Events as the Python client returns them. Plain data; `convert` makes them from protocol messages."""

from msgspec import Struct

from moot.client.values import StreamItem, ToolCall


class EventInfo(Struct, frozen=True, kw_only=True):
    """One event of any run of your conversations. `kind` is as in docs/events.md, such as `started` or `done`.

    `content` and `item` depend on the kind; `item` is what a stream of the run yields, where it yields something.
    """

    seq: int
    kind: str
    agent: str
    sender: str
    speaker: str
    content: str
    timestamp: str
    run_id: str = ""
    parent_id: str = ""
    root_id: str = ""
    root_agent: str = ""
    root_sender: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_output: str = ""
    is_error: bool = False
    duration_ms: int = 0
    # The number of the message that a turn answers.
    user_seq: int = 0
    item: StreamItem | None = None


class Gap(Struct, frozen=True, kw_only=True):
    """The events from `first` to `last` are not available any more: read history, runs and asks instead."""

    first: int
    last: int
