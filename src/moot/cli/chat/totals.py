"""The numbers of a conversation in a chat: model, tokens, cost, context window. Used by controller.py. No I/O."""

from collections.abc import Iterable

from moot.cli.chat.toolbar import ToolbarFacts
from moot.cli.follow import tool_notices
from moot.wire import moot_pb2 as pb


class Totals:
    """Kept up to date from the daemon's answers and from the ends of runs."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._tokens = 0
        self._cost = 0.0
        self._model = ""
        # Whether the agent has tools that its own model does not support, and whether that model is used here.
        self._lacks_tools = False
        self._uses_own = True
        # The model that gave the last answer, once there is one; with its name in front if that was a guest's.
        self._answered_by = ""
        self._is_guests = False
        self._next_model = ""
        # What its provider calls it.
        self._provider_model = ""
        self.context_tokens = 0
        self._context_window = 0

    def load_agents(self, agents: Iterable[pb.AgentInfo]) -> None:
        for info in agents:
            if info.name == self._agent:
                self._model = tool_notices.model_name(info)
                self._lacks_tools = tool_notices.lacks_tools(info)

    def load_choice(self, answer: pb.ConversationModel) -> None:
        """Show the model that was chosen for the conversation, until an answer names its own."""
        if answer.model != self._next_model:
            self._next_model, self._answered_by = answer.model, ""
        elif answer.provider_model != self._provider_model and self._answered_by:
            # It was configured anew since the last answer.
            self._answered_by, self._is_guests = answer.provider_model, False
        self._provider_model = answer.provider_model
        self._uses_own = not answer.chosen
        self._model = answer.chosen or self._model
        self._context_window = answer.context_window

    def load_usage(self, spent: Iterable[pb.UsageInfo]) -> None:
        self._tokens = self._cost = 0
        for each in spent:
            self._tokens += each.prompt + each.completion
            self._cost += each.cost

    def add_run(self, speaker: str, end: pb.StreamEnd) -> None:
        """Add what the end of a run reports."""
        self._tokens += end.usage.total
        self._cost += end.cost
        if end.model:
            self._is_guests = speaker != self._agent
            self._answered_by = f"{speaker}: {end.model}" if self._is_guests else end.model

    def _name_model(self) -> str:
        lacks_tools = self._lacks_tools and self._uses_own and not self._is_guests
        return (
            f"{self._answered_by}{tool_notices.NO_TOOLS if lacks_tools else ''}" if self._answered_by else self._model
        )

    def list_facts(
        self, *, mode: str, auto_approve: str, queued: int, asks: int, is_connected: bool, is_running: bool
    ) -> ToolbarFacts:
        return ToolbarFacts(
            agent=self._agent,
            model=self._name_model(),
            mode=mode,
            auto_approve=auto_approve,
            tokens=self._tokens,
            cost=self._cost,
            context_tokens=self.context_tokens,
            context_window=self._context_window,
            queued=queued,
            asks=asks,
            is_connected=is_connected,
            is_running=is_running,
        )
