"""OpenAI Agents: Runner over chat completions, conversations in its SQLiteSession."""

from collections.abc import AsyncIterator

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    Tool,
    ToolCallOutputItem,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from bench.peers.transport import http_client


@function_tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


class Peer:
    def __init__(self, base: str, folder: str) -> None:
        set_tracing_disabled(True)
        self._base = base
        self._file = f"{folder}/sessions.db"
        self._leads: dict[str, Agent] = {}
        self._kept: dict[str, SQLiteSession] = {}

    def _model(self, options: str) -> OpenAIChatCompletionsModel:
        client = AsyncOpenAI(base_url=f"{self._base}{options}/v1", api_key="none", http_client=self._http)
        return OpenAIChatCompletionsModel(model="mock", openai_client=client)

    def _make(self, options: str, *tools: Tool) -> Agent:
        prompt = "You are a helpful assistant."
        return Agent(name="bench", instructions=prompt, model=self._model(options), tools=list(tools))

    def _conversation(self, name: str) -> SQLiteSession:
        if name not in self._kept:
            self._kept[name] = SQLiteSession(name, self._file)
        return self._kept[name]

    async def open(self) -> None:
        self._http = http_client()
        self._agent = self._make("")
        self._with_tool = self._make("/t1", echo)

    async def seed(self, name: str, messages: list[dict[str, str]]) -> None:
        await self._conversation(name).add_items(messages)

    async def turn(self, name: str, text: str) -> str:
        result = await Runner.run(self._agent, text, session=self._conversation(name))
        return str(result.final_output)

    async def tool_turn(self, name: str, text: str) -> str:
        result = await Runner.run(self._with_tool, text, session=self._conversation(name))
        return str(result.final_output)

    def _lead(self, options: str) -> Agent:
        """An agent whose one tool runs another, built once; the calls of one answer run together."""
        model = self._model(options)
        mate = Agent(name="planner", instructions="You work as a teammate.", model=model)

        @function_tool
        async def agent_spawn(instruction: str, agent: str) -> str:
            """Give a teammate a part of the work; it returns what the teammate said."""
            return str((await Runner.run(mate, instruction)).final_output)

        return Agent(name="lead", instructions="You lead a team.", model=model, tools=[agent_spawn])

    async def team(self, name: str, text: str, options: str) -> tuple[str, list[str]]:
        if options not in self._leads:
            self._leads[options] = self._lead(options)
        result = await Runner.run(self._leads[options], text, session=self._conversation(name))
        parts = [str(item.output) for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        return str(result.final_output), parts

    async def stream(self, text: str, options: str) -> AsyncIterator[str]:
        result = Runner.run_streamed(self._make(options), text)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta

    async def close(self) -> None:
        for kept in self._kept.values():
            kept.close()
        if self._http is not None:
            await self._http.aclose()
