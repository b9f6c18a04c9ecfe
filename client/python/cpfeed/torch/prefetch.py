"""A thread that reads steps ahead of the training loop."""

import atexit
import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from cpfeed.errors import SessionNotFound, Unavailable
from cpfeed.reader import EpochEnd, ShardReader, Tombstone
from cpfeed.shards import Step
from cpfeed.torch.batch import TensorBuffer, make_batch

_PAUSE_SECONDS = 0.1  # Between two attempts to attach.


@dataclasses.dataclass(frozen=True)
class ReadyStep:
    """A step whose batch is made."""

    step: int
    cursor: bytes | None
    batch: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _End:
    error: BaseException | None = None


class Prefetcher:
    """Holds at most `depth` steps, and one that is being made.

    Steps are acknowledged as they arrive. A broken connection is opened again;
    what came before the break is not given twice.
    """

    def __init__(self, reader: ShardReader,
                 attach_again: Callable[[], ShardReader],
                 buffer: TensorBuffer, depth: int, wait: float):
        """`reader` is read and, if its connection breaks, one that
        `attach_again` gives within `wait` seconds; both receive into
        `buffer`."""
        self._reader = reader
        self._attach_again = attach_again
        self._buffer = buffer
        self._depth = depth
        self._wait = wait
        self._changed = threading.Condition()
        self._ready: collections.deque[ReadyStep | EpochEnd | _End] = (
            collections.deque())
        self._stopped = False
        self._received = -1
        self._thread = threading.Thread(target=self._run, daemon=True,
                                        name="cpfeed-prefetch")
        # An interpreter that ends while a thread is inside torch aborts.
        atexit.register(self.stop)
        self._thread.start()

    def _run(self) -> None:
        end = _End()
        try:
            while not self._read():
                reader = self._attach_until()
                with self._changed:
                    self._reader = reader
                    if self._stopped:
                        reader.cancel()
        except BaseException as error:  # pylint: disable=broad-except
            end = _End(error)
        with self._changed:
            self._ready.append(end)
            self._changed.notify_all()

    def _attach_until(self) -> ShardReader:
        """Tries again until it works, the time is up, or stop()."""
        deadline = time.monotonic() + self._wait
        while True:
            try:
                return self._attach_again()
            except (Unavailable, SessionNotFound):
                if self._stopped or time.monotonic() > deadline:
                    raise
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, _PAUSE_SECONDS)

    def _read(self) -> bool:
        """Reads until the data ends; False if the connection broke."""
        reader = self._reader
        try:
            for event in reader.events():
                self._take(event, reader)
            return True
        except Unavailable:
            return self._stopped
        finally:
            reader.close()

    def _take(self, event: Step | Tombstone | EpochEnd,
              reader: ShardReader) -> None:
        if isinstance(event, EpochEnd):
            self._put(event)
            return
        if isinstance(event, Tombstone) or event.step <= self._received:
            reader.ack(event.step)
            return
        self._received = event.step
        ready = ReadyStep(event.step, event.cursor,
                          make_batch(event, self._buffer))
        reader.ack(event.step)
        self._put(ready)

    def _put(self, item: ReadyStep | EpochEnd) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped or len(self._ready) < self._depth)
            self._ready.append(item)
            self._changed.notify_all()

    def next(self) -> ReadyStep | EpochEnd | None:
        """The next of them; None at the end of the data, again and again.

        Raises:
          CpfeedError: reading failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ready)
            item = self._ready[0]
            if not isinstance(item, _End):
                self._ready.popleft()
                self._changed.notify_all()
                return item
        if item.error is not None:
            raise item.error
        return None

    def stop(self) -> None:
        """Ends the thread; steps that are ready are dropped."""
        atexit.unregister(self.stop)
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            self._reader.cancel()
        self._thread.join()
