"""Writer: the only thread that writes. Queued transactions share a commit and are confirmed after its fsync."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw
from msgspec import Struct

from moot.domain.errors import BadRequest, MootError, StoreError
from moot.domain.ports.clock import Clock, Timer
from moot.domain.ports.store import CommitCounts
from moot.failpoint import reach
from moot.store import dialect
from moot.store.connection import BUSY_MS, FAULTS, Tuning, connect, fault

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

# If the log exceeds its usual size by this factor, the writer waits for readers so that the log can restart.
_LOG_PRESSURE = 16
# How long a lingering transaction may wait for another one to share its commit.
_LINGER_SECONDS = 0.002
# How long the writer waits for readers before it truncates the log.
_EMPTYING_MS = 200
# Up to this size the file is rewritten after a deletion.
_REWRITTEN_BYTES = 64 * 1024 * 1024


class StoreJob(Struct, eq=False):
    """One transaction and the future of its caller."""

    work: Work[Any]
    future: asyncio.Future[Any]
    name: str = ""
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Owns the only connection that writes. A queued transaction is executed even if its caller stops waiting."""

    def __init__(self, path: Path, tuning: Tuning, clock: Clock) -> None:
        self._clock = clock
        self._path = path
        self._tuning = tuning
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[list[StoreJob] | None] = SimpleQueue()
        self._lingering: list[StoreJob] = []
        self._is_soon = False
        self._linger_timer: Timer | None = None
        self._closed = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._log_pages = 0
        self._must_empty = threading.Event()
        self._must_rewrite = threading.Event()
        self._suspect = False
        self.commits = CommitCounts()
        self._connection: apsw.Connection | None = self._open()
        self._thread = threading.Thread(target=self._serve, name="moot-store-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Work[T], name: str = "") -> T:
        return await self.post(work, name)

    def post(self, work: Work[T], name: str = "") -> asyncio.Future[T]:
        """Queue a transaction at once, ahead of all later ones. The future need not be awaited."""
        future = self._queue_lingering(work, name)
        self._hand_over()
        return future

    def post_soon(self, work: Work[T], name: str = "") -> asyncio.Future[T]:
        """Queue a transaction, in order, but start the thread only after the callbacks that are ready now.

        For callers with other work to do: the thread would only compete with them for the interpreter.
        """
        future = self._queue_lingering(work, name)
        if not self._is_soon:
            self._is_soon = True
            # After the callbacks that are ready now, and after those they schedule.
            self._loop.call_soon(self._loop.call_soon, self._hand_over)
        return future

    def linger(self, work: Work[T], name: str = "") -> asyncio.Future[T]:
        """Queue a transaction that nobody waits for: it shares the next commit, or runs alone after a short delay."""
        future = self._queue_lingering(work, name)
        if self._linger_timer is None:
            self._linger_timer = self._clock.call_later(_LINGER_SECONDS, self._hand_over)
        return future

    def _queue_lingering(self, work: Work[T], name: str) -> asyncio.Future[T]:
        if self._closed:
            raise StoreError("the store is closed", fix="Start the daemon again.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._lingering.append(StoreJob(work, future, name))
        return future

    def _hand_over(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        self._is_soon = False
        if self._lingering:
            # As one item, so that all are committed together.
            self._jobs.put(self._lingering)
            self._lingering = []

    async def empty_log(self, *, rewrite: bool) -> None:
        """Move the log into the database and truncate it, so that neither contains deleted data.

        If a reader still needs the log, it is truncated after one of the next commits.
        """
        if rewrite:
            self._must_rewrite.set()
        await self.write(lambda _db: self._must_empty.set())
        # The thread works in order, so once this one is done, the log has been tried.
        await self.write(lambda _db: None)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._jobs.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    # ---- on the writer's thread ---------------------------------------------------------------

    def _serve(self) -> None:
        more = True
        while more:
            batch, more = self._take()
            if batch:
                self._commit(batch)
                call_in_loop(self._loop, settle, batch)
                self._checkpoint()
        if self._connection is not None:
            self._connection.close(True)
        call_in_loop(self._loop, self._ended.set_result, None)

    def _take(self) -> tuple[list[StoreJob], bool]:
        """Wait for transactions and return all that are queued, up to a batch; and False once the store closes."""
        jobs = self._jobs.get()
        batch: list[StoreJob] = []
        while jobs is not None:
            batch += jobs
            if len(batch) >= self._tuning.batch:
                return batch, True
            try:
                jobs = self._jobs.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: list[StoreJob]) -> None:
        try:
            connection = self._sound_connection()
            connection.execute(dialect.BEGIN)
            if len(batch) == 1:
                _run_alone(connection, batch[0])
            elif not _run_together(connection, batch):
                for job in batch:
                    _run_beside_others(connection, job)
                connection.execute("COMMIT")
            self.commits.commits += 1
            self.commits.transactions += len(batch)
            for job in batch:
                if job.error is None:
                    reach("committed", job.name)
        except Exception as error:  # noqa: BLE001 - whatever it is, every caller must hear of it
            self._recover(error)
            for job in batch:
                job.error = fault(error, self._path)

    def _sound_connection(self) -> apsw.Connection:
        """Return the connection; after a fault, reopened and checked first."""
        if self._connection is None:
            self._connection = self._open()
            _overwrite_failed_commit(self._connection)
        if self._suspect:
            if damage := dialect.quick_damage(self._connection):
                raise apsw.CorruptError(damage)
            self._suspect = False
        return self._connection

    def _recover(self, error: BaseException) -> None:
        """Replace the connection after a failed commit, as its state cannot be trusted; keep it if only busy."""
        if isinstance(error, apsw.BusyError) and self._connection is not None:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return
        self._suspect = self._suspect or not isinstance(error, apsw.FullError)
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None
        try:
            self._connection = self._open()
            _overwrite_failed_commit(self._connection)
        except (apsw.Error, OSError):
            # The disk still fails; the next transaction tries again.
            if self._connection is not None:
                self._connection.close(True)
            self._connection = None

    def _open(self) -> apsw.Connection:
        connection = connect(self._path, self._tuning)
        connection.set_wal_hook(self._note_log)
        return connection

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the log into the database if it is long. Runs after the callers were answered."""
        limit = self._tuning.checkpoint_pages
        if self._connection is not None and self._must_empty.is_set():
            self._empty_log(self._connection)
        if self._log_pages < limit or self._connection is None:
            return
        pressed = self._log_pages > limit * _LOG_PRESSURE
        mode = apsw.SQLITE_CHECKPOINT_RESTART if pressed else apsw.SQLITE_CHECKPOINT_PASSIVE
        self._log_pages = 0
        reach("checkpoint.before")
        try:
            self._connection.wal_checkpoint(mode=mode)
            reach("checkpoint.after")
        except apsw.BusyError:
            # A reader uses an old page; the log grows until the next commit tries again.
            return
        except apsw.Error as error:
            self._recover(error)

    def _empty_log(self, connection: apsw.Connection) -> None:
        try:
            # A short timeout, because the next writer waits meanwhile.
            connection.set_busy_timeout(_EMPTYING_MS)
            self._rewrite(connection)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._must_empty.clear()
            self._log_pages = 0
        except apsw.BusyError:
            return
        except apsw.Error as error:
            self._recover(error)
        finally:
            if self._connection is connection:
                connection.set_busy_timeout(BUSY_MS)

    def _rewrite(self, connection: apsw.Connection) -> None:
        """Rewrite the file once if requested: a row that moved leaves a copy on its old page, which deletion misses."""
        if self._must_rewrite.is_set():
            self._must_rewrite.clear()
            dialect.rewrite_file(connection, _REWRITTEN_BYTES)


def _run_alone(connection: apsw.Connection, job: StoreJob) -> None:
    """Run a job as the only one of a transaction: commit it, or roll back."""
    try:
        job.result = job.work(connection)
    except FAULTS:
        raise
    except Exception as error:  # noqa: BLE001 - it belongs to this caller alone, and is handed to it
        job.error = refusal(error)
        connection.execute("ROLLBACK")
    else:
        reach("commit", job.name)
        connection.execute("COMMIT")


def _run_together(connection: apsw.Connection, batch: list[StoreJob]) -> bool:
    """Run all jobs in one transaction and commit. If one fails, roll all back and return False."""
    try:
        for job in batch:
            job.result = job.work(connection)
            reach("commit", job.name)
    except FAULTS:
        raise
    except Exception:  # noqa: BLE001 - whose it is shows when each is tried on its own
        connection.execute("ROLLBACK")
        connection.execute(dialect.BEGIN)
        return False
    connection.execute("COMMIT")
    return True


def _run_beside_others(connection: apsw.Connection, job: StoreJob) -> None:
    """Run a job in a savepoint, so that only this job is rolled back if it fails."""
    connection.execute("SAVEPOINT job")
    try:
        job.result = job.work(connection)
    except FAULTS:
        raise
    except Exception as error:  # noqa: BLE001 - it belongs to this caller alone, and is handed to it
        job.error = refusal(error)
        connection.execute("ROLLBACK TO job")
    reach("commit", job.name)
    connection.execute("RELEASE job")


def _overwrite_failed_commit(connection: apsw.Connection) -> None:
    """Overwrite a commit whose fsync failed: it may be complete in the log, and a new commit takes its place."""
    connection.execute("UPDATE faults SET count = count + 1")


def refusal(error: Exception) -> Exception:
    if isinstance(error, UnicodeEncodeError):
        return BadRequest("the text holds a lone surrogate", fix="Send valid Unicode text.")
    if isinstance(error, apsw.TooBigError):
        return BadRequest("the text is too long to store", fix="Send it in smaller parts.")
    if isinstance(error, apsw.Error) and not isinstance(error, MootError):
        return StoreError(f"the store refused: {error}", fix="Report this; it should not happen.")
    return error


def settle(batch: list[StoreJob]) -> None:
    """Set the result or error of each job whose caller still waits. Runs on the event loop."""
    for job in batch:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[T], object], value: T) -> None:
    try:
        loop.call_soon_threadsafe(call, value)
    except RuntimeError:
        # The event loop is closed, so nobody waits any more.
        return
