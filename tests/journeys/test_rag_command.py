"""`moot rag` through a running daemon: index with a report of what was refused, search, answer, list and forget."""

import asyncio
import os
from pathlib import Path

from aiohttp import web

from moot.client.connection import connect
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as BASE
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, run_cli, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking
from tests.web_server import serving

CONFIG = PROVIDER_CONFIG + "\n[rag]\ncheck_seconds = 0\nmax_files = 40\n"


def test_people_index_search_and_forget_documents(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    mine = ("--as", sender)
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "leave.md").write_text("# Leave\n\nAsk for leave two weeks before it begins.\n")
    (folder / "rooms.csv").write_bytes(b"\xef\xbb\xbfroom,floor\nBlue,3\nGreen\nRed,1,extra\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\0\0")
    assert "Nothing is indexed" in daemon.cli("rag", *mine).stdout
    done = daemon.cli_json("rag", "index", str(folder), *mine)["data"]
    assert (done["source"]["documents"], done["added"]) == (2, 2)
    assert done["refused"] == [{"document": f"{folder}/logo.png", "reason": "it is not text"}]
    assert done["notes"] == [{"document": f"{folder}/rooms.csv", "reason": "2 rows do not have 2 columns: lines 3, 4"}]
    printed = daemon.cli("rag", "index", str(folder), *mine).stdout
    assert "0 new, 0 changed, 0 removed, 3 unchanged." in printed
    (best, *_) = daemon.cli_json("rag", "search", "When must leave be asked for?", *mine)["data"]["results"]
    assert best["citation"] == f"{folder}/leave.md:1-3"
    (room, *_) = daemon.cli_json("rag", "search", "On which floor is the room Blue?", *mine)["data"]["results"]
    assert (room["citation"], room["heading"]) == (f"{folder}/rooms.csv:1-4", "room, floor")
    assert f"{folder}/leave.md:1-3" in daemon.cli("rag", "search", "leave", *mine).stdout
    (listed,) = daemon.cli_json("rag", "list", *mine)["data"]
    # Numbers count the sources of one owner, whatever others have.
    assert (listed["number"], best["source"], room["source"]) == (1, 1, 1)
    assert (listed["place"], listed["passages"], listed["refused"], listed["complete"]) == (str(folder), 2, 1, True)
    # Another sender and another agent have nothing.
    assert daemon.cli_json("rag", "list", "--as", f"{sender}-other")["data"] == []
    assert daemon.cli_json("rag", "list", "--agent", "librarian", *mine)["data"] == []
    assert "Forgot" in daemon.cli("rag", "forget", str(folder), *mine).stdout
    assert daemon.cli_json("rag", "list", *mine)["data"] == []


def test_a_file_of_two_sources_is_found_once_and_an_utf_16_one_is_read(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender)
    inner = tmp_path / "rules" / "inner"
    inner.mkdir(parents=True)
    (inner / "leave.md").write_text("# Leave\n\nAsk for leave two weeks before it begins.\n")
    (inner / "sick.md").write_text("# Sick leave\n\nCall the office before nine.\n")
    (inner / "old.csv").write_bytes("room;floor\nTeal;7\n".encode("utf-16"))
    for place in (tmp_path / "rules", inner, inner / "leave.md"):
        daemon.cli("rag", "index", str(place), *mine)

    found = daemon.cli_json("rag", "search", "leave", "--limit", "2", *mine)["data"]["results"]

    assert sorted(each["citation"] for each in found) == [f"{inner}/leave.md:1-3", f"{inner}/sick.md:1-3"]
    (room, *_) = daemon.cli_json("rag", "search", "floor of Teal", *mine)["data"]["results"]
    assert (room["citation"], room["text"]) == (f"{inner}/old.csv:1-2", "room;floor\nTeal;7")
    # What one source has is still found when another is forgotten.
    daemon.cli("rag", "forget", str(tmp_path / "rules"), *mine)
    found = daemon.cli_json("rag", "search", "leave", *mine)["data"]["results"]
    assert [each["citation"] for each in found].count(f"{inner}/leave.md:1-3") == 1


def test_a_change_is_noticed_that_leaves_the_size_and_the_time_of_a_file(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender)
    file = tmp_path / "code.md"
    for number, content in enumerate(("The door code is zebra.\n", "The door code is tiger.\n")):
        file.write_text(content)
        # As an archive unpacks it, or a copy that keeps the times.
        os.utime(file, (0, 0))
        if not number:
            daemon.cli("rag", "index", str(tmp_path), *mine)
        (found, *_) = daemon.cli_json("rag", "search", "door code", *mine)["data"]["results"]
        assert found["text"] == content.strip()
    file.unlink()
    assert daemon.cli_json("rag", "search", "door code", *mine)["data"]["results"] == []


def test_a_change_is_noticed_in_all_sources_of_a_file_and_a_folder_may_become_a_file(
    home: Home, tmp_path: Path
) -> None:
    outer = tmp_path / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    (outer / "door.md").write_text("The door code is zebra.\n")
    (inner / "window.md").write_text("The window code is tiger.\n")
    # Nobody looks for changed files within the day.
    home.furnish(config=f"{BASE}\n[rag]\ncheck_seconds = 86400\n")
    with daemon_thread(home) as daemon:
        for place in (outer, outer / "door.md", inner, inner / "window.md"):
            daemon.cli("rag", "index", str(place))

        def search(query: str) -> list[str]:
            found = daemon.cli_json("rag", "search", query, "--limit", "1")
            return [each["text"] for each in found["data"]["results"]]

        assert (search("door code"), search("window")) == (["The door code is zebra."], ["The window code is tiger."])
        (outer / "door.md").write_text("The door code is puma.\n")
        assert search("door code zebra") == ["The door code is puma."]
        (inner / "window.md").unlink()
        inner.rmdir()
        inner.write_text("There is no window now.\n")
        assert search("window tiger") == ["There is no window now."]
        daemon.cli("rag", "index", str(inner))
        inner.unlink()
        inner.symlink_to(inner)
        assert search("no window, no door") == ["The door code is puma."]
    assert home.failures() == []


def test_what_is_forgotten_is_not_left_in_the_store(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    mine = ("--as", sender)
    (tmp_path / "plan.md").write_text("The plan is called zqdocumentzq.\n")
    daemon.cli("rag", "index", str(tmp_path), *mine)
    daemon.cli("graph", "add", "zqgraphzq", "knows", "ann", *mine)
    assert {word in daemon.home.on_disk() for word in (b"zqdocumentzq", b"zqgraphzq")} == {True}

    daemon.cli("rag", "forget", "1", *mine)
    daemon.cli("graph", "clear", "--yes", *mine)

    assert {word in daemon.home.on_disk() for word in (b"zqdocumentzq", b"zqgraphzq")} == {False}


def test_a_secret_that_is_stored_after_indexing_is_not_shown(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    secret = "canary-5f2c81d07b"
    file = tmp_path / "deploy.md"
    file.write_text(f"# Deploy\n\nThe token for the deployment is {secret}.\n")
    mine = ("--as", sender)
    daemon.cli("rag", "index", str(file), *mine)
    assert secret in daemon.cli("rag", "search", "token for the deployment", *mine).stdout
    assert daemon.cli("secrets", "set", "DEPLOY", stdin=secret).returncode == 0
    found = daemon.cli("rag", "search", "token for the deployment", *mine).stdout
    assert "The token for the deployment is" in found
    assert secret not in found


def test_an_answer_names_the_passages_it_is_from(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    file = tmp_path / "leave.md"
    file.write_text("Ask for leave two weeks before it begins.\n")
    mine = ("--as", sender)
    daemon.cli("rag", "index", str(file), *mine)
    used = {"prompt": 400, "completion": 12}
    provider.program({"text": "Two weeks before leave begins [1].", "usage": used}, {"text": "Whenever you like."})
    told = daemon.cli("rag", "answer", "When do I ask for leave?", *mine).stdout
    assert "Two weeks before leave begins [1]." in told
    assert f"[1] {file}:1" in told
    # It belongs to no run, and is counted all the same.
    (spent,) = daemon.cli_json("usage", *mine)["data"]
    assert (spent["agent"], spent["runs"], spent["prompt"], spent["completion"]) == ("moot", 0, 400, 12)
    data = daemon.cli_json("rag", "answer", "When do I ask for leave?", *mine)["data"]
    assert (data["grounded"], data["message"]) == (False, "The answer cites no passage; do not rely on it.")
    provider.program({"text": "Two weeks before leave begins [1]."})
    (cited,) = daemon.cli_json("rag", "answer", "When do I ask for leave?", *mine)["data"]["citations"]
    assert (cited["citation"], cited["number"], cited["supported"]) == (f"{file}:1", 1, True)
    # Only a search ranks passages.
    assert "score" not in cited
    none = daemon.cli_json("rag", "answer", "Zyx qwv?", *mine)["data"]
    assert (none["found"], none["message"]) == (False, "Not in the documents.")


async def test_a_token_is_not_told_where_the_folders_are(home: Home, provider: Provider, tmp_path: Path) -> None:
    handbook, letters = tmp_path / "private" / "handbook", tmp_path / "private" / "letters"
    for folder in (handbook, letters):
        folder.mkdir(parents=True)
    (handbook / "leave.md").write_text("Ask for leave two weeks before it begins.\n")
    (letters / "mai.txt").write_text("The lilac blooms.\n")
    home.write_config(CONFIG.replace("PROVIDER_URL", provider.url).replace('tcp = "off"', 'tcp = "127.0.0.1:0"'))
    with daemon_thread(home) as daemon:
        async with daemon.client() as owner:
            address = (await owner.ask(get_stats=pb.GetStats())).stats.tcp
            secret = (await owner.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
        for place in (handbook, letters / "mai.txt"):
            daemon.cli("rag", "index", str(place), "--as", "phone")
        provider.program({"text": "Ask two weeks before it begins [1]."})
        async with connect(address, token=secret) as connection:
            phone = Talking(connection)
            listed = (await phone.ask(list_sources=pb.ListSourcesMsg())).sources
            found = (await phone.ask(search_documents=pb.SearchDocumentsMsg(query="lilac"))).passages
            question = pb.AnswerQuestionMsg(question="When must leave be asked for?")
            answer = (await phone.ask(answer_question=question)).document_answer
            (forgotten,) = (await phone.ask(forget_source=pb.ForgetSourceMsg(source="mai.txt"))).sources.sources
    assert [each.place for each in listed.sources] == ["handbook", "mai.txt"]
    assert found.passages[0].citation == "mai.txt:1"
    assert [each.citation for each in answer.citations] == ["handbook/leave.md:1"]
    assert forgotten.place == "mai.txt"
    told = "\n".join(str(each) for each in (listed, found, answer, forgotten))
    assert str(tmp_path) not in told


def test_what_cannot_be_indexed_is_one_clear_error_and_nothing_is_kept(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender)
    many = tmp_path / "many"
    many.mkdir()
    for number in range(41):
        (many / f"{number}.txt").write_text("words\n")
    (tmp_path / "data.bin").write_bytes(b"\0\1\2")
    for place, told in (
        (many, "has more than 40 files"),
        (tmp_path / "data.bin", "was not indexed: it is not text"),
        (tmp_path / "missing", "does not exist"),
        ("http://127.0.0.1:1/", "is not on the public internet"),
    ):
        failed = daemon.cli_json("rag", "index", str(place), *mine)
        assert told in failed["error"]["message"], failed
    assert daemon.cli_json("rag", "list", *mine)["data"] == []


def test_a_table_with_a_very_long_field_is_indexed(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    mine, table = ("--as", sender), tmp_path / "rooms.csv"
    table.write_text(f"room,note\nBlue,{'long ' * 30_000}\nGreen,heron\n")
    assert daemon.cli("rag", "index", str(table), *mine).returncode == 0
    (found, *_) = daemon.cli_json("rag", "search", "heron", *mine)["data"]["results"]
    assert found["citation"] == f"{table}:3"


def test_a_file_whose_name_is_not_text_is_reported_and_the_others_are_indexed(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine, folder = ("--as", sender), tmp_path / "old"
    folder.mkdir()
    (folder / "plain.md").write_text("The heron stands in the pond.\n")
    Path(os.fsdecode(bytes(folder) + b"/caf\xe9.md")).write_text("The heron flies.\n")
    data = daemon.cli_json("rag", "index", str(folder), *mine)["data"]
    reason = "its name is not valid UTF-8; rename it"
    assert data["refused"] == [{"document": rf"{folder}/caf\xe9.md", "reason": reason}]
    (found,) = daemon.cli_json("rag", "search", "heron", *mine)["data"]["results"]
    assert found["citation"] == f"{folder}/plain.md:1"


async def test_a_kill_in_the_middle_of_indexing_leaves_whole_documents_and_it_is_taken_up(
    home: Home, tmp_path: Path
) -> None:
    home.furnish()
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(70):
        (folder / f"{number:02}.md").write_text(f"# Part {number}\n\nOne.\n\n# More {number}\n\nTwo.\n")
    passages = "(SELECT count(*) FROM document_passages AS p WHERE p.document = d.number)"
    half = f"SELECT count(*) FROM documents AS d WHERE {passages} <> 2"
    for point, kept in (("commit.documents:3", 32), ("documents.stored:2", 64)):
        with running(home, MOOT_FAIL_AT=point) as daemon:
            assert run_cli(home, "rag", "index", str(folder), MOOT_FAIL_AT="").returncode != 0
            daemon.reap()
        assert home.query(half) == [(0,)]
        # The second daemon has gone on with what the first one left.
        assert home.query("SELECT count(*) FROM documents")[0][0] >= kept
    # Nobody asks for it again.
    with daemon_thread(home) as live:
        await eventually(lambda: live.cli_json("rag", "list")["data"][0]["complete"])
        (source,) = live.cli_json("rag", "list")["data"]
        assert (source["documents"], source["passages"]) == (70, 140)
        assert live.cli_json("rag", "search", "part 69")["data"]["results"]
    assert home.query(half) == [(0,)]
    assert home.query("SELECT count(*) FROM passage_vectors") == [(140,)]


async def test_a_kill_before_a_page_is_indexed_leaves_nothing_of_it(home: Home) -> None:
    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="The moor is closed in winter.", content_type="text/plain")

    async with serving(answer) as site:
        home.furnish(config=f'{BASE}\n[web]\nallow_private = ["127.0.0.1:{site.port}"]\n')
        with running(home, MOOT_FAIL_AT="documents.parsed:1") as daemon:
            failed = await asyncio.to_thread(run_cli, home, "rag", "index", f"{site.url}/page", MOOT_FAIL_AT="")
            assert failed.returncode != 0
            daemon.reap()
        assert home.query("SELECT count(*) FROM document_sources") == [(1,)]
        with daemon_thread(home) as live:
            await eventually(lambda: not live.cli_json("rag", "list")["data"])
            again = await asyncio.to_thread(live.cli, "rag", "index", f"{site.url}/page")
            assert again.returncode == 0, again.stderr
            assert live.cli_json("rag", "search", "moor")["data"]["results"]


def test_a_path_that_does_not_exist_is_named(daemon: LiveDaemon) -> None:
    refused = daemon.cli("rag", "index", "/no-such-folder")
    assert refused.returncode
    assert "/no-such-folder does not exist" in refused.stderr
