"""Archives and folders made to do harm when a skill is imported from them. None may leave anything behind."""

import gzip
import io
import os
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from moot.domain.ask import Question
from moot.domain.config import SkillConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError, TooLarge
from moot.domain.ports.tool import RunContext
from moot.tools.files.off_limits import OffLimits
from moot.tools.skills.archive import unpack
from moot.tools.skills.library import SkillLibrary
from moot.tools.skills.skill_tools import ImportSkill

SKILL = b"---\nname: evil\ndescription: d\n---\nbody\n"
SMALL = SkillConfig(archive_bytes=4_000_000, unpacked_bytes=2_000_000, files=50)


class Scene:
    def __init__(self, top: Path) -> None:
        self.top = top
        self.cwd = top / "cwd"
        self.cwd.mkdir()
        (top / "secret").write_text("the secret")
        self.skills = SkillLibrary(top / "skills")
        off_limits = OffLimits(places=[str(self.cwd / ".moot"), str(top / "skills")])
        self.importer = ImportSkill(self.skills, off_limits, SMALL)

    async def take(self, url: str) -> str:
        key = ConversationKey("crab", "user")
        context = RunContext(
            run_id="r", key=key, speaker="crab", cwd=str(self.cwd), emit=lambda _event: None, ask=_nobody
        )
        return await self.importer({"url": url}, context)

    async def refuses(self, data: bytes) -> None:
        """The whole archive is refused, and nothing is anywhere that was not there before."""
        (self.cwd / "a").write_bytes(data)
        before = sorted(self.top.rglob("*"))
        with pytest.raises(MootError):
            await self.take("a")
        assert sorted(self.top.rglob("*")) == before


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(questions)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (("evil/SKILL.md", SKILL), *entries):
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(*entries: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        skill = tarfile.TarInfo("evil/SKILL.md")
        skill.size = len(SKILL)
        archive.addfile(skill, io.BytesIO(SKILL))
        for entry in entries:
            archive.addfile(entry, io.BytesIO(b"x" * entry.size) if entry.isreg() else None)
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


PATHS = [
    "../escaped", "evil/../../escaped", "/escaped", "evil/..", "evil//../x", "evil\\..\\..\\escaped", "C:\\escaped",
    "evil/" + "d/" * 20 + "deep", "evil/new\nline", "evil/" + "n" * 300, "evil/nul:stream", "evil/./x",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_an_archive_with_a_path_that_leads_elsewhere_is_refused(scene: Scene, path: str) -> None:
    await scene.refuses(zipped((path, b"x")))
    await scene.refuses(tarred(entry(path)))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
async def test_an_archive_with_a_link_or_a_device_is_refused(scene: Scene, kind: bytes) -> None:
    await scene.refuses(tarred(entry("evil/x", kind, "../../secret")))
    await scene.refuses(tarred(entry("evil/dir", kind, "/etc"), entry("evil/dir/x")))


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
async def test_a_zip_with_a_link_or_a_device_is_refused(scene: Scene, mode: int) -> None:
    link = zipfile.ZipInfo("evil/x")
    link.external_attr = (mode | 0o777) << 16
    await scene.refuses(zipped((link, b"../../secret")))


async def test_two_files_that_differ_in_case_alone_are_refused(scene: Scene) -> None:
    await scene.refuses(zipped(("evil/x", b"1"), ("evil/X", b"2")))
    await scene.refuses(tarred(entry("evil/skill.md")))


async def test_a_bomb_in_a_zip_is_refused(scene: Scene) -> None:
    await scene.refuses(zipped(("evil/zeros", bytes(30_000_000))))


async def test_a_zip_that_lies_about_its_sizes_is_refused(scene: Scene) -> None:
    """The size in the headers says ten bytes; what comes out is what counts."""
    honest = zipped(("evil/zeros", bytes(30_000_000)))
    await scene.refuses(honest.replace(struct.pack("<L", 30_000_000), struct.pack("<L", 10)))


async def test_a_bomb_in_a_tar_is_refused(scene: Scene) -> None:
    big = entry("evil/zeros")
    big.size = 30_000_000
    await scene.refuses(tarred(big))


async def test_a_bomb_in_the_headers_of_a_tar_is_refused(scene: Scene) -> None:
    """A long name is read before any file is: it must not be unpacked at its own word."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 200_000_000
    data = gzip.compress(header.tobuf() + bytes(header.size))
    tracemalloc.start()
    try:
        await scene.refuses(data)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def header(kind: bytes, content: bytes, size: int | None = None) -> bytes:
    """An entry written by hand, which may claim another size than it has."""
    info = entry("a/SKILL.md", kind)
    info.size = len(content) if size is None else size
    return info.tobuf(tarfile.GNU_FORMAT) + content + b"\0" * (-len(content) % 512)


@pytest.mark.parametrize(
    "headers",
    [
        # Some versions of Python search these digits in quadratic time, and nothing else runs meanwhile.
        header(tarfile.XHDTYPE, b"1" * 60_000),
        header(tarfile.XGLTYPE, b"1" * 16_000),
        header(tarfile.GNUTYPE_LONGNAME, b"a" * 60_000),
        # A header that is hidden from whoever skips the content of a folder.
        header(tarfile.DIRTYPE, header(tarfile.XHDTYPE, b"1" * 16_000)),
        # The same behind a size that an extended header changes.
        header(tarfile.XHDTYPE, b"13 size=1024\n") + header(tarfile.REGTYPE, b"x" * 1024, 0),
        header(tarfile.XHDTYPE, b"21 hdrcharset=BINARY\n"),
        header(tarfile.REGTYPE, b"", -1024),
    ],
)
def test_headers_of_a_tar_that_take_long_or_mislead_are_refused(headers: bytes) -> None:
    data = headers + header(tarfile.REGTYPE, b"---\nname: a\n---\n") + b"\0" * 1024
    with pytest.raises(MootError, match="header|too long|link or a device|damaged"):
        unpack(data, SkillConfig())
    with pytest.raises(MootError):
        unpack(gzip.compress(data), SkillConfig(ratio=10_000))


def test_the_extended_headers_that_packers_write_are_accepted() -> None:
    packed = io.BytesIO()
    name = "a/" + "é" * 60 + "/" + "b" * 90
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = entry(name)
        info.mtime = 1_700_000_000.123456
        info.pax_headers = {"comment": "0123456789abcdef" * 2}
        archive.addfile(info, io.BytesIO())
    assert list(unpack(packed.getvalue(), SkillConfig())) == [name]


async def test_a_sparse_file_is_refused(scene: Scene) -> None:
    sparse = entry("evil/sparse", tarfile.GNUTYPE_SPARSE)
    await scene.refuses(tarred(sparse))


async def test_more_files_than_are_taken_are_refused(scene: Scene) -> None:
    await scene.refuses(zipped(*((f"evil/{number}", b"") for number in range(60))))
    await scene.refuses(tarred(*(entry(f"evil/{number}") for number in range(60))))
    await scene.refuses(tarred(*(entry(f"evil/{number}", tarfile.DIRTYPE) for number in range(60))))


def test_a_table_of_contents_with_very_many_entries_is_refused_unread() -> None:
    data = zipped(*((f"evil/{number:06}", b"") for number in range(12_000)))
    with pytest.raises(TooLarge, match="table of contents"):
        unpack(data, SkillConfig())


async def test_nested_archives_are_files_and_nothing_more(scene: Scene) -> None:
    inner = zipped(("../escaped", b"x"))
    (scene.cwd / "a.zip").write_bytes(zipped(("evil/inner.zip", inner)))
    await scene.take("a.zip")
    assert (scene.top / "skills/evil/inner.zip").read_bytes() == inner


async def test_a_damaged_archive_is_refused_wherever_it_is_cut(scene: Scene) -> None:
    for whole in (zipped(("evil/x", b"hello" * 50)), tarred(entry("evil/x"))):
        for cut in range(0, len(whole) - 1, 7):
            with pytest.raises(MootError):
                unpack(whole[:cut], SMALL)


async def test_an_archive_cannot_bring_its_own_mark_of_trust(scene: Scene) -> None:
    (scene.cwd / "a.zip").write_bytes(zipped(("evil/.moot.json", b'{"taint":["forged"]}')))
    await scene.take("a.zip")
    # Nobody has agreed to it, so its words are a stranger's, whatever it says of itself.
    assert scene.skills.all()[0].taint == frozenset({"skill"})


async def test_a_folder_with_a_link_out_is_refused(scene: Scene) -> None:
    source = scene.cwd / "evil"
    source.mkdir()
    (source / "SKILL.md").write_bytes(SKILL)
    (source / "loot").symlink_to(scene.top / "secret")
    with pytest.raises(MootError):
        await scene.take("evil")
    (source / "loot").unlink()
    (source / "loot").symlink_to(scene.top, target_is_directory=True)
    with pytest.raises(MootError):
        await scene.take("evil")
    (source / "loot").unlink()
    (source / "loot").symlink_to("SKILL.md")
    with pytest.raises(MootError):
        await scene.take("evil")
    (source / "loot").unlink()
    os.mkfifo(source / "loot")
    with pytest.raises(MootError):
        await scene.take("evil")
    assert not (scene.top / "skills").exists()


async def test_a_folder_outside_the_working_directory_is_not_imported(scene: Scene) -> None:
    source = scene.top / "evil"
    source.mkdir()
    (source / "SKILL.md").write_bytes(SKILL)
    for url in ("../evil", str(source), f"file://{source}"):
        with pytest.raises(MootError):
            await scene.take(url)


async def test_an_import_does_not_carry_moots_own_files_off(scene: Scene) -> None:
    (scene.cwd / "SKILL.md").write_bytes(SKILL)
    (scene.cwd / ".moot").mkdir()
    (scene.cwd / ".moot/key").write_text("the secret")
    with pytest.raises(MootError):
        await scene.take(".")
    assert not (scene.top / "skills").exists()


async def test_a_skill_on_the_shelf_is_never_written_over(scene: Scene) -> None:
    mine = scene.top / "skills/evil/SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(SKILL.replace(b"body", b"mine"))
    await scene.refuses(zipped())
    assert b"mine" in mine.read_bytes()
