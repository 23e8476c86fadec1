"""What was not waited for stays unread, however much was read before it."""

import json
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread
from tests.journeys.test_peers import SCRIPTED, agent
from tests.scripting import made, say, script

AGENTS = ("bob",)
ANSWERS = 80


def make_uuid(number: int) -> str:
    return f"7a3b2f00-0000-4000-8000-{number:012d}"


async def test_many_answers_that_are_waited_for_do_not_hide_an_older_message(home: Home) -> None:
    waits: list[dict[str, Any]] = [
        made("wait_for_peer", json.dumps({"correlation_id": make_uuid(number), "timeout": 60}))
        for number in range(ANSWERS)
    ]
    home.write_config(SCRIPTED)
    home.write_script(script(agent("bob", "Wait", {"calls": waits}, say("Done.")), agent("bob", ".", say("I see."))))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("bob", "hello")
            waiting = talk.start("bob", "Wait for all")
            await waiting.until("tool_start")
            await talk.ask(send_mail=pb.SendMailMsg(agent="bob", content="the plan"))
            for number in range(ANSWERS):
                answer = pb.SendMailMsg(agent="bob", content=f"answer {number}", correlation_id=make_uuid(number))
                report = (await talk.ask(send_mail=answer)).mail_report
                assert not report.unreachable_reasons
                # Each is read before the next one comes, so that the mailbox never has more than two messages.
                await waiting.until("tool_result", count=number + 1)
            await waiting.end()
            told = [text for _, _, text in await talk.told("bob")]
            assert sum("\nthe plan\n" in text for text in told) == 1
            assert sum(text.count("\nanswer ") for text in told) == ANSWERS
            assert daemon.cli_json("goals", "bob")["data"][0]["unread"] == 0
            assert not daemon.cli_json("peers", "dead")["data"]
