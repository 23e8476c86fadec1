"""The index of documents through a running daemon: every tool, owners, taint, changed files, and a kill."""

import json
from pathlib import Path
from typing import Any

from aiohttp import web

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking
from tests.web_server import serving

# Every search looks at the files.
CONFIG = PROVIDER_CONFIG + "\n[rag]\ncheck_seconds = 0\n"


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


async def do(
    talk: Talking,
    provider: Provider,
    sender: str,
    *calls: dict[str, Any],
    agent: str = "librarian",
    cwd: Path | str = "",
) -> list[Any]:
    """Have an agent make calls, one after the other; return what the model is told, or the text of an error."""
    provider.program(*({"calls": [each]} for each in calls), {"text": "Done."})
    speech = await talk.say(agent, "do it", sender, cwd=str(cwd))
    # A run of which every change failed says so.
    assert speech.outcome in ("completed", "tool_error"), speech.ended
    told: list[Any] = []
    for result in speech.of("tool_result"):
        try:
            told.append(json.loads(result.output))
        except ValueError:
            told.append(result.output)
    return told


async def read_reason(talk: Talking, provider: Provider, sender: str, asked: dict[str, Any]) -> str:
    """Have an agent make a call that waits for an approval; return the reason, and deny it."""
    provider.program({"calls": [asked]}, {"text": "Done."})
    speech = talk.start("librarian", "do it", sender)
    ask = await speech.until("approval_opened")
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="deny"))
    await speech.end()
    return str(ask.reason)


async def test_a_folder_is_indexed_searched_kept_in_step_and_forgotten(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "boiler.md").write_text("# Heating\n\n## Boiler\n\nThe boiler is serviced every October.\n")
    (notes / "bike.md").write_text("# Bicycle\n\nThe chain is oiled after every ride in the rain.\n")
    (notes / "ignored.md").write_text("The boiler is serviced by nobody.\n")
    (notes / ".hidden.md").write_text("The boiler is serviced in secret.\n")
    (notes / ".gitignore").write_text("ignored.md\n")
    (notes / "picture.md").write_bytes(b"\x89PNG\0\0\0")
    question = call("rag_search", query="When is the boiler serviced?", limit=2)
    async with daemon.client() as talk:
        empty, indexed, found = await do(
            talk, provider, sender, question, call("rag_index", source="notes"), question, cwd=tmp_path
        )
        assert empty["message"] == "Nothing is indexed yet; use rag_index first."
        assert (indexed["documents"], indexed["passages"], indexed["added"]) == (2, 3, 2)
        assert indexed["refused"] == [{"document": "notes/picture.md", "reason": "it is not text"}]
        best = found["results"][0]
        assert (best["citation"], best["heading"]) == ("notes/boiler.md:3-5", "Heating › Boiler")
        assert (notes / "boiler.md").read_text().split("\n")[2:5] == best["text"].split("\n")
        assert not any("nobody" in each["text"] or "secret" in each["text"] for each in found["results"])
        # Changed, new and removed files are noticed by the next search.
        (notes / "boiler.md").write_text("\n\nThe boiler is serviced every March.\n")
        (notes / "bike.md").unlink()
        (notes / "cellar.txt").write_text("In the cellar there are forty jars of plums.\n")
        changed, cellar, bike = await do(
            talk,
            provider,
            sender,
            question,
            call("rag_search", query="jars of plums"),
            call("rag_search", query="oiled chain"),
            cwd=tmp_path,
        )
        assert changed["results"][0]["citation"] == "notes/boiler.md:3"
        assert "March" in changed["results"][0]["text"]
        assert not any("October" in each["text"] for each in changed["results"])
        assert cellar["results"][0]["citation"] == "notes/cellar.txt:1"
        assert not any("chain" in each["text"] for each in bike["results"])
        again, unknown, forgotten, gone = await do(
            talk,
            provider,
            sender,
            call("rag_index", source="notes/"),
            call("rag_forget", source="letters"),
            call("rag_forget", source="notes"),
            question,
            cwd=tmp_path,
        )
        assert (again["source"], again["added"], again["changed"], again["unchanged"]) == (indexed["source"], 0, 0, 3)
        assert "'letters' is not indexed" in unknown
        assert f"{indexed['source']}: notes." in unknown
        assert forgotten == {"status": "forgotten", "place": "notes", "documents": 2}
        assert gone["message"] == "Nothing is indexed yet; use rag_index first."


async def test_a_source_is_searched_in_full_however_well_others_fit(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    orchard, pantry = tmp_path / "orchard", tmp_path / "pantry"
    for folder in (orchard, pantry):
        folder.mkdir()
    for number in range(80):
        (orchard / f"{number}.md").write_text(f"# Apples {number}\n\nThe apple harvest of year {number}.\n")
    shelves = "The pantry has flour, sugar, oil, vinegar, salt, rice, beans and, on the last shelf, one apple in a box."
    (pantry / "shelves.md").write_text(f"{shelves}\n")
    calls = [
        call("rag_index", source="orchard"),
        call("rag_index", source="pantry"),
        call("rag_search", query="apple harvest", source="pantry"),
        call("rag_search", query="apple harvest", source="orchard", limit=20),
    ]
    async with daemon.client() as talk:
        *_, of_pantry, of_orchard = await do(talk, provider, sender, *calls, cwd=tmp_path)
    assert [each["citation"] for each in of_pantry["results"]] == ["pantry/shelves.md:1"]
    assert len(of_orchard["results"]) == 20
    assert all(each["citation"].startswith("orchard/") for each in of_orchard["results"])


async def test_the_working_directory_is_named_as_a_source_as_it_is_shown(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "jars.txt").write_text("In the cellar there are forty jars of plums.\n")
    async with daemon.client() as talk:
        indexed, found, forgotten = await do(
            talk,
            provider,
            sender,
            call("rag_index", source="."),
            call("rag_search", query="jars of plums", source="."),
            call("rag_forget", source="./"),
            cwd=tmp_path,
        )
    assert indexed["place"] == forgotten["place"] == "."
    assert [each["citation"] for each in found["results"]] == ["jars.txt:1"]


async def test_a_citation_is_in_the_file_as_it_is_now(home: Home, provider: Provider, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "boiler.md").write_text("# Heating\n\nThe boiler is serviced in October.\n")
    (notes / "gone.md").write_text("The boiler is rusty.\n")
    # Nobody looks for changed files within the day.
    home.furnish(config=PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url) + "\n[rag]\ncheck_seconds = 86400\n")
    search = call("rag_search", query="When is the boiler serviced?")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            _, before = await do(talk, provider, "user", call("rag_index", source="notes"), search, cwd=tmp_path)
            (notes / "boiler.md").write_text("# Heating\n\n\n\nThe boiler is serviced in March now.\n")
            (notes / "gone.md").unlink()
            (after,) = await do(talk, provider, "user", search, cwd=tmp_path)
    assert [each["citation"] for each in before["results"]] == ["notes/boiler.md:1-3", "notes/gone.md:1"]
    (one,) = after["results"]
    assert (one["citation"], "March" in one["text"]) == ("notes/boiler.md:1-5", True)


async def test_a_german_compound_that_no_document_has_is_found_by_its_last_part(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "oil.md").write_text("Getränkte Lappen können sich entzünden und kommen in den Blecheimer.\n")
    (tmp_path / "water.md").write_text("Die Werte werden alle vier Stunden gemessen. Klares Wasser hilft.\n")
    (tmp_path / "pool.md").write_text("Das Badewasser ist im Sommer wärmer als im Winter.\n")
    config = CONFIG.replace("PROVIDER_URL", provider.url) + 'embeddings = "none"\n'
    home.furnish(config=config, agents=())
    questions = ("Warum sind Öllappen gefährlich?", "Wie warm ist das Badewasser?", "Wer badet mit Regenwasser?")
    searches = [call("rag_search", query=each) for each in questions]
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            found = await do(talk, provider, "user", call("rag_index", source="."), *searches, cwd=tmp_path)
    told = [[each["citation"] for each in one["results"]] for one in found[1:]]
    # A word that is in a document is not taken apart.
    assert told == [["oil.md:1"], ["pool.md:1"], ["water.md:1"]]


async def test_documents_of_one_sender_or_agent_are_not_found_by_others(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "diary.md").write_text("The treasure is buried under the third oak.\n")
    question = call("rag_search", query="Where is the treasure buried?")
    async with daemon.client() as talk:
        await do(talk, provider, sender, call("rag_index", source="diary.md"), cwd=tmp_path)
        (mine,) = await do(talk, provider, sender, question, cwd=tmp_path)
        assert mine["results"][0]["citation"] == "diary.md:1"
        for other, agent in ((f"{sender}-other", "librarian"), (sender, "moot")):
            find_tools = [call("tool_search", query="rag_search rag_forget")] if agent == "moot" else []
            *_, theirs, forget = await do(
                talk, provider, other, *find_tools, question, call("rag_forget", source="1"), agent=agent, cwd=tmp_path
            )
            assert theirs["message"] == "Nothing is indexed yet; use rag_index first."
            assert "is not indexed" in forget
            assert str(tmp_path) not in forget
        (still,) = await do(talk, provider, sender, question, cwd=tmp_path)
        assert still["count"] == 1


async def test_only_files_of_the_working_directory_are_indexed(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.md").write_text("secret plan\n")
    (inside / "link.md").symlink_to(tmp_path / "outside.md")
    async with daemon.client() as talk:
        told = await do(
            talk,
            provider,
            sender,
            call("rag_index", source="../outside.md"),
            call("rag_index", source=str(tmp_path / "outside.md")),
            call("rag_index", source="link.md"),
            call("rag_index", source=str(daemon.home.path)),
            call("rag_index", source="missing.md"),
            call("rag_index", source="."),
            call("rag_search", query="secret plan"),
            cwd=inside,
        )
    for error in told[:4]:
        assert "outside the working directory" in error or "not in the working directory" in error
    assert f"is not in the working directory, {inside}" in told[1]
    assert "missing.md does not exist" in told[4]
    assert told[5]["documents"] == 0
    assert told[6]["count"] == 0


async def test_an_answer_is_checked_against_the_passages_it_cites(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "pool.md").write_text("The pool opens at seven, is open for forty minutes and closes.\n")
    (tmp_path / "forest.md").write_text("Mushrooms grow behind the pool.\n")
    question = call("rag_answer", question="When does the pool open?")
    async with daemon.client() as talk:
        await do(talk, provider, sender, call("rag_index", source="."), cwd=tmp_path)
        told: list[Any] = []
        replies = (
            "At seven, the pool opens then [1].",
            "It opens at seven.",
            "At noon [9].",
            "The pool opens at noon [1].",
            "The pool is open for ninety minutes [1].",
            "The pool is open for 40 minutes [1].",
            "At seven, the pool opens then [1]. The lifeguard secretly collects Antarctic stamps [1].",
            "Yes [1]. At seven, the pool opens then [1].",
            "Die Antwort steht nicht in den Dokumenten.",
        )
        for reply in (*replies, ""):
            provider.program({"calls": [question]}, {"text": reply or "NOT IN THE DOCUMENTS."}, {"text": "Done."})
            speech = await talk.say("librarian", "ask", sender, cwd=str(tmp_path))
            told += [json.loads(result.output) for result in speech.of("tool_result")]
        (nothing,) = await do(talk, provider, sender, call("rag_answer", question="Zyx qwv?"), cwd=tmp_path)
    good, uncited, invalid, unsupported, contradicted, agreed, added, short, abroad, absent = told
    assert (good["grounded"], good["message"]) == (True, "Every citation exists in the documents.")
    (citation,) = good["citations"]
    assert citation["citation"] == "pool.md:1"
    assert citation["text"] in (tmp_path / "pool.md").read_text()
    assert (uncited["grounded"], uncited["message"]) == (False, "The answer cites no passage; do not rely on it.")
    assert "cites passages that do not exist (9)" in invalid["message"]
    assert unsupported["notes"] == ["The model answered something that is not in the passages it cited."]
    assert (contradicted["found"], contradicted["grounded"], agreed["grounded"]) == (True, False, True)
    assert contradicted["message"].startswith("The cited passages have other numbers than the answer (ninety minutes)")
    # A sentence that the passage has nothing of is not covered by one that it supports.
    assert (added["found"], added["grounded"], short["grounded"]) == (True, False, True)
    assert added["message"].endswith('do not rely on it: "The lifeguard secretly collects Antarctic stamps [1]."')
    for each in (unsupported, abroad, absent, nothing):
        assert (each["found"], each["answer"], each["message"]) == (False, "", "Not in the documents.")


async def test_a_page_is_fetched_within_the_rules_and_taints_what_is_found(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/image":
            return web.Response(body=b"\0\1", content_type="image/png")
        text = "<html><title>Moor</title><body><h1>Moor</h1><p>The moor is closed in winter.</p></body></html>"
        return web.Response(text=text, content_type="text/html")

    async with serving(answer) as site:
        config = PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url)
        home.furnish(config=config + f'\n[web]\nallow_private = ["127.0.0.1:{site.port}"]\n')
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                indexed, found = await do(
                    talk,
                    provider,
                    "user",
                    call("rag_index", source=f"{site.url}/page"),
                    call("rag_search", query="When is the moor closed?"),
                )
                # Indexing a file sends nothing anywhere, so a run that has read a page is not asked about it.
                (tmp_path / "own.md").write_text("The gate is green.\n")
                (own,) = await do(talk, provider, "user", call("rag_index", source="own.md"), cwd=tmp_path)
                assert own["documents"] == 1
                again = await read_reason(talk, provider, "user", call("rag_index", source=f" {site.url}/page"))
                assert again == "this run has read untrusted text (web), and this reaches the network"
                # A run that has read a page is asked before it fetches another one, so these are others.
                (private,) = await do(talk, provider, "second", call("rag_index", source="http://127.0.0.1:1/"))
                (image,) = await do(talk, provider, "third", call("rag_index", source=f"{site.url}/image"))
                assert (indexed["place"], indexed["documents"]) == (f"{site.url}/page", 1)
                assert "127.0.0.1" in private
                assert "image/png" in image
                assert found["results"][0]["citation"].startswith(f"{site.url}/page")
                assert "closed in winter" in found["results"][0]["text"]
        assert home.query("SELECT DISTINCT taint FROM documents WHERE name LIKE 'http%'") == [("web",)]
        assert ("web",) in home.query("SELECT DISTINCT taint FROM messages WHERE role = 'tool'")


async def test_a_page_is_one_source_however_its_address_is_written(home: Home, provider: Provider) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="The moor is closed in winter.", content_type="text/plain")

    async with serving(answer) as site:
        config = PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url)
        home.furnish(config=config + f'\n[web]\nallow_private = ["127.0.0.1:{site.port}"]\n')
        with daemon_thread(home) as daemon:
            shouted = site.url.replace("http", "HTTP")
            async with daemon.client() as talk:
                for address in (site.url, f"{site.url}/", f"{shouted}/#winter", f"{site.url}/moor/"):
                    await talk.ask(index_documents=pb.IndexDocumentsMsg(place=address))
            listed = daemon.cli_json("rag", "list")["data"]
            assert [each["place"] for each in listed] == [f"{site.url}/", f"{site.url}/moor/"]
            found = daemon.cli_json("rag", "search", "moor", "--source", f"{site.url}/moor/#top")["data"]["results"]
            assert [each["citation"] for each in found] == [f"{site.url}/moor/:1"]
            assert daemon.cli("rag", "forget", f"{site.url}/moor/").returncode == 0
            assert daemon.cli("rag", "forget", site.url).returncode == 0
            assert daemon.cli_json("rag", "list")["data"] == []


async def test_a_secret_in_the_address_of_a_page_is_not_stored(home: Home, provider: Provider) -> None:
    token = "open-sesame-4711-behind-the-hedge"
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.query["key"])
        return web.Response(text="The moor is closed in winter.", content_type="text/plain")

    async with serving(answer) as site:
        config = PROVIDER_CONFIG.replace("PROVIDER_URL", provider.url)
        home.furnish(config=config + f'\n[web]\nallow_private = ["127.0.0.1:{site.port}"]\n')
        address = f"{site.url}/page?key="
        with daemon_thread(home) as daemon:
            daemon.cli("secrets", "set", "gate", stdin=token)
            async with daemon.client() as talk:
                index = pb.IndexDocumentsMsg(agent="librarian", place=address + token)
                for _ in range(2):
                    stored = (await talk.ask(index_documents=index)).documents_indexed.source
                (indexed,) = await do(talk, provider, "second", call("rag_index", source=address + token))
                assert stored.place == indexed["place"] == f"{address}[SECRET:gate]"
                assert asked[:2] == [token] * 2
                forget = pb.ForgetSourceMsg(agent="librarian", source=address + token)
                assert (await talk.ask(forget_source=forget)).sources.sources[0].place == stored.place
        assert home.query("SELECT DISTINCT place FROM document_sources") == [(f"{address}[SECRET:gate]",)]
        assert home.query("SELECT DISTINCT name FROM documents") == [(f"{address}[SECRET:gate]",)]


async def test_archived_messages_are_indexed_for_their_agent_and_deleted_with_the_conversation(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    async with daemon.client() as talk:
        provider.program({"text": "The ferry to the island leaves at dawn."})
        await talk.say("librarian", "When does the ferry leave?", sender)
        provider.program({"match": "Write the summary now", "text": "They spoke of a ferry."})
        await talk.compact("librarian", sender)
        indexed, found = await do(
            talk, provider, sender, call("rag_index", source="archive"), call("rag_search", query="ferry to the island")
        )
        assert indexed["documents"] == 1
        assert found["results"][0]["citation"].startswith("archive 1, messages 1-")
        assert "librarian: The ferry to the island leaves at dawn." in found["results"][0]["text"]
        counted = await talk.ask(delete=pb.DeleteMsg(agent="librarian", sender=sender))
        assert counted.deleted.documents == 1
        await talk.ask(delete=pb.DeleteMsg(agent="librarian", sender=sender, confirm=True))
        (gone,) = await do(talk, provider, sender, call("rag_search", query="ferry to the island"))
        assert gone["message"] == "Nothing is indexed yet; use rag_index first."


async def test_secrets_are_not_stored_in_the_index(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    token = "open-sesame-4711-behind-the-hedge"
    daemon.cli("secrets", "set", "gate", stdin=token)
    (tmp_path / "setup.md").write_text(f"The gate opens with the token {token} today.\n")
    (tmp_path / "key.md").write_text(
        "-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n" * 8
        + "-----END PRIVATE KEY-----\n"
    )
    async with daemon.client() as talk:
        indexed, found = await do(
            talk, provider, sender, call("rag_index", source="."), call("rag_search", query="gate token"), cwd=tmp_path
        )
    assert indexed["documents"] == 1
    assert [each["document"] for each in indexed["refused"]] == ["key.md"]
    assert "gate" in found["results"][0]["text"]
    assert token not in json.dumps(found)
