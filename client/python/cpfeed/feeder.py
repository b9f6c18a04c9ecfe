"""Feeds what a data loader gives into a session."""

import collections
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import grpc

from cpfeed import api
from cpfeed.batches import BatchFormat, EncodedBatch, encode_batch
from cpfeed.channel import backoff, open_channel, retry
from cpfeed.errors import CpfeedError, Rewound, SessionNotFound, Unavailable
from cpfeed.producer import ProducerStream, Receipt
from cpfeed.security import Credentials
from cpfeed.sessions import Client
from cpfeed.sources import BatchSource


_FINISHED = api.enum_values("SessionState")["SESSION_STATE_FINISHED"]
# Seconds between two looks at a session.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


@dataclasses.dataclass
class Progress:
    """Where a feeder stands.

    Attributes:
      batches_sent: batches sent, those that were sent again too.
      batches_accepted: batches that became steps.
      bytes_sent: payload of the batches sent.
      last_step: the newest step of a receipt; -1 before the first.
      epoch: pass over the data.
      rewinds: times that the session went back or the stream broke.
      num_steps: of the session, when all producers have finished; else -1.
      wait_seconds: how long the session had no room for the next batch.
    """

    batches_sent: int = 0
    batches_accepted: int = 0
    bytes_sent: int = 0
    last_step: int = -1
    epoch: int = 0
    rewinds: int = 0
    num_steps: int = -1
    wait_seconds: float = 0.0


class Feeder:
    """One producer of a session, however many workers its loader has.

        cpfeed.Feeder(dataloader, server="127.0.0.1:8470",
                      session="train").run()

    Nothing is opened, and the loader is not iterated, before run() or start():
    they belong into the process that is to iterate. When the trainer goes back
    the loader is restored (see `cpfeed.sources.BatchSource`) and its batches
    are sent again.
    """

    def __init__(self, source: Iterable[Mapping[str, Any]], *, server: str,
                 session: str, producer: str = "default",
                 epochs: int | None = 1, form: BatchFormat = BatchFormat(),
                 batch_id: Callable[[Mapping[str, Any]], str] | None = None,
                 on_progress: Callable[[Progress], None] | None = None,
                 session_wait: float = 30.0, reconnect_wait: float = 60.0,
                 incarnation: int = 0, stay: bool = False,
                 credentials: Credentials = None):
        """Args:
          source: batches, or a DataLoader of them; see `encode_batch`.
          server: such as "127.0.0.1:8470".
          session: its id.
          producer: one of the session's.
          epochs: passes over the source; None is without end.
          form: how batches are read.
          batch_id: names a batch, for people.
          on_progress: told after every accepted batch, on another thread.
          session_wait: seconds to wait for the session to be made.
          reconnect_wait: seconds to wait for a server that went away.
          incarnation: fences older feeders; 0 takes the time.
          stay: return only when every rank has everything: until then a server
            that starts anew can be fed again.
          credentials: TLS and token; those of the environment by default.
        """
        self.progress = Progress()
        self._source = BatchSource(source, epochs)
        self._server = server
        self._session = session
        self._producer = producer
        self._form = form
        self._batch_id = batch_id
        self._on_progress = on_progress
        self._session_wait = session_wait
        self._reconnect_wait = reconnect_wait
        self._incarnation = incarnation
        self._stay = stay
        self._credentials = credentials
        # Sent and without receipt: sent again after a break.
        self._window: collections.deque[tuple[int, EncodedBatch]] = (
            collections.deque())
        self._next = -1  # Number of the source's next batch; -1: not iterated.
        self._labels_checked = False
        self._stream: ProducerStream | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def run(self) -> Progress:
        """Feeds everything; returns when the session has it all.

        Raises:
          BatchError: a batch is wrong; BatchRejected: the server says so.
          CannotRewind: the session wants a batch that the source cannot give.
          SequenceConflict: the source did not give the same batch again.
          Fenced: a newer feeder of this producer is there.
          Unavailable: the server stayed away.
        """
        while not self._closed and not self._feed_once():
            self.progress.rewinds += 1
        return self.progress

    def _feed_once(self) -> bool:
        """One stream; whether it was the last."""
        # A new channel each time: certificates may have changed.
        channel = open_channel(self._server, self._credentials)
        stream: ProducerStream | None = None
        try:
            stream = self._stream = self._open(channel)
            self._feed(stream)
            return not self._stay or self._all_is_read()
        except CpfeedError as error:
            if self._closed:
                return True
            if stream is None:
                if self.progress.num_steps >= 0:
                    return True  # Nobody wants it again.
                raise
            if not isinstance(error, (Rewound, Unavailable)):
                raise
            return False
        finally:
            if stream is not None:
                stream.close()
                self.progress.wait_seconds += stream.wait_seconds
            channel.close()

    def _all_is_read(self) -> bool:
        """Waits until the session has ended (True) or goes on (False)."""
        pause = _FIRST_PAUSE
        with Client(self._server, credentials=self._credentials) as client:
            while not self._closed:
                try:
                    session = client.get_session(self._session)
                except (SessionNotFound, Unavailable):
                    return False
                if session.state == _FINISHED:
                    return True
                mine, = (position for position in session.producer_positions
                         if position.producer == self._producer)
                if not mine.finished:
                    return False
                time.sleep(backoff(pause))
                pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def start(self) -> "Feeder":
        """run() on a thread of its own; see join()."""
        def work() -> None:
            try:
                self.run()
            except BaseException as error:  # pylint: disable=broad-except
                self._failure = error

        self._thread = threading.Thread(target=work, daemon=True,
                                        name="cpfeed-feeder")
        self._thread.start()
        return self

    def join(self, timeout: float | None = None) -> Progress:
        """Waits for start()'s thread; raises what run() raises.

        Raises:
          TimeoutError: it is not done after `timeout` seconds.
        """
        assert self._thread is not None, "start() comes first"
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"feeder is not done after {timeout} s")
        if self._failure is not None:
            raise self._failure
        return self.progress

    def close(self) -> None:
        """Breaks off: run() returns soon."""
        self._closed = True
        stream = self._stream
        if stream is not None:
            stream.close()

    def _open(self, channel: grpc.Channel) -> ProducerStream:
        def attempt() -> ProducerStream:
            if self._closed:
                raise CpfeedError("the feeder is closed", code="CANCELLED")
            return ProducerStream(channel, self._session, self._producer,
                                  incarnation=self._incarnation,
                                  on_receipt=self._on_receipt)

        return retry(lambda: retry(attempt, (SessionNotFound,),
                                   self._session_wait),
                     (Unavailable,), self._reconnect_wait)

    def _feed(self, stream: ProducerStream) -> None:
        while True:
            try:
                self._put_all(stream)
                return
            except Rewound:
                if not stream.follow():
                    raise
                self.progress.rewinds += 1

    def _put_all(self, stream: ProducerStream) -> None:
        self._go_to(stream)
        while (item := self._source.next()) is not None:
            self.progress.epoch, batch, state = item
            encoded = self._encode(item[0], batch, state)
            self._window.append((self._next, encoded))
            self._next += 1
            self._put(stream, encoded)
        self.progress.num_steps = stream.finish()

    def _go_to(self, stream: ProducerStream) -> None:
        """Sends again what the session has not, or restores the source."""
        wanted = stream.next_sequence
        # Their receipts were lost on the way.
        self.progress.batches_accepted += sum(
            number < wanted for number, _ in self._window)
        held = [(number, batch) for number, batch in self._window
                if number >= wanted]
        if self._next >= 0 and wanted == self._next - len(held):
            self._window = collections.deque(held)
            for _, batch in held:
                self._put(stream, batch)
            return
        self._window.clear()
        self._source.restore(wanted, stream.producer_state)
        self._next = wanted

    def _put(self, stream: ProducerStream, batch: EncodedBatch) -> None:
        stream.put(batch)
        self.progress.batches_sent += 1
        self.progress.bytes_sent += batch.nbytes

    def _encode(self, epoch: int, batch: Mapping[str, Any],
                state: bytes) -> EncodedBatch:
        encoded = encode_batch(
            batch, self._form, producer_state=state, data_epoch=epoch,
            batch_id=self._batch_id(batch) if self._batch_id else "",
            check_labels=not self._labels_checked)
        self._labels_checked = True
        return encoded

    def _on_receipt(self, receipt: Receipt) -> None:
        while self._window and self._window[0][0] <= receipt.sequence:
            self._window.popleft()
        progress = self.progress
        progress.batches_accepted += not receipt.duplicate
        progress.last_step = max(progress.last_step, receipt.step)
        if self._on_progress:
            self._on_progress(progress)
