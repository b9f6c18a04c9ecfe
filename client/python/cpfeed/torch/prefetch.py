"""A thread that reads steps ahead of the training loop."""

import atexit
import collections
import dataclasses
import threading
from typing import Any

from cpfeed.errors import Unavailable
from cpfeed.reader import EpochEnd, ShardReader, Tombstone
from cpfeed.shards import Step
from cpfeed.torch.batch import TensorBuffer, make_batch


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

    Steps are acknowledged as they arrive.
    """

    def __init__(self, reader: ShardReader, buffer: TensorBuffer, depth: int):
        """`reader` receives into `buffer`."""
        self._reader = reader
        self._buffer = buffer
        self._depth = depth
        self._changed = threading.Condition()
        self._ready: collections.deque[ReadyStep | EpochEnd | _End] = (
            collections.deque())
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True,
                                        name="cpfeed-prefetch")
        # An interpreter that ends while a thread is inside torch aborts.
        atexit.register(self.stop)
        self._thread.start()

    def _run(self) -> None:
        end = _End()
        try:
            self._read()
        except BaseException as error:  # pylint: disable=broad-except
            end = _End(error)
        with self._changed:
            self._ready.append(end)
            self._changed.notify_all()

    def _read(self) -> None:
        try:
            for event in self._reader.events():
                self._take(event)
        except Unavailable:
            if not self._stopped:
                raise
        finally:
            self._reader.close()

    def _take(self, event: Step | Tombstone | EpochEnd) -> None:
        if isinstance(event, EpochEnd):
            self._put(event)
            return
        if isinstance(event, Tombstone):
            self._reader.ack(event.step)
            return
        ready = ReadyStep(event.step, event.cursor,
                          make_batch(event, self._buffer))
        self._reader.ack(event.step)
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
