"""The values that the Python client takes and returns. Plain data; `convert` makes them from protocol messages."""

from msgspec import Struct

from moot.client.user_messages import UserMessage


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of a run as the provider counted them. The last two are parts of the first two."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0


class Limits(Struct, frozen=True, kw_only=True):
    """What one run may use; `spend` is in US dollars. The daemon's configuration may allow less."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    spend: float | None = None


class Reply(Struct, frozen=True, kw_only=True):
    """The answer of a run and how it ended. `str(reply)` is its text. With `steer`, `steered_into` may answer it."""

    text: str
    agent: str
    outcome: str
    run_id: str = ""
    error: str = ""
    limit: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost: float = 0.0
    steps: int = 0
    steered_into: str = ""
    # What an agent with the role assistant has sent; `text` has the same texts.
    messages: tuple[UserMessage, ...] = ()

    def __str__(self) -> str:
        return self.text


class Queued(Struct, frozen=True, kw_only=True):
    """The message is stored and waits; position 1 is next. `ask_id` is what the run ahead waits for a person with."""

    position: int
    run_id: str = ""
    ask_id: str = ""


class Started(Struct, frozen=True, kw_only=True):
    """The run has started; `agent` answers."""

    agent: str
    run_id: str


class Text(Struct, frozen=True):
    """A piece of the answer."""

    text: str

    def __str__(self) -> str:
        return self.text


class Thinking(Struct, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class Discarded(Struct, frozen=True):
    """The text since the last step does not count: the model is asked again, or a lost connection starts over."""


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call of a tool. `arguments` is the text of a JSON object, `line` the call in one line."""

    id: str
    name: str
    arguments: str
    line: str = ""


class ToolResult(Struct, frozen=True, kw_only=True):
    """The result of a call."""

    id: str
    name: str
    output: str
    is_error: bool
    seconds: float


class Retrying(Struct, frozen=True, kw_only=True):
    """The model failed and is asked again after `seconds`."""

    attempt: int
    seconds: float
    reason: str


class Preparing(Struct, frozen=True, kw_only=True):
    """A model on this machine is `loading`, or `reading` the prompt, of which `percent` is done."""

    stage: str
    percent: int
    # The duration of its previous call; 0 if there was none.
    previous_seconds: float = 0.0


class Compacted(Struct, frozen=True, kw_only=True):
    """The beginning of the conversation was archived."""

    number: int
    title: str


class Option(Struct, frozen=True, kw_only=True):
    """One of the answers to choose from."""

    label: str
    description: str = ""


class QuestionItem(Struct, frozen=True, kw_only=True):
    """One question, with answers to choose from or none."""

    text: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False


class Asker(Struct, frozen=True, kw_only=True):
    """The teammate or background run that asks, why it was started, and its task."""

    agent: str
    run_id: str
    spawn_reason: str = ""
    task: str = ""


class Question(Struct, frozen=True, kw_only=True):
    """The run waits for an answer in words; usually to a single question. Answer it with `reply`."""

    id: str
    attempt: int
    agent: str
    sender: str
    questions: tuple[QuestionItem, ...]
    run_id: str = ""
    # None if the agent of the conversation asks.
    asker: Asker | None = None
    expires_at: float = 0.0

    @property
    def asked_by(self) -> str:
        """The teammate that asks; empty if the agent of the conversation does."""
        return self.asker.agent if self.asker is not None else ""

    @property
    def text(self) -> str:
        """All questions, one per line."""
        return "\n".join(item.text for item in self.questions)


class Approval(Struct, frozen=True, kw_only=True):
    """A call of a tool waits for permission; of kind `grant`, a run asks for one more tool. `decide` decides it.

    A decision is for exactly what is shown here: if the call has changed since, it is rejected with Conflict.
    """

    id: str
    attempt: int
    tool: str
    line: str
    preview: str = ""
    reason: str = ""
    # The rule that the decision `always` would write, for this call and for every call of the tool; empty if it is
    # not possible.
    rule: str = ""
    whole_rule: str = ""
    kind: str = "approval"
    agent: str = ""
    sender: str = ""
    run_id: str = ""
    # None if the agent of the conversation asks.
    asker: Asker | None = None
    expires_at: float = 0.0
    # Patterns of calls that a rule can be written for.
    patterns: "tuple[Pattern, ...]" = ()

    @property
    def asked_by(self) -> str:
        """The teammate that asks; empty if the agent of the conversation does."""
        return self.asker.agent if self.asker is not None else ""


class Pattern(Struct, frozen=True, kw_only=True):
    """Calls like the one that waits: `text` is what `decide` takes as `pattern`, `rule` what it would write."""

    text: str
    rule: str


class AskClosed(Struct, frozen=True, kw_only=True):
    """A question or approval is no longer open: answered, unanswered, granted, denied, expired, cancelled …"""

    id: str
    state: str


class Ended(Struct, frozen=True):
    """The last item of a stream."""

    reply: Reply


StreamItem = (
    Queued
    | Started
    | Text
    | Thinking
    | Discarded
    | ToolCall
    | ToolResult
    | Retrying
    | Preparing
    | Compacted
    | Question
    | Approval
    | AskClosed
    | Ended
)


# ---- conversations, runs, events ----


class Message(Struct, frozen=True, kw_only=True):
    """One message of a history. `agent` is set if a guest said it; `archive` is 0 if it is not archived."""

    seq: int
    role: str
    text: str
    agent: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    is_error: bool = False
    duration_ms: int = 0
    outcome: str = ""
    error: str = ""
    archive: int = 0
    # Where untrusted content in it comes from, such as `web`.
    taint: str = ""
    created_at: float = 0.0
    # Whether an agent with the role assistant wrote the text without sending it, and what its calls have sent.
    is_private: bool = False
    sent: tuple[UserMessage, ...] = ()
    # Of a passage that a search found: where it begins in the message, and the length of the whole message.
    offset: int = 0
    length: int = 0


class Conversation(Struct, frozen=True, kw_only=True):
    """One conversation; (agent, sender) is its name."""

    agent: str
    sender: str
    title: str
    messages: int
    archives: int
    is_running: bool
    cwd: str
    created_at: float
    updated_at: float
    # Where untrusted content that the agent sees comes from, such as `web`.
    taint: str = ""
    # The mode that was set for it; empty if the configured one applies.
    mode: str = ""


class Agent(Struct, frozen=True, kw_only=True):
    """One agent. `problem` says what is wrong with its file; `missing`, which tools an inactive one needs."""

    name: str
    description: str
    model: str
    status: str
    source: str
    problem: str = ""
    missing: str = ""
    warnings: tuple[str, ...] = ()
    path: str = ""
    priority: int = 0
    # Patterns of the tools it may use as a teammate; None for all.
    prefixes: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    cannot_do: tuple[str, ...] = ()
    # What it could do with tools that are missing.
    cannot_yet: tuple[str, ...] = ()
    accepts: str = ""
    returns: str = ""
    instruction: str = ""
    role: str = ""
    always_include: bool = False
    session_isolation: bool = False


class RunInfo(Struct, frozen=True, kw_only=True):
    """One run: a turn, a teammate or a background run. `outcome` is empty until it has ended."""

    id: str
    kind: str
    agent: str
    sender: str
    status: str
    condition: str
    instruction: str
    outcome: str
    error: str
    result: str
    parent_id: str
    root_agent: str
    root_sender: str
    # The question or approval it waits for, and whether only a person can continue it.
    ask_id: str
    needs_person: bool
    steps: int
    tokens: int
    cost: float
    seconds: float
    created_at: float
    ended_at: float
    started_at: float = 0.0
    # What blocks it: a sentence, the attempt of its ask, the runs it waits for, its position in the queue.
    reason: str = ""
    attempt: int = 0
    grant_request_id: str = ""
    grant_attempt: int = 0
    grant_state: str = ""
    waiting_on: tuple[str, ...] = ()
    position: int = 0
    last_action: str = ""
    idle_seconds: float = 0.0
    # Of a teammate: why it was spawned, by which agents from the root down, with which tools.
    spawn_reason: str = ""
    chain: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    granted_tools: tuple[str, ...] = ()
    delivery: str = ""
    limits: Limits = Limits()
    # Which limit ended it.
    limit: str = ""
    # The number of messages of peers that it has not read.
    unread: int = 0
    cwd: str = ""
    # The daemon that has it, where that is another one.
    node: int = 0

    @property
    def has_ended(self) -> bool:
        return bool(self.outcome)
