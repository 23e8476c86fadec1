"""GET /metrics: off by default, read with a token of its own, and every fact of a turn counted once."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home
from tests.daemon_thread import DaemonThread, daemon_thread
from tests.journeys.test_peers import UUID, allow
from tests.raw_client import http_address
from tests.scripting import call, say, script
from tests.teaming import TEAM

DOCS = Path(__file__).parents[2] / "docs"
CONFIG = PLAIN.replace('http = "off"', 'http = "127.0.0.1:0"') + TEAM
ON = CONFIG + "[metrics]\nenabled = true\n"
SCRIPT = script(
    {"match": "^fail", "error": "no such model"},
    {"match": "^hang", "hang": True},
    {"match": "^invent", "steps": [call("no_such_tool_anywhere", x=1), say("I cannot.")]},
    {"match": "^look", "steps": [call("fs_read", path="nowhere.txt"), say("Not there.")]},
    {"match": "^ask", "steps": [call("ask_user", questions=[{"question": "Which colour?"}]), say("Thanks.")]},
    {"reply": "You said: {user}"},
)


@pytest.fixture
def metered(home: Home) -> Home:
    home.write_config(ON)
    home.write_script(SCRIPT)
    return home


@asynccontextmanager
async def get(daemon: DaemonThread, token: str = "", path: str = "/metrics") -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as http, http.get(http_address(daemon) + path, headers=headers) as response:
        yield response


def own_token(home: Home) -> str:
    return (home.path / "data" / "metrics.token").read_text()


async def scrape(daemon: DaemonThread) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    async with get(daemon, own_token(daemon.home)) as response:
        assert response.status == 200
        assert response.content_type == "text/plain"
        text = await response.text()
    families = list(text_string_to_metric_families(text))
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    """The sum of the samples of a metric that have these labels."""
    return sum(
        count for (each, found), count in samples.items() if each == name and labels.items() <= dict(found).items()
    )


async def test_metrics_are_off_by_default(home: Home) -> None:
    home.write_config(CONFIG)
    with daemon_thread(home) as daemon:
        token = daemon.cli_json("tokens", "new", "phone")["data"]["token"]
        async with get(daemon) as response:
            assert response.status == 401
        async with get(daemon, token) as response:
            assert response.status == 404
        assert not (home.path / "data" / "metrics.token").exists()


async def test_only_the_token_for_metrics_reads_them_and_it_is_good_for_nothing_else(metered: Home) -> None:
    with daemon_thread(metered) as daemon:
        phone = daemon.cli_json("tokens", "new", "phone")["data"]["token"]
        for wrong in ("", phone, "moot_nonsense"):
            async with get(daemon, wrong) as response:
                assert response.status == 401
        token_file = metered.path / "data" / "metrics.token"
        assert token_file.stat().st_mode & 0o777 == 0o600
        async with get(daemon, own_token(metered), "/v1/models") as response:
            assert response.status == 401
        async with get(daemon, own_token(metered)) as response:
            assert response.status == 200
            assert response.headers["Connection"] == "close"
        kept = own_token(metered)
    metered.write_config(ON + 'access = "loopback"\n')
    with daemon_thread(metered) as daemon:
        async with get(daemon) as response:
            assert response.status == 200
        assert own_token(metered) == kept
        assert "no HTTP listener" not in daemon.cli("doctor").stdout
        # Whether it is served is decided at the start.
        metered.write_config(CONFIG)
        assert "metrics.enabled" in daemon.cli("reload").stderr
        async with get(daemon) as response:
            assert response.status == 200


async def test_every_fact_of_a_turn_is_counted_once(metered: Home) -> None:
    with daemon_thread(metered) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
            await talk.start("ada", "what do you say?", guest="bob").end()
            await talk.start("ada", "fail").end()
            await talk.say("ada", "look")
            await talk.say("ada", "invent")
            await talk.compact("ada")
            hanging = talk.start("ada", "hang")
            await hanging.until("start")
            await talk.kill("ada")
            await hanging.end()
            waiting = talk.start("ada", "ask")
            await waiting.until("ask_user")
            behind = talk.start("ada", "behind it")
            await behind.until("queued")
            during = await scrape(daemon)
            await talk.reply("ada", "red")
            await behind.end()
            samples = await scrape(daemon)
    assert value(during, "moot_asks_open", kind="question") == 1
    assert (value(during, "moot_runs_live", status="running"), value(during, "moot_runs_live", status="queued")) == (
        1,
        1,
    )
    assert (value(samples, "moot_runs_live"), value(samples, "moot_asks_open")) == (0, 0)
    assert value(samples, "moot_asks_closed_total", kind="question", state="answered") == 1
    assert value(samples, "moot_runs_total", agent="ada", kind="turn", outcome="completed") == 4
    # Its only call was of a tool that does not exist.
    assert value(samples, "moot_runs_total", agent="ada", kind="turn", outcome="tool_error") == 1
    assert value(samples, "moot_runs_total", agent="bob", kind="guest") == 1
    assert value(samples, "moot_runs_total", outcome="model_error") == 1
    assert value(samples, "moot_runs_total", outcome="cancelled") == 1
    assert value(samples, "moot_run_seconds_count") == 8
    assert value(samples, "moot_model_requests_total", outcome="stopped") == 1
    assert value(samples, "moot_tool_calls_total", tool="fs_read", agent="ada", outcome="error") == 1
    # A name that a model invented is not a label.
    assert value(samples, "moot_tool_calls_total", tool="other") == 1
    assert "no_such_tool_anywhere" not in str(samples)
    assert value(samples, "moot_model_requests_total", outcome="error") == 1
    assert value(samples, "moot_model_requests_total", outcome="ok") == value(
        samples, "moot_model_first_token_seconds_count"
    )
    assert value(samples, "moot_model_requests_total") == value(samples, "moot_model_request_seconds_count")
    assert value(samples, "moot_compactions_total") == 1
    assert value(samples, "moot_store_transactions_total") >= value(samples, "moot_store_commits_total") > 0
    assert value(samples, "moot_connections_open", kind="owner") == 1
    assert value(samples, "process_resident_memory_bytes") > 0


async def test_mail_is_counted_where_it_is_sent_delivered_read_and_evicted(metered: Home) -> None:
    metered.write_script(
        script(
            {
                "match": "^tell bob",
                "steps": [
                    call("send_to_peer", to="bob", message="hello", correlation_id=UUID),
                    call("wait_for_peer", correlation_id=UUID, timeout=60),
                    say("Done: {result}"),
                ],
            },
            {
                "match": "PEER MESSAGES",
                "steps": [call("send_to_peer", to="ada", message="hi", correlation_id=UUID), say("Answered.")],
            },
            {"reply": "You said: {user}"},
        )
    )
    allow(metered, "bob", "wake: true")
    with daemon_thread(metered) as daemon:
        async with daemon.client() as talk:
            for agent in ("ada", "bob", "cyd"):
                await talk.say(agent, "hello")
            for number in range(65):
                await talk.ask(send_mail=pb.SendMailMsg(agent="cyd", content=f"mail {number}"))
            waiting = await scrape(daemon)
            await talk.say("cyd", "read it")
            # Mail that starts a run is read by it, and so is an answer that was waited for.
            assert "hi" in (await talk.say("ada", "tell bob")).text
            samples = await scrape(daemon)
    assert (value(waiting, "moot_mail_unread"), value(waiting, "moot_mailbox_unread_max")) == (64, 64)
    assert (value(samples, "moot_mail_unread"), value(samples, "moot_mailbox_unread_max")) == (0, 0)
    assert value(samples, "moot_mail_total", agent="@", event="sent") == 65
    counts = {
        (agent, event): value(samples, "moot_mail_total", agent=agent, event=event)
        for agent in ("ada", "bob", "cyd")
        for event in ("sent", "delivered", "read", "evicted")
    }
    assert {key: count for key, count in counts.items() if count} == {
        ("ada", "sent"): 1,
        ("ada", "delivered"): 1,
        ("ada", "read"): 1,
        ("bob", "sent"): 1,
        ("bob", "delivered"): 1,
        ("bob", "read"): 1,
        ("cyd", "delivered"): 65,
        ("cyd", "read"): 64,
        ("cyd", "evicted"): 1,
    }
    assert value(samples, "moot_mail_wait_seconds_count") == 66
    # The name of a person is no label.
    assert "user" not in str([key for key in samples if "mail" in key[0]])


async def test_the_dashboard_and_the_docs_name_exactly_the_metrics_there_are(metered: Home) -> None:
    with daemon_thread(metered) as daemon:
        async with get(daemon, own_token(metered)) as response:
            found = re.findall(r"^# TYPE (\S+) (\S+)$", await response.text(), re.M)
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    used = {name for text in _expressions(dashboard) for name in re.findall(r"\b(?:moot|process)_[a-z_]+\b", text)}
    assert used == {f"{name}_bucket" if kind == "histogram" else name for name, kind in found} - {
        name for name, _ in found if name.startswith("process_") and name not in used
    }
    documented = re.findall(r"^\| `(moot_[a-z_]+)`", (DOCS / "operations.md").read_text(encoding="utf-8"), re.M)
    assert sorted(documented) == sorted(name for name, _ in found if name.startswith("moot_"))


def _expressions(dashboard: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_doctor_says_that_metrics_need_a_listener(home: Home) -> None:
    home.write_config(PLAIN + "[metrics]\nenabled = true\n")
    with daemon_thread(home) as daemon:
        assert "Metrics are enabled, but there is no HTTP listener" in " ".join(daemon.cli("doctor").stdout.split())
