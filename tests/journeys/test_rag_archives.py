"""ZIP and tar archives in the index of documents through a running daemon: citations, changes, limits, hostile ones."""

import io
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, run_cli, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_rag import call, do
from tests.unit.retrieval.test_reading import make_pdf

CONFIG = PROVIDER_CONFIG + "\n[rag]\ncheck_seconds = 0\nmax_files = 40\nmax_unpacked_bytes = 2000000\n"
BOILER = "# Heating\n\nThe boiler is serviced every October.\n"


def pack_zip(**members: bytes | str) -> bytes:
    """Return a ZIP archive; `__` in a name stands for a slash and `_` for a dot."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return packed.getvalue()


def pack_tar(members: dict[str, bytes], *, mode: Any = "w:gz", links: dict[str, str] | None = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return packed.getvalue()


def ask_for_memory(packed: bytes) -> bytes:
    """Return an xz file whose header says that reading it takes four gigabytes."""
    # The header of the first block follows the 12 bytes of the stream: its size, flags, then the filter LZMA2 (0x21)
    # with one byte for the size of its window, and a checksum.
    size = (packed[12] + 1) * 4
    header = bytearray(packed[12 : 12 + size])
    place = header.index(b"\x21\x01") + 2
    header[place] = 40
    header[-4:] = zlib.crc32(bytes(header[:-4])).to_bytes(4, "little")
    return packed[:12] + bytes(header) + packed[12 + size :]


async def test_archives_in_a_folder_are_indexed_cited_by_member_and_kept_in_step(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    archive = notes / "house.zip"
    archive.write_bytes(
        pack_zip(
            rooms__boiler_md=BOILER,
            rooms__roof_pdf=make_pdf("Nothing.", "The roof is painted every ten years."),
            _hidden_md="The boiler is serviced in secret.",
            logo_png=b"\x89PNG\0\0",
        )
    )
    inner = pack_zip(cellar_txt="In the cellar there are forty jars of plums.\n")
    (notes / "old.tar.gz").write_bytes(pack_tar({"deep/inner.zip": inner}))
    (notes / "squeezed.tar.bz2").write_bytes(pack_tar({"tea.md": b"Green tea steeps for two minutes.\n"}, mode="w:bz2"))
    (notes / "small.tar.xz").write_bytes(pack_tar({"key.md": b"The spare key is under the fern.\n"}, mode="w:xz"))
    (notes / "plain.tar").write_bytes(pack_tar({"bike.md": b"The chain is oiled after rain.\n"}, mode="w:"))
    questions = (
        *("When is the boiler serviced?", "painted roof", "jars of plums", "oiled chain"),
        *("How long does green tea steep?", "Where is the spare key?"),
    )
    searches = [call("rag_search", query=each, limit=1) for each in questions]
    async with daemon.client() as talk:
        indexed, *found = await do(talk, provider, sender, call("rag_index", source="notes"), *searches, cwd=tmp_path)
        assert (indexed["documents"], indexed["added"], indexed["refused_count"]) == (6, 6, 1)
        assert indexed["refused"] == [{"document": "notes/house.zip//logo.png", "reason": "it is not text"}]
        assert [each["results"][0]["citation"] for each in found] == [
            "notes/house.zip//rooms/boiler.md:1-3",
            "notes/house.zip//rooms/roof.pdf, page 2",
            "notes/old.tar.gz//deep/inner.zip//cellar.txt:1",
            "notes/plain.tar//bike.md:1",
            "notes/squeezed.tar.bz2//tea.md:1",
            "notes/small.tar.xz//key.md:1",
        ]
        with zipfile.ZipFile(archive) as packed:
            lines = packed.read("rooms/boiler.md").decode().split("\n")
        assert found[0]["results"][0]["text"].split("\n") == lines[:3]
        # Changed, new and removed members are noticed by the next search, and so is an archive that is gone.
        archive.write_bytes(pack_zip(rooms__boiler_md="The boiler is serviced in March.\n", new_md="Fresh paint.\n"))
        (notes / "plain.tar").unlink()
        boiler, roof, _, bike, *_ = await do(talk, provider, sender, *searches, cwd=tmp_path)
        assert boiler["results"][0]["citation"] == "notes/house.zip//rooms/boiler.md:1"
        assert "March" in boiler["results"][0]["text"]
        assert "roof" not in roof["results"][0]["text"]
        assert bike["results"] == []
        again, forgotten = await do(
            talk,
            provider,
            sender,
            call("rag_index", source="notes"),
            call("rag_forget", source="notes"),
            cwd=tmp_path,
        )
        assert (again["added"], again["changed"], again["removed"], again["unchanged"]) == (0, 0, 0, 5)
        assert forgotten["documents"] == 5


def test_an_archive_is_indexed_by_people_and_only_changed_members_are_read_again(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender)
    archive = tmp_path / "notes.zip"
    archive.write_bytes(pack_zip(a_md="Apples.\n", b_md="Pears.\n"))
    done = daemon.cli_json("rag", "index", str(archive), *mine)["data"]
    assert (done["source"]["documents"], done["added"]) == (2, 2)
    archive.write_bytes(pack_zip(a_md="Apples.\n", b_md="Plums.\n", c_md="Quinces.\n"))
    done = daemon.cli_json("rag", "index", str(archive), *mine)["data"]
    assert (done["added"], done["changed"], done["unchanged"]) == (1, 1, 1)
    # One in which nothing can be read any more leaves nothing of what it had either.
    archive.write_bytes(pack_zip(a_png=b"\x89PNG\0\0"))
    failed = daemon.cli_json("rag", "index", str(archive), *mine)
    assert "nothing in it can be read (a.png: it is not text)" in failed["error"]["message"]
    assert daemon.cli_json("rag", "search", "plums", *mine)["data"]["results"] == []
    archive.write_bytes(pack_zip(a_md="Apples.\n", b_md="Plums.\n"))
    assert daemon.cli_json("rag", "index", str(archive), *mine)["data"]["added"] == 2
    # One that cannot be read any more leaves nothing of what it had.
    archive.write_bytes(archive.read_bytes()[:60])
    failed = daemon.cli_json("rag", "index", str(archive), *mine)
    assert "was not indexed: it is damaged" in failed["error"]["message"]
    assert daemon.cli_json("rag", "search", "plums", *mine)["data"]["results"] == []


def test_hostile_archives_are_refused_and_the_names_of_members_are_only_text(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender)
    bomb = pack_zip(zeros_txt=b"0" * 3_000_000)
    many = pack_zip(**{f"m{number}_txt": "words" for number in range(41)})
    nested = pack_zip(b_zip=pack_zip(c_zip=pack_zip(d_txt="words of the deepest")))
    deepest = "it is an archive in 3 others; deeper ones are not read"
    for name, packed, reason in (
        ("bomb.zip", bomb, "it unpacks to more than 2000000 bytes"),
        ("bomb.tar.gz", pack_tar({"zeros.txt": b"0" * 3_000_000}), "it unpacks to more than 2000000 bytes"),
        ("inner.zip", pack_zip(**{f"n{number}_zip": pack_zip(z_txt=b"0" * 900_000) for number in range(3)}), "2000000"),
        ("many.zip", many, "it has more than 39 members"),
        ("text.zip", b"hello", "it is not a ZIP file, although its name says so"),
        ("half.tar.gz", pack_tar({"a.txt": b"words"})[:40], "it is damaged"),
        ("bomb.tbz2", pack_tar({"zeros.txt": b"0" * 3_000_000}, mode="w:bz2"), "it unpacks to more than 2000000 bytes"),
        ("bomb.txz", pack_tar({"zeros.txt": b"0" * 3_000_000}, mode="w:xz"), "it unpacks to more than 2000000 bytes"),
        ("half.tar.bz2", pack_tar({"a.txt": b"words"}, mode="w:bz2")[:40], "it is damaged"),
        ("half.tar.xz", pack_tar({"a.txt": b"words"}, mode="w:xz")[:60], "it is damaged"),
        ("empty.zip", pack_zip(), "there is nothing in it that can be indexed"),
        ("folders.tar", pack_tar({}, mode="w:"), "there is nothing in it that can be indexed"),
        ("pictures.zip", pack_zip(a_png=b"\x89PNG\0\0", b_png=b"\x89PNG\0\0"), "(a.png: it is not text; and 1 more)"),
        ("deep.zip", pack_zip(a_zip=nested), f"nothing in it can be read (a.zip//b.zip//c.zip: {deepest})"),
        ("wide.tar.xz", ask_for_memory(pack_tar({"a.txt": b"words"}, mode="w:xz")), "it is too large"),
    ):
        (tmp_path / name).write_bytes(packed)
        failed = daemon.cli_json("rag", "index", str(tmp_path / name), *mine)
        assert reason in failed["error"]["message"], failed
    assert daemon.cli_json("rag", "list", *mine)["data"] == []
    (tmp_path / "deep.zip").write_bytes(pack_zip(a_zip=nested, e_txt="words of the first"))
    deep = daemon.cli_json("rag", "index", str(tmp_path / "deep.zip"), *mine)["data"]
    (refused,) = deep["refused"]
    assert refused == {
        "document": f"{tmp_path}/deep.zip//a.zip//b.zip//c.zip",
        "reason": deepest,
    }
    secret = tmp_path / "outside.md"
    secret.write_text("The treasure is under the oak.\n")
    hostile = {"../../up.md": b"Up and away.\n", str(secret): b"A member.\n", "a\nb.md": b"Two lines.\n"}
    (tmp_path / "names.tar").write_bytes(pack_tar(hostile, mode="w:", links={"link.md": str(secret)}))
    done = daemon.cli_json("rag", "index", str(tmp_path / "names.tar"), *mine)["data"]
    assert (done["added"], done["refused"]) == (3, [])
    assert done["notes"] == [{"document": f"{tmp_path}/names.tar", "reason": "links in it were left out: 1"}]
    found = daemon.cli_json("rag", "search", "up and away, a member, two lines", *mine)["data"]["results"]
    assert {each["citation"] for each in found} >= {
        f"{tmp_path}/names.tar//../../up.md:1",
        f"{tmp_path}/names.tar/{secret}:1",
        f"{tmp_path}/names.tar//a\ufffdb.md:1",
    }
    treasure = daemon.cli_json("rag", "search", "treasure under the oak", *mine)["data"]["results"]
    assert not any("oak" in each["text"] for each in treasure)


def test_encrypted_and_linked_members_of_a_zip_are_left_out_and_the_others_indexed(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("open.md", "Apples are in the shed.\n")
        archive.writestr("locked.md", "Pears are in the attic.\n")
        link = zipfile.ZipInfo("link.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/hostname")
        archive.writestr("packed.md", "Plums. " * 100, zipfile.ZIP_BZIP2)
    data = bytearray(packed.getvalue())
    # The flag that says that a member is encrypted, in its own header and in the directory.
    local, listed = data.index(b"locked.md") - 30 + 6, data.rindex(b"locked.md") - 46 + 8
    data[local] |= 1
    data[listed] |= 1
    file = tmp_path / "mixed.zip"
    file.write_bytes(data)
    done = daemon.cli_json("rag", "index", str(file), *mine)["data"]
    assert done["added"] == 1
    assert done["refused"] == [
        {"document": f"{file}//locked.md", "reason": "it is encrypted"},
        {"document": f"{file}//packed.md", "reason": "it is packed with a method that is not supported"},
    ]
    assert done["notes"] == [{"document": str(file), "reason": "links in it were left out: 1"}]
    (found, *_) = daemon.cli_json("rag", "search", "where are the apples", *mine)["data"]["results"]
    assert found["citation"] == f"{file}//open.md:1"


def test_a_kill_in_the_middle_of_an_archive_repeats_no_member(home: Home, tmp_path: Path) -> None:
    home.furnish()
    archive = tmp_path / "parts.zip"
    archive.write_bytes(pack_zip(**{f"part{number:02}_md": f"# Part {number}\n" for number in range(70)}))
    with running(home, MOOT_FAIL_AT="documents.stored:2") as daemon:
        assert run_cli(home, "rag", "index", str(archive), MOOT_FAIL_AT="").returncode != 0
        daemon.reap()
    stored = home.query("SELECT name, number FROM documents")
    assert len(stored) == 64
    with daemon_thread(home) as live:
        done = live.cli_json("rag", "index", str(archive))["data"]
        assert done["source"]["documents"] == 70
    # Those that were stored were not stored again.
    assert set(stored) <= set(home.query("SELECT name, number FROM documents"))
    assert len(home.query("SELECT 1 FROM documents")) == 71
