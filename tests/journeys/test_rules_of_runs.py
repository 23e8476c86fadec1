"""A rule for one run is listed while the run goes on, and is gone with it."""

import asyncio

import pytest

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = (
    PROVIDER_CONFIG
    + """
[security.interceptor]
sensitive_tools = ["set_title"]
"""
)

NAMING = {"match": "name it", "calls": [{"name": "set_title", "arguments": {"title": "The lighthouse"}}]}


async def test_a_rule_for_one_run_is_listed_until_the_run_has_ended(home: Home, provider: Provider) -> None:
    provider.program(NAMING, {"match": "name it", "text": "Named.", "hold": True})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "name it")
            asked = await speech.until("approval_opened")
            await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=asked.ask_id, attempt=1, decision="run"))
            await speech.until("tool_result")
            (rule,) = (await asyncio.to_thread(daemon.cli_json, "rules"))["data"]
            assert rule["run_id"]
            provider.requests(at_least=2)
            provider.release()
            await speech.end()
            assert (await asyncio.to_thread(daemon.cli_json, "rules"))["data"] == []
            assert "No rules." in (await asyncio.to_thread(daemon.cli, "rules")).stdout


async def test_an_approval_with_a_rule_that_a_crash_kept_from_its_run_is_used_up_by_the_call(
    home: Home, provider: Provider
) -> None:
    """An approval that was not used says that its call was not made: the next crash would have it made again."""
    provider.program(NAMING, {"match": "name it", "text": "Named."})
    with running(home, MOOT_FAIL_AT="committed.decide") as daemon:
        async with daemon.client() as talk:
            asked = await talk.start("ada", "name it").until("approval_opened")
            with pytest.raises(MootError, match="connection"):
                await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=asked.ask_id, attempt=1, decision="run"))
        daemon.reap()
    with daemon_thread(home) as again:
        async with again.client() as talk:

            async def is_over() -> bool:
                return [each.outcome for each in (await talk.history("ada")).messages][:1] == ["completed"]

            assert await eventually(is_over)
            assert home.query("SELECT state FROM asks") == [("used",)]
