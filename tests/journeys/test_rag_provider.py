"""Vectors from a provider, through a running daemon: what is sent, what it costs, failures, and another model."""

from pathlib import Path
from typing import Any

import pytest

from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, call_cli, run_cli
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

KEY = "sk-tests-embedding-key"
SECRET = "canary-81d07b5f2c"
RAG = '\n[rag]\ncheck_seconds = 0\nembeddings = "provider:vectors/NAME"\n'
TABLES = """
[models.vectors]
provider = "openai"
base_url = "PROVIDER_URL/v1"
api_key = "secret:EMBEDDING_KEY"
model = "chat-model"
retries = 1
price_prompt = 1000000.0
price_completion = 1000000.0
[security.interceptor]
redact_personal = true
"""
QUESTION = "automobile"


def configure(provider: Provider, model: str) -> str:
    return PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url) + (TABLES + RAG.replace("NAME", model)).replace(
        "PROVIDER_URL", provider.url
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "car.md").write_text("The car is washed on Fridays.\n")
    for number in range(39):
        (folder / f"other-{number:02}.md").write_text(f"Shelf {number} has jars of plums and beans.\n")
    return folder


def start(home: Home, provider: Provider, model: str = "embed-1") -> Any:
    home.furnish(config=configure(provider, model))
    return daemon_thread(home)


def search(daemon: LiveDaemon, query: str = QUESTION) -> tuple[list[str], list[str]]:
    """The names of the files that are found, and the notes."""
    found = daemon.cli_json("rag", "search", query)["data"]
    return [Path(each["citation"]).name for each in found["results"]], found["notes"]


def test_documents_are_found_by_vectors_of_a_provider_which_is_sent_nothing_that_is_masked(
    home: Home, provider: Provider, folder: Path
) -> None:
    (folder / "deploy.md").write_text(f"The token is {SECRET}, ask ann.smith@example.org for another.\n")
    with start(home, provider) as daemon:
        call_cli(daemon.home, "secrets", "set", "EMBEDDING_KEY", stdin=KEY)
        call_cli(daemon.home, "secrets", "set", "DEPLOY", stdin=SECRET)
        done = daemon.cli_json("rag", "index", str(folder))["data"]
        assert (done["added"], done["refused"], done["embedded_anew"]) == (41, [], 0)
        # No word is shared: only the vectors know that it is the same.
        names, notes = search(daemon)
        assert (names[0], notes) == ("car.md:1", [])
        sent = [each for each in provider.requests() if each["path"].endswith("/embeddings")]
        assert [len(each["body"]["input"]) for each in sent] == [32, 9, 1]
        assert {each["key"] for each in sent} == {f"Bearer {KEY}"}
        assert {each["body"]["model"] for each in sent} == {"embed-1"}
        assert provider.faults() == []
        told = " ".join(provider.embedded())
        assert "The token is" in told
        assert SECRET not in told
        assert "ann.smith" not in told
        # It costs what its own model costs, not what the chat model of the table does.
        (spent,) = daemon.cli_json("usage")["data"]
        assert (spent["agent"], spent["model"], spent["runs"]) == ("moot", "embed-1", 0)
        assert (spent["prompt"] > 41 * 5, spent["cost"]) == (True, 0.0)
        where = f"embed-1 at 127.0.0.1:{provider.port}; the text of documents and queries is sent there"
        assert f"Vectors: {where}." in daemon.cli("rag").stdout
        assert daemon.cli_json("rag", "list")["data"][0]["embeddings"] == where
        told = daemon.cli("doctor").stdout
        assert "Vectors of documents are made by embed-1 of [models.vectors]. The text of documents is sent to" in told


def test_a_provider_that_fails_is_one_error_and_nothing_is_half_indexed(
    home: Home, provider: Provider, folder: Path
) -> None:
    with start(home, provider) as daemon:
        call_cli(daemon.home, "secrets", "set", "EMBEDDING_KEY", stdin=KEY)
        provider.set_vectors(statuses=[500, 500])
        failed = daemon.cli("rag", "index", str(folder))
        assert failed.returncode != 0
        assert f"{folder} was not indexed:" in failed.stderr
        assert failed.stderr.count("was not indexed") == 1
        assert daemon.cli_json("rag", "list")["data"] == []
        # A failure that passes is retried.
        provider.set_vectors(statuses=[503])
        assert daemon.cli_json("rag", "index", str(folder))["data"]["added"] == 40
        # What has changed is not taken over in part, and the words of what is there are still found.
        (folder / "car.md").write_text("The car is sold.\n")
        provider.set_vectors(statuses=[400, 400])
        names, notes = search(daemon, "car washed")
        assert names[0] == "car.md:1"
        assert len(notes) == 2
        assert notes[0].startswith(f"{folder} is not up to date:")
        assert notes[1].startswith("Found by words only, because the query has no vector:")
        # The provider is left alone for a while; whoever does not want to wait indexes it again.
        names, again = search(daemon)
        assert (names[0], again) == ("car.md:1", notes[:1])
        assert daemon.cli_json("rag", "index", str(folder))["data"]["changed"] == 1
        names, notes = search(daemon)
        assert (names[0], notes) == ("car.md:1", [])


def test_vectors_of_another_model_or_length_are_made_anew_and_never_compared(
    home: Home, provider: Provider, folder: Path
) -> None:
    with start(home, provider) as daemon:
        call_cli(daemon.home, "secrets", "set", "EMBEDDING_KEY", stdin=KEY)
        daemon.cli("rag", "index", str(folder))
        assert search(daemon)[0][0] == "car.md:1"
        # The server makes other vectors under the same name, which the vector of the query shows.
        provider.set_vectors(length=32)
        names, (note,) = search(daemon)
        assert names[0] == "car.md:1"
        assert f"New vectors were made of 40 documents of {folder}: embed-1 at" in note
        # Another model.
        daemon.home.write_config(configure(provider, "embed-2"))
        assert daemon.cli("reload").returncode == 0
        done = daemon.cli("rag", "index", str(folder)).stdout
        assert "0 new, 0 changed, 0 removed, 0 unchanged." in done
        assert "New vectors were made of 40 documents: embed-2 at" in done
        assert search(daemon)[0][0] == "car.md:1"
        assert search(daemon)[1] == []
        # Back to this machine, where nothing is sent.
        before = len(provider.embedded())
        daemon.home.write_config(configure(provider, "embed-2").replace("provider:vectors/embed-2", "local"))
        assert daemon.cli("reload").returncode == 0
        names, (note,) = search(daemon, "When is the car washed?")
        assert names[0] == "car.md:1"
        assert "on this machine" in note
        assert len(provider.embedded()) == before


@pytest.mark.parametrize(
    ("embeddings", "told"),
    [
        ("provider:nobody/embed-1", "must be provider:NAME/MODEL"),
        ("provider:claude/embed-1", "names [models.claude], which makes no vectors"),
        ("elsewhere", "must be `local`, `none` or `provider:NAME/MODEL`"),
    ],
)
def test_embeddings_that_cannot_be_made_are_an_error_of_the_configuration(
    home: Home, provider: Provider, embeddings: str, told: str
) -> None:
    home.furnish(config=configure(provider, "embed-1").replace("provider:vectors/embed-1", embeddings))
    failed = run_cli(home, "rag")
    assert failed.returncode == 78
    assert told in failed.stderr


async def test_the_budget_of_a_turn_covers_vectors(home: Home, provider: Provider, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(600):
        (folder / f"{number:03}.md").write_text("Plums and beans are on the shelf in the cellar. " * 16)
    home.furnish(
        config=configure(provider, "embed-1") + "\n[budget]\ntokens = 40000\n[project]\ninstructions = false\n"
    )
    with daemon_thread(home) as daemon:
        call_cli(daemon.home, "secrets", "set", "EMBEDDING_KEY", stdin=KEY)
        provider.program({"calls": [{"name": "rag_index", "arguments": {"source": "many"}}]}, {"text": "Done."})
        async with daemon.client() as talk:
            speech = await talk.say("librarian", "index it", cwd=str(tmp_path))
        (result,) = speech.of("tool_result")
        # What was indexed before stays; no text is sent that might not fit, so that a step is left for the answer.
        assert "many was not indexed in full: the limits of this turn leave no room" in result.output
        assert speech.outcome == "tool_error"
        (spent,) = [each for each in daemon.cli_json("usage")["data"] if each["model"] == "embed-1"]
        assert 20_000 < spent["prompt"] <= 40_000
        sent = [each for each in provider.requests() if each["path"].endswith("/embeddings")]
        assert sum(len(each["body"]["input"]) for each in sent) < 600
