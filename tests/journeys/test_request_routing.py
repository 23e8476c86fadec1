"""What the orchestrator is told about where a request belongs, through a running daemon."""

import json
from typing import Any

import pytest

from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.teaming import TEAM

CONFIG = PROVIDER_CONFIG + TEAM

VET = """---
name: vet
description: Advises on the health, food and behaviour of pets.
prefixes: []
always_include: true
---
You are vet.
"""

BROWSER = '''
from moot.tools import tool


@tool(safety="safe")
async def browser_open(address: str) -> str:
    """Open a page.

    Args:
        address: Which one.
    """
    return "opened"
'''


def advice(provider: Provider) -> str:
    """What the last request says about routing."""
    texts = [message.get("content") or "" for message in provider.bodies()[-1]["messages"]]
    return next(str(text) for text in reversed(texts) if "(Routing:" in str(text))


@pytest.mark.parametrize(
    ("request_text", "needs", "tools"),
    [
        ("take a screenshot of example.com and click on the login button", "a browser", "browser_*"),
        ("pay 20 USDC to Lena from my wallet", "payments", "payment_*"),
        ("turn off the lights in the kitchen", "a device", "MCP server"),
        ("把卧室的灯关掉", "a device", "MCP server"),
    ],
)
async def test_what_nobody_can_do_is_told_with_what_would_enable_it(
    home: Home, provider: Provider, request_text: str, needs: str, tools: str
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", request_text)
        told = advice(provider)
    assert "no teammate can do this" in told
    assert needs in told
    assert tools in told
    assert "[mcp.NAME] in config.toml" in told
    assert "answer directly" not in told


async def test_what_was_missing_is_routed_once_its_tool_is_there(home: Home, provider: Provider) -> None:
    request_text = "take a screenshot of example.com and click on the login button"
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", request_text)
            assert "no teammate can do this" in advice(provider)
            (home.path / "tools").mkdir()
            (home.path / "tools" / "browser.py").write_text(BROWSER)
            daemon.cli("reload")
            await talk.say("moot", request_text)
    assert "this is for navigator" in advice(provider)


async def test_an_unsure_router_says_so_and_does_not_decide(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "notes about the key")
    told = advice(provider)
    assert "(Routing: not certain. It could be" in told
    assert "Decide yourself" in told


@pytest.mark.parametrize(
    ("request_text", "agent"),
    [
        ("Führe die Tests in diesem Ordner aus und zeig mir die Fehler", "operator"),
        ("¿Cuál es la contraseña del router? Está guardada en los secretos", "vault"),
        ("Souviens-toi que je préfère les réponses courtes", "chronicler"),
        ("在我们的知识库里搜索保修的资料", "librarian"),
        ("our cat drags her left leg since the fall", "vet"),
        ("Mein Hund frisst nicht mehr, was soll ich ihm füttern?", "vet"),
    ],
)
async def test_requests_in_other_languages_and_for_ones_own_agents_reach_the_right_one(
    home: Home, provider: Provider, request_text: str, agent: str
) -> None:
    path = home.path / "agents" / "vet" / "AGENT.md"
    path.parent.mkdir()
    path.write_text(VET)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", request_text)
        trace: dict[str, Any] = daemon.cli_json("trace", daemon.cli_json("trace")["data"][0]["run_id"])["data"]
    (route,) = [event for event in trace["events"] if event["kind"] == "routing"]
    assert route["payload"]["agent"] == agent
    assert f"for {agent}" in advice(provider)


LETTINGS = """---
name: lettings
description: Explains rights and obligations under civil law.
prefixes: []
always_include: true
---
You are lettings.
"""
BENCH = """---
name: bench
description: Troubleshoots protocols of a molecular biology laboratory.
prefixes: []
always_include: true
---
You are bench.
"""


async def test_an_agent_is_found_for_requests_that_share_no_word_with_it(home: Home, provider: Provider) -> None:
    for name, text in (("lettings", LETTINGS), ("bench", BENCH)):
        path = home.path / "agents" / name / "AGENT.md"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    asked = {
        "my landlord refuses to give the deposit back": "lettings",
        "Mon employeur peut-il me licencier sans motif ?": "lettings",
        "房东要我提前搬走，合法吗": "lettings",
        "there is no band on the agarose gel after the PCR": "bench",
        "Meine Bakterien wachsen nicht auf der Platte mit dem Plasmid": "bench",
    }
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for request_text, agent in asked.items():
                await talk.say("moot", request_text)
                assert f"for {agent}" in advice(provider)


async def test_a_spawn_without_a_name_that_nobody_can_do_says_what_is_missing(home: Home, provider: Provider) -> None:
    spawn = {"name": "agent_spawn", "arguments": {"instruction": "take a screenshot of example.com and click on login"}}
    provider.program({"calls": [spawn]}, {"text": "It cannot be done here."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "good morning")
    result = next(message for message in provider.bodies()[-1]["messages"] if message["role"] == "tool")
    assert "no teammate here can do this: it needs a browser" in json.dumps(result)
    assert "browser_*" in json.dumps(result)


# The table that is set to false, a request, and what the orchestrator is told.
SWITCHES = [
    ("graph", "define a new type Supplier with a tax number", "`enabled = true` in [graph]"),
    ("cron", "Erinnere mich jeden Donnerstag um acht ans Altpapier", "Schedules are off (`enabled` in [cron]"),
]
# The category of tools that each table turns off.
CATEGORIES = {
    "cron": "schedules", "background": "background", "workflow": "workflow", "graph": "ontology", "rag": "documents",
}  # fmt: skip


async def test_what_was_switched_off_is_told_with_its_switch(home: Home, provider: Provider) -> None:
    config = (home.path / "config.toml").read_text()
    home.write_config(config + "".join(f"\n[{table}]\nenabled = false\n" for table, _, _ in SWITCHES))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for _, request_text, enable in SWITCHES:
                await talk.say("moot", request_text)
                assert enable in advice(provider)


def test_a_category_that_was_switched_off_says_where(home: Home) -> None:
    config = (home.path / "config.toml").read_text()
    home.write_config(config + "".join(f"\n[{table}]\nenabled = false\n" for table in CATEGORIES))
    with daemon_thread(home) as daemon:
        listed = {each["name"]: each for each in daemon.cli_json("agents", "tools")["data"]["categories"]}
    for table, category in CATEGORIES.items():
        found = listed[category]
        assert (found["enabled"], found["reason"]) == (False, f"enabled is false in [{table}]"), category
