"""LangGraph: create_agent over chat completions, conversations in its SQLite checkpointer."""

from collections.abc import AsyncIterator
from typing import Any

import aiosqlite
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from bench.peers.transport import http_client


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


class Peer:
    def __init__(self, base: str, folder: str) -> None:
        self._base = base
        self._file = f"{folder}/checkpoints.db"
        self._leads: dict[str, Any] = {}

    def _model(self, options: str) -> ChatOpenAI:
        base = f"{self._base}{options}/v1"
        return ChatOpenAI(model="mock", base_url=base, api_key="none", http_async_client=self._http)

    def _make(self, options: str, *tools: BaseTool, keeper: AsyncSqliteSaver | None = None) -> Any:
        prompt = "You are a helpful assistant."
        return create_agent(self._model(options), tools=tools, system_prompt=prompt, checkpointer=keeper)

    async def open(self) -> None:
        self._http = http_client()
        self._db = await aiosqlite.connect(self._file)
        self._keeper = AsyncSqliteSaver(self._db)
        await self._keeper.setup()
        self._agent = self._make("", keeper=self._keeper)
        self._with_tool = self._make("/t1", echo, keeper=self._keeper)

    @staticmethod
    def _place(name: str) -> dict[str, dict[str, str]]:
        return {"configurable": {"thread_id": name}}

    async def seed(self, name: str, messages: list[dict[str, str]]) -> None:
        await self._agent.aupdate_state(self._place(name), {"messages": messages}, as_node="model")

    async def turn(self, name: str, text: str) -> str:
        state = await self._agent.ainvoke({"messages": [{"role": "user", "content": text}]}, self._place(name))
        return str(state["messages"][-1].content)

    async def tool_turn(self, name: str, text: str) -> str:
        state = await self._with_tool.ainvoke({"messages": [{"role": "user", "content": text}]}, self._place(name))
        return str(state["messages"][-1].content)

    def _lead(self, options: str) -> Any:
        """An agent whose one tool invokes another, built once; its tool node runs the calls of one answer together."""
        model = self._model(options)
        # A plain call, which is faster than one whose steps are kept in the checkpoints of whoever made it.
        mate = create_agent(model, tools=[], system_prompt="You work as a teammate.", checkpointer=False)

        @tool
        async def agent_spawn(instruction: str, agent: str) -> str:
            """Give a teammate a part of the work; it returns what the teammate said."""
            state = await mate.ainvoke({"messages": [{"role": "user", "content": instruction}]})
            return str(state["messages"][-1].content)

        return create_agent(model, tools=[agent_spawn], system_prompt="You lead a team.", checkpointer=self._keeper)

    async def team(self, name: str, text: str, options: str) -> tuple[str, list[str]]:
        if options not in self._leads:
            self._leads[options] = self._lead(options)
        said = {"messages": [{"role": "user", "content": text}]}
        state = await self._leads[options].ainvoke(said, self._place(name))
        parts = [str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)]
        return str(state["messages"][-1].content), parts

    async def stream(self, text: str, options: str) -> AsyncIterator[str]:
        said = {"messages": [{"role": "user", "content": text}]}
        async for piece, _ in self._make(options).astream(said, stream_mode="messages"):
            if piece.content:
                yield piece.content

    async def close(self) -> None:
        await self._db.close()
        if self._http is not None:
            await self._http.aclose()
