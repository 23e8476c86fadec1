"""A token made with --may-approve decides single calls of its own senders, and nothing else."""

import asyncio
from typing import Literal

import pytest
from msgspec.structs import replace

from moot.client import Approval, AsyncMoot, Moot, RunFailed, RunInfo, WaitingForPerson
from moot.domain.errors import Conflict, Forbidden, NotFound, Unauthorized
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import LiveDaemon
from tests.raw_client import tcp_address
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.teaming import TEAM

# A teammate's grant, and a tool that always asks.
CONFIG = PLAIN.replace('tcp = "off"', 'tcp = "127.0.0.1:0"') + TEAM.replace(
    'policy = "none"', 'sensitive_tools = ["set_title"]'
)
SECRET = "canary-5d20b81c7f"
SCRIPT = script(
    lead("^delegate", spawn("rename", allowed_tools=["fs_read"]), wait(), say("{result}")),
    mate("^rename", call("exec", command="true"), say("{result}")),
    {"match": "^keep", "steps": [call("secrets_store", f'{{"name": "api", "value": "{SECRET}"}}'), say("{result}")]},
    {"match": "^use (?P<name>.*)", "steps": [call("exec", command="echo {{secret:{name}}}"), say("{result}")]},
    {"match": "^rename", "steps": [call("set_title", title="Ferry"), say("{result}")]},
)


def make_token(daemon: LiveDaemon, name: str, *options: str) -> str:
    return str(daemon.cli_json("tokens", "new", name, *options)["data"]["token"])


async def ask_and_leave(moot: AsyncMoot, agent: str, text: str) -> Approval:
    with pytest.raises(WaitingForPerson) as raised:
        await moot.ask(agent, text)
    assert isinstance(raised.value.ask, Approval)
    return raised.value.ask


async def test_it_allows_and_denies_single_calls_of_its_own_senders(daemon: LiveDaemon) -> None:
    address = tcp_address(daemon)
    trusted, plain = make_token(daemon, "phone", "--may-approve"), make_token(daemon, "tablet")
    listed = {each["name"]: each["may_approve"] for each in daemon.cli_json("tokens", "list")["data"]}
    assert listed == {"phone": True, "tablet": False}
    async with (
        AsyncMoot(address, token=trusted) as phone,
        AsyncMoot(address, token=plain) as tablet,
        AsyncMoot(home=daemon.home.path) as owner,
    ):
        reply = await phone.ask("ada", "rename", on_approval=lambda _: True)
        assert "Ferry" in reply.text
        with pytest.raises(RunFailed, match="Denied: set_title"):
            await phone.ask("ada", "rename", on_approval=lambda _: False)
        # Another token has an approval of its own and may not decide it.
        own = await ask_and_leave(tablet, "ada", "rename")
        with pytest.raises(Forbidden, match="may not decide"):
            await tablet.decide(own, True)
        # Neither that one nor the owner's exist for a token that may approve.
        for foreign in (own, await ask_and_leave(owner, "ada", "rename")):
            with pytest.raises(NotFound):
                await phone.decide(foreign, False)
        assert {ask.sender for ask in await owner.asks()} == {"tablet", "user"}


async def test_it_writes_no_rule_grants_no_tool_and_allows_nothing_it_was_not_shown(daemon: LiveDaemon) -> None:
    token = make_token(daemon, "watch", "--may-approve")
    async with AsyncMoot(tcp_address(daemon), token=token) as watch, AsyncMoot(home=daemon.home.path) as owner:
        ask = await ask_and_leave(watch, "ada", "rename")
        wider: tuple[Literal["run", "always"], ...] = ("run", "always")
        for decision in wider:
            with pytest.raises(Forbidden, match="rules"):
                await watch.decide(ask, decision)
        whole = pb.DecideAskMsg(ask_id=ask.id, attempt=ask.attempt, decision="once", whole_tool=True)
        with pytest.raises(Forbidden, match="rules"):
            await watch._link.request(pb.ClientMessage(decide_ask=whole))
        with pytest.raises(Conflict, match="changed"):
            await watch.decide(replace(ask, attempt=2), True)
        assert await watch.decide(ask, True) == "granted"

        secret = await ask_and_leave(watch, "bob", "keep")
        assert SECRET not in str(secret)
        with pytest.raises(Forbidden, match="not shown"):
            await watch.decide(secret, True)
        assert await watch.decide(secret, False) == "denied"

        grant = await ask_and_leave(watch, "moot", "delegate")
        assert grant.kind == "grant"
        with pytest.raises(Forbidden, match="grant"):
            await watch.decide(grant, True)
        assert await owner.decide(grant, False) == "denied"
        for request in (
            pb.ClientMessage(list_rules=pb.ListRulesMsg()),
            pb.ClientMessage(list_secrets=pb.ListSecretsMsg()),
        ):
            with pytest.raises(Forbidden):
                await watch._link.request(request)


async def test_it_allows_no_call_that_uses_a_secret(daemon: LiveDaemon) -> None:
    token = make_token(daemon, "pager", "--may-approve")
    assert daemon.cli("secrets", "set", "API", stdin=SECRET).returncode == 0
    assert daemon.cli("secrets", "scope", "API", "--sender", "pager").returncode == 0
    async with AsyncMoot(tcp_address(daemon), token=token) as pager, AsyncMoot(home=daemon.home.path) as owner:
        # Its owner has allowed the sender to use it, with approval.
        ask = await ask_and_leave(pager, "ada", "use API")
        assert "API" in ask.reason
        with pytest.raises(Forbidden, match="uses a secret"):
            await pager.decide(ask, True)
        assert await pager.decide(ask, False) == "denied"
        again = await ask_and_leave(pager, "bob", "use API")
        assert await owner.decide(again, True) == "granted"


async def test_a_revoked_token_decides_nothing_any_more(daemon: LiveDaemon) -> None:
    token = make_token(daemon, "watch2", "--may-approve")
    async with AsyncMoot(tcp_address(daemon), token=token, reconnect=0) as watch:
        ask = await ask_and_leave(watch, "ada", "rename")
        await asyncio.to_thread(daemon.cli, "tokens", "revoke", "watch2")
        with pytest.raises(Unauthorized):
            await watch.decide(ask, True)
    with Moot(home=daemon.home.path) as owner:
        runs: list[RunInfo] = [run for run in owner.runs() if run.ask_id == ask.id]
        assert [run.needs_person for run in runs] == [True]
