"""OpenTelemetry: spans of runs, model requests and tool calls, content only on request, and never at a run's cost."""

import sys

import pytest
from msgspec import json

from moot.daemon.telemetry import span_names as names
from moot.domain.errors import ConfigError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually
from tests.daemon_thread import daemon_thread
from tests.otlp_collector import Collector, attributes, collector
from tests.scripting import call, say, script, spawn, wait
from tests.teaming import TEAM

SPAWN = spawn("find it", agent="operator")
SCRIPT = script(
    {"match": "^fail", "error": "no such model"},
    {"match": "^look", "steps": [call("fs_read", path="private-place.txt"), say("Not there.")]},
    {"match": "^find it", "reply": "Found."},
    {"match": "^delegate", "steps": [SPAWN, wait(), say("It was found.")]},
    {"reply": "You said: {user}"},
)


def traced(home: Home, kept: Collector, extra: str = "") -> Home:
    home.write_script(SCRIPT)
    home.write_config(PLAIN + TEAM + f'[telemetry]\nenabled = true\nendpoint = "{kept.url}"\n{extra}')
    return home


async def test_runs_requests_and_calls_become_spans_in_one_tree_without_content(home: Home) -> None:
    with collector() as kept:
        with daemon_thread(traced(home, kept)) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", "look at the secret plan")
                await talk.start("ada", "what do you say?", guest="bob").end()
                await talk.start("ada", "fail").end()
                await talk.ask(send_mail=pb.SendMailMsg(agent="ada", content="the secret plan"))
                await talk.say("ada", "anything new?")
                await talk.say("moot", "delegate")
                await eventually(lambda: kept.named("invoke_agent moot"))
        (tool,) = kept.named("execute_tool fs_read")
        run = next(span for span in kept.named("invoke_agent ada") if span.span_id == tool.parent_span_id)
        requests = [span for span in kept.named("chat ") if span.parent_span_id == run.span_id]
        about = attributes(run)
        assert about[names.OPERATION] == "invoke_agent"
        assert (about[names.OUTCOME], about[names.RUN_KIND], about[names.GUEST]) == ("completed", "turn", False)
        assert about[names.INPUT_TOKENS] == sum(attributes(each)[names.INPUT_TOKENS] for each in requests) > 0
        assert [attributes(each)[names.FINISH_REASONS] for each in requests] == [["tool_calls"], ["stop"]]
        assert all(each.trace_id == run.trace_id for each in (tool, *requests))
        assert attributes(tool)["error.type"] == "tool_error"
        assert tool.status.code == 2
        (guest,) = kept.named("invoke_agent bob")
        assert (attributes(guest)[names.GUEST], attributes(guest)[names.RUN_KIND]) == (True, "guest")
        assert guest.trace_id != run.trace_id
        (failed,) = [span for span in kept.spans if attributes(span).get(names.OUTCOME) == "model_error"]
        assert failed.status.code == 2
        (read,) = [event for span in kept.named("invoke_agent ada") for event in span.events]
        assert (read.name, attributes(read)[names.MAIL_FROM], attributes(read)[names.MAIL_TO]) == (
            names.MAIL_READ,
            "@",
            "ada",
        )
        assert attributes(read)[names.MAIL_WAIT] >= 0
        # A teammate belongs to the call that spawned it.
        (spawned,) = kept.named("invoke_agent operator")
        (spawning,) = kept.named("execute_tool agent_spawn")
        assert spawned.parent_span_id == spawning.span_id
        assert attributes(spawned)[names.PARENT_RUN_ID] == attributes(spawning)[names.RUN_ID]
        # Nothing that anybody wrote.
        sent = "".join(str(span) for span in kept.spans)
        for private in ("secret plan", "private-place", "You said", "Found.", "no such model", "user"):
            assert private not in sent
        assert kept.resources[0]["service.name"] == "moot"


async def test_content_is_exported_only_on_request_and_redacted(home: Home) -> None:
    with collector() as kept:
        home.write_config(PLAIN)
        with daemon_thread(home) as daemon:
            daemon.cli("secrets", "set", "OTLP_AUTH", stdin="Bearer-swordfish-4711")
        extra = 'content = true\nauthorization = "secret:OTLP_AUTH"\n'
        with daemon_thread(traced(home, kept, extra)) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", "look: write to ann@example.com about Bearer-swordfish-4711")
                await eventually(lambda: kept.named("invoke_agent ada"))
        request = attributes(kept.named("chat ")[-1])
        sent = str(json.decode(request[names.INPUT_MESSAGES]))
        assert "look: write to" in sent
        assert json.decode(request[names.OUTPUT_MESSAGES])[0]["parts"][0]["content"] == "Not there."
        assert json.decode(request[names.SYSTEM_INSTRUCTIONS])
        (tool,) = kept.named("execute_tool ")
        assert "private-place.txt" in attributes(tool)[names.TOOL_ARGUMENTS]
        assert attributes(tool)[names.TOOL_RESULT]
        everything = "".join(str(span) for span in kept.spans)
        assert "ann@example.com" not in everything
        assert "swordfish" not in everything
        assert set(kept.authorizations) == {"Bearer-swordfish-4711"}


async def test_spans_for_a_collector_of_this_machine_do_not_go_through_a_proxy(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector() as kept, collector() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with daemon_thread(traced(home, kept)) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", "hello")
                await eventually(lambda: kept.spans or proxy.spans)
        assert kept.named("invoke_agent ada")
        assert not proxy.spans


async def test_a_collector_that_never_answers_delays_neither_a_turn_nor_the_stop(home: Home) -> None:
    with collector(answers=False) as kept:
        with daemon_thread(traced(home, kept)) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", "hello")
                await eventually(kept.reached.is_set)
                assert (await talk.say("ada", "hello again")).outcome == "completed"
        assert kept.reached.is_set()
        assert not kept.spans


async def test_a_collector_that_is_gone_is_logged_once(home: Home) -> None:
    with collector() as kept:
        pass
    with daemon_thread(traced(home, kept)) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
            log = home.path / "logs" / "moot.log"
            await eventually(lambda: "traces could not be sent" in log.read_text())
            assert (await talk.say("ada", "hello again")).outcome == "completed"
    assert log.read_text().count("traces could not be sent") == 1


def test_without_the_extra_the_daemon_says_how_to_install_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "moot.daemon.telemetry.span_export", raising=False)
    home.write_config(PLAIN + "[telemetry]\nenabled = true\n")
    with pytest.raises(ConfigError, match="OpenTelemetry is not installed") as missing, daemon_thread(home):
        pass
    assert "pip install 'moot[telemetry]'" in missing.value.fix
