"""The owner sees the MCP servers and approves what changed; nobody else does. Tables of the configuration are read."""

from pathlib import Path
from typing import Any

import pytest

from moot.daemon.config.mcp_keys import build_mcp_config
from moot.daemon.principal import Principal
from moot.daemon.requests.mcp import McpRequests
from moot.domain.errors import BadRequest, Forbidden, NotFound
from moot.domain.mcp import WAITING
from moot.domain.prompt import Safety
from moot.wire import moot_pb2 as pb
from tests.mcp_kit import Kit, kit, tool

OWNER = Principal(name="owner", default_sender="user", is_owner=True)
GUEST = Principal(name="bot", default_sender="bot")


class Replies:
    def __init__(self) -> None:
        self.sent: list[pb.ServerMessage] = []

    def send(self, message: pb.ServerMessage) -> None:
        self.sent.append(message)


async def listed(box: Kit, principal: Principal = OWNER, **asked: Any) -> Any:
    replies = Replies()
    request = pb.ClientMessage(list_mcp=pb.ListMcpMsg(**asked))
    await McpRequests(box.servers).list_mcp(request, principal, replies)  # type: ignore[arg-type]
    return replies.sent[0].mcp_list.servers


async def approved(box: Kit, principal: Principal = OWNER) -> list[str]:
    replies = Replies()
    digests = [offer.digest for offer in box.servers.offers("box") if offer.state in WAITING]
    request = pb.ClientMessage(approve_mcp=pb.ApproveMcpMsg(name="box", digests=digests))
    await McpRequests(box.servers).approve_mcp(request, principal, replies)  # type: ignore[arg-type]
    return list(replies.sent[0].mcp_approved.tools)


async def test_servers_are_listed_tested_and_approved(tmp_path: Path) -> None:
    async with kit(tmp_path, tool("echo")) as box:
        (info,) = await listed(box)
        assert (info.name, list(info.tools), info.problem) == ("box", [], "")
        (info,) = await listed(box, name="box", connect=True)
        assert [(one.name, one.state, one.safety) for one in info.tools] == [("mcp__box__echo", "new", "dangerous")]
        assert await approved(box) == ["echo"]
        with pytest.raises(BadRequest, match="no text was named"):
            await approved(box)
        box.offer(tool("echo", "Changed."))
        (info,) = await listed(box, connect=True)
        assert info.tools[0].state == "changed"
        assert "does it" in info.tools[0].approved_text
        assert "Changed." in info.tools[0].text
        assert await approved(box) == ["echo"]
        (info,) = await listed(box)
        assert info.tools[0].state == "ready"


async def test_a_server_that_does_not_work_is_told_as_a_problem(tmp_path: Path) -> None:
    async with kit(tmp_path, command="no-such-program-here") as box:
        (info,) = await listed(box, name="box", connect=True)
        assert "no-such-program-here" in info.problem
        with pytest.raises(NotFound):
            await listed(box, name="other", connect=True)


async def test_it_is_the_owners_alone(tmp_path: Path) -> None:
    async with kit(tmp_path, tool("echo")) as box:
        with pytest.raises(Forbidden):
            await listed(box, GUEST)
        with pytest.raises(Forbidden):
            await approved(box, GUEST)


def test_a_table_becomes_a_server() -> None:
    table = {"env": {"A": "env:B"}, "tools": {"echo": "safe"}}
    config, problems = build_mcp_config("box", table, {"command": "x", "args": ("y",), "safety": "moderate"})
    assert problems == []
    assert (config.command, config.args, config.safety) == ("x", ("y",), Safety.MODERATE)
    assert config.tools["echo"] is Safety.SAFE
    assert config.env["A"] == "env:B"


@pytest.mark.parametrize(
    ("name", "table", "values", "key"),
    [
        ("a__b", {}, {"command": "x"}, ""),
        ("Box", {}, {"command": "x"}, ""),
        ("a" * 40, {}, {"command": "x"}, ""),
        ("box", {}, {}, ""),
        ("box", {}, {"command": "x", "url": "http://x.example/"}, ""),
        ("box", {}, {"url": "unix:/x"}, "url"),
        ("box", {}, {"url": "http://a:b@x.example/"}, "url"),
        ("box", {"headers": {"A": "b"}}, {"url": "http://x.example/"}, "url"),
        ("box", {"headers": {"A": "b\r\nC: d"}}, {"url": "https://x.example/"}, "headers"),
        ("box", {"env": 5}, {"command": "x"}, "env"),
        ("box", {"env": {"A": 5}}, {"command": "x"}, "env"),
        ("box", {"tools": {"a": "harmless"}}, {"command": "x"}, "tools"),
    ],
)
def test_a_table_that_is_wrong_says_where(name: str, table: dict[str, Any], values: dict[str, Any], key: str) -> None:
    _, problems = build_mcp_config(name, table, values)
    assert [place for place, _ in problems] == [key]
