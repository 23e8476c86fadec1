"""What each reader finds of the data of somebody else's conversation: every kind of data with every kind of reader.

The expectations are the table of docs/isolation.md.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.isolating import AGENT, SENDER, Harbour, Seen, read_as_token
from tests.isolation_kinds import KINDS, Kind

PAGE = Path(__file__).resolve().parents[2] / "docs" / "isolation.md"
CONFIG = (
    PROVIDER_CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
    + """
[agent]
multiAgent = true
[agentMemory]
enabled = true
[librarian]
enabled = true
observationThreshold = 1000
[security.interceptor]
policy = "none"
"""
)
AGENTS = (AGENT, "bob", "mate")
# Named, so that an agent is offered them at once.
PREFIXES = (
    "bg_*", "workflow_*", "cron_*", "memory_*", "observe_*", "reflect_*", "fs_*", "graph_*", "ontology_*", "search_*",
    "save_*", "get_*", "learning_*", "secrets_*", "librarian_*", "rag_*",
)  # fmt: skip
# Their fixture takes seconds, and they next to nothing.
TOGETHER = 1000
READERS = ("other agent", "other sender", "token", "teammate", "guest")


def read_table() -> dict[str, dict[str, str]]:
    """Return the rows of the first table of the page, by the name of the data."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").split("## ")[0].splitlines()
        if line.startswith("|")
    ]
    header, _, *others = rows
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in others}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, shared_provider: Provider) -> Iterator[dict[str, Seen]]:
    shared_provider.reset()
    home = Home(tmp_path_factory.mktemp("home"))
    home.furnish(config=CONFIG.replace("PROVIDER_URL", shared_provider.url), agents=AGENTS)
    for name in AGENTS:
        path = home.path / "agents" / name / "AGENT.md"
        listed = ", ".join(f'"{each}"' for each in PREFIXES)
        path.write_text(path.read_text().replace("\n---\n", f"\nprefixes: [{listed}]\n---\n", 1))
    with daemon_thread(home) as daemon:

        async def read() -> dict[str, Seen]:
            async with daemon.client() as talk:
                harbour = Harbour(daemon, shared_provider, talk)
                await harbour.fill()
                found = {
                    "token": await read_as_token(harbour),
                    "other agent": await harbour.read_as("bob", SENDER),
                    "other sender": await harbour.read_as(AGENT, "eve"),
                    "guest": await harbour.read_as(AGENT, SENDER, guest="bob"),
                    "teammate": await harbour.read_as(AGENT, SENDER, teammate="mate"),
                }
                await harbour.spoil_as(AGENT, "eve")
                # Last, so that it shows what the others have left.
                found["itself"] = await harbour.read_as(AGENT, SENDER)
                found["owner"] = Seen(await harbour.ask_everything(talk))
                return found

        yield asyncio.run(read())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_finds_what_the_table_says_and_nothing_else(seen: dict[str, Seen], reader: str, kind: Kind) -> None:
    expected = read_table()[kind.name][reader]
    assert expected in ("yes", "no")
    if expected == "no":
        assert kind.word not in seen[reader].everything
    else:
        found = seen[reader].found.get(kind.name, "") if kind.finds else seen[reader].everything
        assert kind.word in found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_it_is_there_for_its_own_conversation_and_for_the_owner(seen: dict[str, Seen], kind: Kind) -> None:
    """Whatever the readers tried, and so that the searches are shown to find something."""
    if kind.finds:
        assert kind.word in seen["itself"].found[kind.name]
    if kind.is_listed:
        assert kind.word in seen["owner"].everything


def test_the_table_has_a_row_for_every_kind_that_is_tried() -> None:
    assert list(read_table()) == [kind.name for kind in KINDS]
    assert all(re.fullmatch(r"zq[a-z]+zq", kind.word) for kind in KINDS)
