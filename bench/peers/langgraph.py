"""LangGraph: create_agent over chat completions, conversations in its SQLite checkpointer."""

from collections.abc import AsyncIterator
from typing import Any

import aiosqlite
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class Peer:
    def __init__(self, base: str, folder: str) -> None:
        self._base = base
        self._file = f"{folder}/checkpoints.db"

    def _make(self, options: str, keeper: AsyncSqliteSaver | None = None) -> Any:
        model = ChatOpenAI(model="mock", base_url=f"{self._base}{options}/v1", api_key="none")
        return create_agent(model, tools=[], system_prompt="You are a helpful assistant.", checkpointer=keeper)

    async def open(self) -> None:
        self._db = await aiosqlite.connect(self._file)
        keeper = AsyncSqliteSaver(self._db)
        await keeper.setup()
        self._agent = self._make("", keeper)

    @staticmethod
    def _place(name: str) -> dict[str, dict[str, str]]:
        return {"configurable": {"thread_id": name}}

    async def seed(self, name: str, messages: list[dict[str, str]]) -> None:
        await self._agent.aupdate_state(self._place(name), {"messages": messages}, as_node="model")

    async def turn(self, name: str, text: str) -> str:
        state = await self._agent.ainvoke({"messages": [{"role": "user", "content": text}]}, self._place(name))
        return str(state["messages"][-1].content)

    async def stream(self, text: str, options: str) -> AsyncIterator[str]:
        said = {"messages": [{"role": "user", "content": text}]}
        async for piece, _ in self._make(options).astream(said, stream_mode="messages"):
            if piece.content:
                yield piece.content

    async def close(self) -> None:
        await self._db.close()
