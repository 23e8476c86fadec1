"""Readers: threads for read transactions. Each has its own connection, so that no read waits for the writer."""

import asyncio
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from moot.domain.errors import StoreError
from moot.store.connection import FAULTS, Tuning, connect_reader, fault
from moot.store.writer import StoreJob, Work, call_in_loop, refusal, settle

T = TypeVar("T")


class Readers:
    """A pool of reading threads with one queue. Every read sees a consistent snapshot."""

    def __init__(self, path: Path, tuning: Tuning) -> None:
        self._path = path
        self._tuning = tuning
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[StoreJob | None] = SimpleQueue()
        self._closed = False
        # Who waits for a read that has not begun, by what it reads.
        self._together: dict[Work[Any], list[asyncio.Future[Any]]] = {}
        first = connect_reader(path, tuning)
        self._threads = [
            threading.Thread(target=self._serve, args=(opened,), name=f"moot-store-reader-{number}", daemon=True)
            for number, opened in enumerate([first] + [None] * (tuning.readers - 1), start=1)
        ]
        for thread in self._threads:
            thread.start()

    async def read(self, work: Work[T]) -> T:
        # Not through `post`: every turn reads several times.
        if self._closed:
            raise StoreError("the store is closed", fix="Start the daemon again.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(StoreJob(work, future))
        return await future

    def post(self, work: Work[T]) -> asyncio.Future[T]:
        """Queue a read at once. The future need not be awaited."""
        if self._closed:
            raise StoreError("the store is closed", fix="Start the daemon again.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(StoreJob(work, future))
        return future

    async def read_together(self, work: Work[T]) -> T:
        """As `read`, but one read serves all who ask for the same before it begins. `work` must be a function."""
        future: asyncio.Future[T] = self._loop.create_future()
        waiting = self._together.setdefault(work, [])
        waiting.append(future)
        if len(waiting) == 1:
            self._loop.call_soon(self._begin_together, work)
        return await future

    def _begin_together(self, work: Work[Any]) -> None:
        jobs = [StoreJob(work, future) for future in self._together.pop(work)]
        if self._closed:
            for job in jobs:
                job.error = StoreError("the store is closed", fix="Start the daemon again.")
            settle(jobs)
            return
        read: asyncio.Future[Any] = self._loop.create_future()
        read.add_done_callback(lambda done: _pass_on(done, jobs))
        self._jobs.put(StoreJob(work, read))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _serve(self, connection: apsw.Connection | None) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                connection = connection or connect_reader(self._path, self._tuning)
                job.result = _read(connection, job.work)
            except FAULTS as error:
                job.error = fault(error, self._path)
                if connection is not None:
                    connection.close(True)
                    connection = None
            except Exception as error:  # noqa: BLE001 - it belongs to this caller alone, and is handed to it
                job.error = refusal(error)
            call_in_loop(self._loop, settle, [job])
        if connection is not None:
            connection.close(True)


def _pass_on(done: asyncio.Future[Any], jobs: list[StoreJob]) -> None:
    """Give the result of a read to all who wait for it."""
    error = done.exception()
    for job in jobs:
        job.error, job.result = error, None if error is not None else done.result()
    settle(jobs)


def _read(connection: apsw.Connection, work: Work[T]) -> T:
    connection.execute("BEGIN")
    try:
        return work(connection)
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")
