"""DocumentReader: runs the reading process (child.py) and gives it one task at a time, within limits."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from types import TracebackType

from moot.domain.errors import BadRequest, MootError, Unavailable
from moot.domain.ports.clock import Clock
from moot.domain.rag import NewPassage
from moot.retrieval.reading.messages import (
    LENGTH,
    Answer,
    Extracted,
    ExtractTask,
    Failed,
    Split,
    SplitTask,
    Task,
    Unpacked,
    UnpackTask,
    decode_answer,
    encode,
)
from moot.retrieval.reading.pieces import Section

_MOST_ANSWER = 256 << 20
# One thread: reading is in the background, and a library that starts one for each core takes them from others.
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_TOO_LONG = "it cannot be read: it takes too long, or is damaged"


class ReaderPlaces:
    """Limits how many reading processes there are. Each may need much memory, and every sender can cause some."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        # How many readers wait for a place.
        self.waiting = 0

    async def take(self) -> None:
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1

    def release(self) -> None:
        self._free.release()


class DocumentReader:
    """An async context. The process starts with the first task, and anew after one that it did not survive.

    It ends after each task while another reader waits for a place, so that they take turns.
    """

    def __init__(self, *, seconds: float, clock: Clock, places: ReaderPlaces | None = None) -> None:
        self._seconds = seconds
        self._clock = clock
        self._places = places or ReaderPlaces(1)
        self._has_place = False
        self._child: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "DocumentReader":
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._end()

    async def extract(self, kind: str, data: bytes, *, most_characters: int) -> tuple[str, tuple[Section, ...]]:
        """Return the title and the text of a document; raises BadRequest if it is refused."""
        answer = await self._do(ExtractTask(format=kind, data=data, most_characters=most_characters))
        assert isinstance(answer, Extracted)
        return answer.title, answer.sections

    async def split(self, task: SplitTask) -> tuple[tuple[NewPassage, ...], str]:
        """Return the passages of a text, and what is worth knowing about it."""
        answer = await self._do(task)
        assert isinstance(answer, Split)
        return answer.passages, answer.note

    async def unpack(self, task: UnpackTask) -> Unpacked:
        """Return members of an archive; raises BadRequest if it is refused."""
        answer = await self._do(task)
        assert isinstance(answer, Unpacked)
        return answer

    async def _do(self, task: Task) -> Answer:
        if not self._has_place:
            await self._places.take()
            self._has_place = True
        try:
            async with self._clock.timeout(self._seconds):
                answer = await self._exchange(encode(task))
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            await self._end()
            raise BadRequest(_TOO_LONG, fix="Repair or convert the file.") from None
        except BaseException:
            # What it would answer later belongs to no task any more.
            await self._end()
            raise
        if self._places.waiting:
            await self._end()
        if isinstance(answer, Failed):
            raise _to_error(answer)
        return answer

    async def _exchange(self, task: bytes) -> Answer:
        child = self._child or await self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(LENGTH.pack(len(task)) + task)
        await child.stdin.drain()
        (length,) = LENGTH.unpack(await child.stdout.readexactly(LENGTH.size))
        if length > _MOST_ANSWER:
            raise ConnectionError
        answer: Answer = decode_answer(await child.stdout.readexactly(length))
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        self._child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "moot.retrieval.reading.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_ENVIRONMENT,
            start_new_session=True,
        )
        return self._child

    async def _end(self) -> None:
        child, self._child = self._child, None
        try:
            if child is not None and child.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
        finally:
            if self._has_place:
                self._has_place = False
                self._places.release()


def _to_error(failed: Failed) -> MootError:
    return (Unavailable if failed.is_missing else BadRequest)(failed.reason, fix=failed.fix)
