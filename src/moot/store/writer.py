"""The one thread that writes. What waits together is committed together, and answered after the fsync."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw
from msgspec import Struct

from moot.domain.errors import BadRequest, MootError, StoreError
from moot.failpoint import reach
from moot.store import dialect
from moot.store.connection import BUSY_MS, FAULTS, Tuning, connect, fault

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

# Beyond this many times the usual log, the writer waits for readers so that the log can start over.
_LOG_PRESSURE = 16
# How long what nobody waits for may wait for company: the next transaction takes it along into the same commit.
_LINGER_SECONDS = 0.002
# How long the writer waits for readers to let go of a log that is to be emptied.
_EMPTYING_MS = 200
# Up to this size a store is written anew after a deletion.
_REWRITTEN_BYTES = 64 * 1024 * 1024


class Job(Struct, eq=False):
    """One transaction and the future of its caller."""

    work: Work[Any]
    future: asyncio.Future[Any]
    name: str = ""
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Owns the only connection that writes. A transaction handed over is run, also when nobody waits for it."""

    def __init__(self, path: Path, tuning: Tuning) -> None:
        self._path = path
        self._tuning = tuning
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._lingering: list[Job] = []
        self._is_soon = False
        self._patience: asyncio.TimerHandle | None = None
        self._closed = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._log_pages = 0
        self._must_empty = threading.Event()
        self._must_rewrite = threading.Event()
        self._suspect = False
        self._connection: apsw.Connection | None = self._open()
        self._thread = threading.Thread(target=self._serve, name="moot-store-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Work[T], name: str = "") -> T:
        return await self.post(work, name)

    def post(self, work: Work[T], name: str = "") -> asyncio.Future[T]:
        """Hand a transaction over now, ahead of any that is handed over later; the future need not be awaited."""
        future = self._queue_lingering(work, name)
        self._hand_over()
        return future

    def post_soon(self, work: Work[T], name: str = "") -> asyncio.Future[T]:
        """Hand a transaction over after what is ready to run now, in its order.

        For whoever goes on with work of its own: the thread would only take the interpreter away from that.
        """
        future = self._queue_lingering(work, name)
        if not self._is_soon:
            self._is_soon = True
            # Behind what is ready now, and behind what that starts.
            self._loop.call_soon(self._loop.call_soon, self._hand_over)
        return future

    def linger(self, work: Work[T], name: str = "") -> asyncio.Future[T]:
        """Hand over what nobody waits for: it goes with the next that is posted, or after a moment by itself."""
        future = self._queue_lingering(work, name)
        if self._patience is None:
            self._patience = self._loop.call_later(_LINGER_SECONDS, self._hand_over)
        return future

    def _queue_lingering(self, work: Work[T], name: str) -> asyncio.Future[T]:
        if self._closed:
            raise StoreError("the store is closed", fix="Start the daemon again.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._lingering.append(Job(work, future, name))
        return future

    def _hand_over(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._is_soon = False
        if self._lingering:
            # As one item, so that what is handed over together is committed together.
            self._jobs.put(self._lingering)
            self._lingering = []

    async def empty_log(self, *, rewrite: bool) -> None:
        """Move the log into the database and cut it off, so that nothing that was deleted is left in either.

        While a reader needs it the log stays, and goes after one of the next commits.
        """
        if rewrite:
            self._must_rewrite.set()
        await self.write(lambda _db: self._must_empty.set())
        # The thread does one thing after the other: behind this one, the log has been tried.
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
                tell(self._loop, settle, batch)
                self._checkpoint()
        if self._connection is not None:
            self._connection.close(True)
        tell(self._loop, self._ended.set_result, None)

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for transactions, then take whatever else is waiting; False once the store closes."""
        jobs = self._jobs.get()
        batch: list[Job] = []
        while jobs is not None:
            batch += jobs
            if len(batch) >= self._tuning.batch:
                return batch, True
            try:
                jobs = self._jobs.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: list[Job]) -> None:
        try:
            connection = self._sound_connection()
            connection.execute(dialect.BEGIN)
            if len(batch) == 1:
                _run_alone(connection, batch[0])
            elif not _run_together(connection, batch):
                for job in batch:
                    _run_beside_others(connection, job)
                connection.execute("COMMIT")
            for job in batch:
                if job.error is None:
                    reach("committed", job.name)
        except Exception as error:  # noqa: BLE001 - whatever it is, every caller must hear of it
            self._recover(error)
            for job in batch:
                job.error = fault(error, self._path)

    def _sound_connection(self) -> apsw.Connection:
        """The connection, opened again after a fault and proven before anything more is trusted to it."""
        if self._connection is None:
            self._connection = self._open()
            _overwrite_failed_commit(self._connection)
        if self._suspect:
            if damage := dialect.quick_damage(self._connection):
                raise apsw.CorruptError(damage)
            self._suspect = False
        return self._connection

    def _recover(self, error: BaseException) -> None:
        """After a failed commit nothing in the connection is trusted: open another one, if the disk lets us."""
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
            # Still failing: the next transaction tries again.
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
        """Move the log into the database once it is long; the callers have their answers already."""
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
            # A reader holds an old page; the log grows on until the next commit tries again.
            return
        except apsw.Error as error:
            self._recover(error)

    def _empty_log(self, connection: apsw.Connection) -> None:
        try:
            # Not for long: whoever writes next waits behind this.
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
        """Write the file anew, once: a row that moved leaves a copy on its old page, which no deletion finds."""
        if self._must_rewrite.is_set():
            self._must_rewrite.clear()
            dialect.rewrite_file(connection, _REWRITTEN_BYTES)


def _run_alone(connection: apsw.Connection, job: Job) -> None:
    """The whole transaction is this job's: it commits, or everything is taken back."""
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


def _run_together(connection: apsw.Connection, batch: list[Job]) -> bool:
    """All jobs in one transaction, as if each would succeed; False where one did not, and all was taken back."""
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


def _run_beside_others(connection: apsw.Connection, job: Job) -> None:
    """What this job did is taken back alone when it fails; the others commit."""
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
    """A commit that failed in its fsync may lie in the log whole; a new one in its place buries it."""
    connection.execute("UPDATE faults SET count = count + 1")


def refusal(error: Exception) -> Exception:
    if isinstance(error, UnicodeEncodeError):
        return BadRequest("the text holds a lone surrogate", fix="Send valid Unicode text.")
    if isinstance(error, apsw.TooBigError):
        return BadRequest("the text is too long to store", fix="Send it in smaller parts.")
    if isinstance(error, apsw.Error) and not isinstance(error, MootError):
        return StoreError(f"the store refused: {error}", fix="Report this; it should not happen.")
    return error


def settle(batch: list[Job]) -> None:
    """On the event loop: give every caller that still waits its answer."""
    for job in batch:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def tell(loop: asyncio.AbstractEventLoop, call: Callable[[T], object], value: T) -> None:
    try:
        loop.call_soon_threadsafe(call, value)
    except RuntimeError:
        # The loop is gone, and with it everyone who waited.
        return
