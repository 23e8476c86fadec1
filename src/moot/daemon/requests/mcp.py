"""Handlers for MCP servers: list, test, approve or deny."""

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.errors import BadRequest, MootError
from moot.domain.mcp import McpConfig
from moot.tools.mcp.servers import McpServers
from moot.wire import moot_pb2 as pb


class McpRequests:
    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    async def list_mcp(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the MCP servers")
        request = message.list_mcp
        names = [request.name] if request.name else self._servers.names()
        if request.connect:
            await self._connect(request.name)
        elif request.refresh:
            await self._servers.refresh_changed()
        servers = [self._info(self._servers.config(name)) for name in names]
        reply.send(pb.ServerMessage(mcp_list=pb.McpList(servers=servers)))

    async def approve_mcp(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("approve tools of an MCP server")
        request = message.approve_mcp
        if not request.digests:
            raise BadRequest("no text was named", fix="Name the digests of the texts that were read.")
        decided = await self._servers.decide(request.name, request.digests, approved=not request.deny)
        reply.send(pb.ServerMessage(mcp_approved=pb.McpApproved(tools=[offer.tool for offer in decided])))

    async def _connect(self, name: str) -> None:
        try:
            await self._servers.refresh(name)
        except MootError:
            # The answer contains the error as the problem of the server, beside its other data.
            if not name or not self._servers.problem(name):
                raise

    def _info(self, config: McpConfig) -> pb.McpServerInfo:
        tools = [
            pb.McpToolInfo(
                tool=offer.tool,
                name=offer.name,
                description=offer.description,
                state=offer.state,
                reason=offer.reason,
                safety=config.tools.get(offer.tool, config.safety),
                digest=offer.digest,
                text=offer.text,
                approved_text=offer.approved_text,
            )
            for offer in self._servers.offers(config.name)
        ]
        return pb.McpServerInfo(
            name=config.name,
            target=config.url or " ".join((config.command, *config.args)),
            enabled=config.enabled,
            problem=self._servers.problem(config.name),
            tools=tools,
            sandbox=self._sandbox(config),
        )

    def _sandbox(self, config: McpConfig) -> str:
        if config.url:
            return ""
        if not self._servers.is_boxed(config.name):
            return "none"
        return "sandbox with network" if config.network else "sandbox"
