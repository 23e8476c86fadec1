"""OpenAI Agents: Runner over chat completions, conversations in its SQLiteSession."""

from collections.abc import AsyncIterator

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, set_tracing_disabled
from openai import AsyncOpenAI


class Peer:
    def __init__(self, base: str, folder: str) -> None:
        set_tracing_disabled(True)
        self._base = base
        self._file = f"{folder}/sessions.db"
        self._agent = self._make("")
        self._kept: dict[str, SQLiteSession] = {}

    def _make(self, options: str) -> Agent:
        client = AsyncOpenAI(base_url=f"{self._base}{options}/v1", api_key="none")
        model = OpenAIChatCompletionsModel(model="mock", openai_client=client)
        return Agent(name="bench", instructions="You are a helpful assistant.", model=model)

    def _conversation(self, name: str) -> SQLiteSession:
        if name not in self._kept:
            self._kept[name] = SQLiteSession(name, self._file)
        return self._kept[name]

    async def open(self) -> None:
        """Nothing to open."""

    async def seed(self, name: str, messages: list[dict[str, str]]) -> None:
        await self._conversation(name).add_items(messages)

    async def turn(self, name: str, text: str) -> str:
        result = await Runner.run(self._agent, text, session=self._conversation(name))
        return str(result.final_output)

    async def stream(self, text: str, options: str) -> AsyncIterator[str]:
        result = Runner.run_streamed(self._make(options), text)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta

    async def close(self) -> None:
        for kept in self._kept.values():
            kept.close()
