"""The folder of skills: reads, adds, trusts, removes and restores them, and notices changes on disk."""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from moot.domain.agent import FileProblem
from moot.domain.errors import BadRequest, Conflict, MootError, NotFound, StoreError, TooLarge
from moot.domain.front_matter import MAX_BYTES, Broken
from moot.domain.skill import SKILL_FILE, Skill, SkillSource, SkillType, check_name
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.off_limits import OffLimits
from moot.tools.skills.archive import Members
from moot.tools.skills.skill_file import parse_skill

# A file beside SKILL.md: that an agent created the skill, and its taint. Never taken from an archive.
MARK = ".moot.json"
_MOST_FILE = 1_048_576
_MOST_LISTED = 200
# The last removed skill of a name is kept here until another of that name is removed.
_REMOVED = ".removed-"
_Stamp = tuple[int, int, int, int]
# The taint of a skill that the owner has not reviewed.
_UNSEEN = frozenset({"skill"})


class _OriginMark(msgspec.Struct, frozen=True):
    taint: list[str]
    # The digest of the files as the owner approved them; empty if nobody did.
    approved: str = ""
    # Whether a person added it from a folder, an archive or an address.
    outside: bool = False


class _LibraryState(Struct, frozen=True):
    """The skills at one moment. Replaced as a whole, so that it can be read from any thread."""

    skills: Mapping[str, Skill] = field(default_factory=dict)
    flaws: tuple[FileProblem, ...] = ()
    stamps: Mapping[str, tuple[_Stamp, ...]] = field(default_factory=dict)


class SkillLibrary:
    """A file that becomes broken keeps its last good form and is listed in `flaws`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = _LibraryState()
        self.reload()

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return self._state.flaws

    def get(self, name: str) -> Skill | None:
        return self._state.skills.get(name)

    def all(self) -> list[Skill]:
        skills = self._state.skills
        return [skills[name] for name in sorted(skills)]

    def current_taint(self, skill: Skill) -> frozenset[str]:
        """Return the taint of the files as they are now; those beside SKILL.md may have changed since it was read."""
        return _read_mark(skill.folder)[1] if skill.source is not SkillSource.PERSON else skill.taint

    def list_offered(self) -> list[Skill]:
        """Return the skills that agents can use."""
        return [skill for skill in self.all() if skill.is_described]

    def names(self) -> list[str]:
        """Return every folder that has a SKILL.md, valid or broken."""
        return sorted(self._state.stamps)

    def refresh_if_changed(self) -> bool:
        """Read the folder again if a SKILL.md was added, removed or changed; return whether one was."""
        if _stamps(self.folder) == self._state.stamps:
            return False
        self.reload()
        return True

    def reload(self) -> None:
        # Stamps are taken first, so that a file written meanwhile is read again next time.
        stamps = _stamps(self.folder)
        skills: dict[str, Skill] = {}
        flaws: list[FileProblem] = []
        for name in sorted(stamps):
            try:
                skills[name] = read_skill(self.folder, name)
            except Broken as broken:
                path = self.folder / name / SKILL_FILE
                flaws.append(FileProblem(path=str(path), line=broken.line, reason=broken.reason))
                if before := self._state.skills.get(name):
                    skills[name] = before
        self._state = _LibraryState(skills, tuple(flaws), stamps)

    def read(self, skill: Skill, path: str = SKILL_FILE) -> bytes:
        """Return one file of a skill. Raise for a path outside its folder."""
        if path == MARK:
            raise NotFound(f"the skill {skill.name} has no file {path}")
        with ConfinedFolder(skill.folder, OffLimits()) as ground:
            file, status = ground.open_file(ground.spot(path))
            if status.st_size > _MOST_FILE:
                raise TooLarge(f"{path} has {status.st_size} bytes; at most {_MOST_FILE} are shown")
            with open(file, "rb", closefd=False) as reader:
                return reader.read(_MOST_FILE)

    def digest(self, skill: Skill) -> str:
        """Return the digest of every file in the skill's folder, because a script may read files beside it.

        A skill that is removed and made again is another one, be it the same to the letter.
        """
        found = hashlib.sha256()
        for folder, folders, names in os.walk(skill.folder):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name == MARK and folder == skill.folder:
                    continue
                status = os.lstat(path)
                place = os.fsencode(os.path.relpath(path, skill.folder))
                found.update(b"%d:%b %o %d" % (len(place), place, status.st_mode, status.st_mtime_ns))
                found.update(_hash_file(path))
        return found.hexdigest()

    def files(self, skill: Skill, *, all_of_them: bool = False) -> list[str]:
        """Return the files beside SKILL.md by their paths in the folder, without hidden ones. A long list is cut."""
        found: list[str] = []
        for folder, folders, names in os.walk(skill.folder):
            folders[:] = sorted(name for name in folders if all_of_them or not name.startswith("."))
            inside = os.path.relpath(folder, skill.folder)
            for name in sorted(names):
                path = name if inside == "." else f"{inside}/{name}"
                is_listed = path != MARK if all_of_them else not name.startswith(".")
                if is_listed and path != SKILL_FILE:
                    found.append(path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
            if len(found) >= _MOST_LISTED and not all_of_them:
                break
        return found if all_of_them else found[:_MOST_LISTED]

    def add(
        self,
        members: Members,
        *,
        taint: frozenset[str] = frozenset(),
        source: SkillSource = SkillSource.AGENT,
        agreed: bool = False,
        over: bool = False,
    ) -> Skill:
        """Add a new skill, completely or not at all. Nothing of it is executed.

        `agreed` says that the owner has seen what an agent made, `over` that one from outside may be replaced.
        """
        skill = self.check(members, over=over)
        staged = self.folder / f".new-{secrets.token_hex(8)}"
        try:
            staged.mkdir(parents=True, mode=0o700)
            for path, member in members.items():
                _write_file(staged / path, member.data, 0o755 if member.executable or path == skill.script else 0o644)
            if source is not SkillSource.PERSON:
                approved = digest_files(str(staged)) if agreed else ""
                mark = _encode_mark(taint, approved, outside=source is SkillSource.OUTSIDE)
                _write_file(staged / MARK, mark, 0o644)
            if over and os.path.lexists(self.folder / skill.name):
                self.remove(skill.name)
            os.rename(staged, self.folder / skill.name)
            _sync_folder(self.folder)
        except OSError as error:
            if (self.folder / skill.name).exists():
                raise _name_taken_error(skill.name) from error
            raise StoreError(
                f"the skill cannot be stored: {error.strerror}", fix="Check whether the disk is full."
            ) from error
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        self.reload()
        return self.get(skill.name) or skill

    def check(self, members: Members, *, over: bool = False) -> Skill:
        """Return the skill that these files would be. Raise if the name is taken, with `over` by one of another source.

        A person's own skill and one of an agent are never replaced.
        """
        member = members.get(SKILL_FILE)
        if member is None:
            raise BadRequest(f"there is no {SKILL_FILE} in it", fix="A skill is a folder with a SKILL.md.")
        try:
            skill = parse_skill(member.data)
        except Broken as broken:
            raise BadRequest(
                f"{SKILL_FILE}:{broken.line}: {broken.reason}", fix="Correct the file, then try again."
            ) from broken
        for path in members:
            if any(str(folder) in members for folder in PurePosixPath(path).parents):
                raise BadRequest(
                    f"{path} is inside a folder that has the name of a file", fix="Create the archive again."
                )
        if skill.script and skill.script not in members:
            raise BadRequest(f"the script {skill.script} is not among its files", fix="Add it.")
        known = self.get(skill.name)
        is_replaced = over and known is not None and known.source is SkillSource.OUTSIDE
        if os.path.lexists(self.folder / skill.name) and not is_replaced:
            raise _name_taken_error(skill.name)
        return skill

    def trust(self, name: str, digest: str = "") -> Skill:
        """Mark a skill that an agent created as approved by the owner, with its taint."""
        skill = self.get(name)
        if skill is None:
            raise NotFound(f"there is no skill {name!r}", fix="`moot skills` lists them.")
        if skill.source is not SkillSource.PERSON:
            mark = Path(skill.folder) / MARK
            beside = self.folder / f".mark-{secrets.token_hex(8)}"
            try:
                found = digest_files(skill.folder)
                if digest and found != digest:
                    raise Conflict(f"the skill {name} changed since it was shown", fix="Look at it again.")
                outside = skill.source is SkillSource.OUTSIDE
                _write_file(beside, _encode_mark(frozenset(), found, outside=outside), 0o644)
                os.replace(beside, mark)
                _sync_folder(mark.parent)
            except OSError as error:
                raise StoreError(f"{mark} cannot be written: {error.strerror}", fix="Fix its permissions.") from error
            self.reload()
        return self.get(name) or skill

    def remove(self, name: str) -> None:
        """Remove a skill, broken or not. `restore` restores the last one of that name."""
        if name not in self._state.stamps:
            raise NotFound(f"there is no skill {name!r}", fix="`moot skills` lists them.")
        kept = self.folder / f"{_REMOVED}{name}"
        self._move(self.folder / name, kept, over=True)

    def restore(self, name: str) -> None:
        """Undo the last removal of that name."""
        kept = self.folder / f"{_REMOVED}{name}"
        if os.path.lexists(self.folder / name):
            raise _name_taken_error(name)
        if "/" in name or not kept.is_dir():
            raise NotFound(f"no skill {name!r} was removed", fix="`moot skills` lists them.")
        self._move(kept, self.folder / name, over=False)

    def _move(self, source: Path, target: Path, *, over: bool) -> None:
        try:
            if over and os.path.lexists(target):
                shutil.rmtree(target)
            os.rename(source, target)
            _sync_folder(self.folder)
        except OSError as error:
            raise StoreError(f"{source} cannot be moved: {error.strerror}", fix="Fix its permissions.") from error
        self.reload()


def read_skill(shelf: Path, name: str) -> Skill:
    """Return the skill in the folder of that name. Raise Broken."""
    if reason := check_name(name):
        raise Broken(1, reason.replace("the name", "the folder's name", 1))
    folder = str(shelf / name)
    try:
        with ConfinedFolder(str(shelf), OffLimits()) as ground:
            file, _ = ground.open_file(ground.spot(f"{name}/{SKILL_FILE}"))
            skill = parse_skill(os.read(file, MAX_BYTES + 1), folder_name=name)
            if skill.type is SkillType.SCRIPT:
                ground.open_file(ground.spot(f"{name}/{skill.script}"))
    except MootError as error:
        raise Broken(1, f"it cannot be read: {error.message}") from error
    source, taint = _read_mark(folder)
    return replace(skill, folder=folder, source=source, taint=taint)


def _name_taken_error(name: str) -> Conflict:
    return Conflict(f"there is already a skill {name!r}", fix="Choose another name, or remove that one first.")


def _read_mark(folder: str) -> tuple[SkillSource, frozenset[str]]:
    """Return who created the skill, and its taint. An unreadable mark counts as one of an agent.

    What an agent made is tainted until the owner has approved its files, and again when they change.
    """
    try:
        with open(os.path.join(folder, MARK), "rb") as file:
            mark = msgspec.json.decode(file.read(_MOST_FILE), type=_OriginMark)
    except FileNotFoundError:
        return SkillSource.PERSON, frozenset()
    except (OSError, msgspec.MsgspecError):
        return SkillSource.AGENT, _UNSEEN
    source = SkillSource.OUTSIDE if mark.outside else SkillSource.AGENT
    return source, frozenset(mark.taint) | (frozenset() if _is_approved(folder, mark) else _UNSEEN)


def _is_approved(folder: str, mark: _OriginMark) -> bool:
    try:
        return bool(mark.approved) and digest_files(folder) == mark.approved
    except OSError:
        return False


def _encode_mark(taint: frozenset[str], approved: str, *, outside: bool) -> bytes:
    return msgspec.json.encode(_OriginMark(taint=sorted(taint), approved=approved, outside=outside))


def digest_files(folder: str) -> str:
    """Return a digest of the names, contents and execute permissions of all files of a skill, without its mark."""
    found = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            if name == MARK and place == folder:
                continue
            inside = os.fsencode(os.path.relpath(path, folder))
            found.update(b"%d:%b %d" % (len(inside), inside, os.lstat(path).st_mode & 0o111))
            found.update(_hash_file(path))
    return found.hexdigest()


def _hash_file(path: str) -> bytes:
    if os.path.islink(path):
        return os.fsencode(os.readlink(path))
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _stamps(folder: Path) -> dict[str, tuple[_Stamp, ...]]:
    """Return the stamps of each folder that has a SKILL.md, or a link in its place."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except OSError:
        # A folder that cannot be read has no skills; `moot doctor` reports it.
        return {}
    found: dict[str, tuple[_Stamp, ...]] = {}
    for name in names:
        stamps: list[_Stamp] = []
        for file in (SKILL_FILE, MARK):
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(folder, name, file))
                stamps.append((status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))
        if os.path.lexists(os.path.join(folder, name, SKILL_FILE)):
            found[name] = tuple(stamps)
    return found


def _write_file(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(file, "wb") as writer:
        writer.write(data)
        writer.flush()
        os.fsync(file)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
