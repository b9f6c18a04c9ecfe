"""One stream of one producer: batches in order, receipts back."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from cpfeed import api, frames, trace
from cpfeed.batches import EncodedBatch
from cpfeed.errors import (BatchError, CpfeedError, Rewound, Unavailable,
                           error_from_rpc, rejection_from_receipt)
from cpfeed.sessions import session_name
from cpfeed.streams import Outbox, identity

_METHOD = "/cpfeed.v1.IngestService/PutBatches"
_MOST_STATE = 64 << 10
_OUTCOMES = api.BatchReceipt.Outcome


@dataclasses.dataclass(frozen=True)
class Receipt:
    """What became of a batch.

    Attributes:
      sequence: the producer's number of the batch.
      step: the step that it became.
      duplicate: it was one already.
    """

    sequence: int
    step: int
    duplicate: bool


class ProducerStream:
    """An open stream. put, flush and finish are for one thread.

    Attributes:
      next_sequence: the number of the next batch.
      producer_state: what the producer sent as its state with the batch before
        that; None if nothing.
      generation: of the session.
      max_batch_bytes: limit of a batch's payload.
      wait_seconds: how long put() has waited for room so far.
    """

    def __init__(self, channel: grpc.Channel, session: str,
                 producer: str = "default", *, incarnation: int = 0,
                 on_receipt: Callable[[Receipt], None] | None = None):
        """Opens the stream and waits for the server's answer.

        Args:
          channel: to the server.
          session: its id.
          producer: one of the session's.
          incarnation: fences older streams: grows with every start; 0 takes
            the time.
          on_receipt: told of every accepted batch, on the stream's thread.

        Raises:
          SessionNotFound, Fenced, Unavailable: as they say.
        """
        self._on_receipt = on_receipt
        self._outbox = Outbox()
        self._credit = 0
        self._sent: dict[int, str] = {}  # Without receipt: batch_id.
        self._num_steps: int | None = None
        self._ended = False
        self._error: CpfeedError | None = None
        # A rewind that is not followed yet, and the state that came with it.
        self._rewind: tuple[Any, bytes | None] | None = None
        self.wait_seconds = 0.0
        request = api.PutBatchesRequest()
        request.open.session = session_name(session)
        request.open.producer = producer
        request.open.incarnation = incarnation or time.time_ns()
        request.open.min_protocol_version = 1
        request.open.max_protocol_version = 1
        request.open.follows_rewind = True
        self._outbox.put(request.SerializeToString())
        self._call = channel.stream_stream(
            _METHOD, request_serializer=identity,
            response_deserializer=identity)(iter(self._outbox),
                                            metadata=trace.metadata())
        self._read_opened()
        self._reader = threading.Thread(target=self._read, daemon=True,
                                        name="cpfeed-producer")
        self._reader.start()

    def _read_opened(self) -> None:
        try:
            response, state = frames.decode(next(self._call),
                                            api.PutBatchesResponse)
        except grpc.RpcError as error:
            self._outbox.close()
            raise error_from_rpc(error) from None
        except StopIteration:
            self._outbox.close()
            raise Unavailable("the server ended the stream",
                              code="UNAVAILABLE") from None
        opened = response.opened
        self.next_sequence: int = opened.next_sequence
        self.producer_state = (bytes(state) if opened.has_producer_state else
                               None)
        self.generation: int = opened.generation
        self.max_batch_bytes: int = opened.max_batch_bytes
        self._message_bytes = max(opened.max_message_bytes, 1)
        self._credit = opened.credit_bytes

    def _read(self) -> None:
        error: CpfeedError | None = None
        try:
            for message in self._call:
                self._on_response(
                    *frames.decode(message, api.PutBatchesResponse))
        except grpc.RpcError as failure:
            error = error_from_rpc(failure)
        except CpfeedError as failure:
            error = failure
            self._call.cancel()
        with self._outbox.changed:
            self._ended = True
            self._error = self._error or error
        self._outbox.close()

    def _on_response(self, response: Any, payload: Any) -> None:
        kind = response.WhichOneof("message")
        if kind == "receipt":
            self._on_batch_receipt(response.receipt)
            return
        with self._outbox.changed:
            if kind == "credit":
                self._credit += response.credit.bytes
            elif kind == "end":
                self._num_steps = response.end.num_steps
            elif kind == "rewind":
                self._on_rewind(response.rewind, payload)
            self._outbox.changed.notify_all()

    def _on_rewind(self, rewind: Any, state: Any) -> None:
        self._rewind = rewind, (bytes(state) if rewind.has_producer_state else
                                None)
        self._credit = rewind.credit_bytes
        self._sent.clear()
        self._error = self._error or Rewound(
            f"the session went back to batch {rewind.next_sequence}",
            code="ABORTED", reason="REWOUND")

    def follow(self) -> bool:
        """After Rewound: goes on with this stream.

        next_sequence, producer_state and generation are those of the session
        as it is now; what has no receipt is forgotten. False if the stream has
        ended and must be opened again.
        """
        request = api.PutBatchesRequest()
        with self._outbox.changed:
            if (self._rewind is None or self._ended
                    or not isinstance(self._error, Rewound)):
                return False
            rewind, self.producer_state = self._rewind
            self.next_sequence = rewind.next_sequence
            self.generation = rewind.generation
            self._rewind = self._error = None
            request.follow.generation = rewind.generation
        return self._outbox.put(request.SerializeToString())

    def _on_batch_receipt(self, receipt: Any) -> None:
        rejected = receipt.outcome == _OUTCOMES.Value("OUTCOME_REJECTED")
        if not rejected and self._on_receipt:
            duplicate = receipt.outcome == _OUTCOMES.Value("OUTCOME_DUPLICATE")
            self._on_receipt(Receipt(receipt.sequence, receipt.step, duplicate))
        with self._outbox.changed:
            batch_id = self._sent.pop(receipt.sequence, "")
            if rejected and self._error is None:
                self._error = rejection_from_receipt(receipt, batch_id)
            self._outbox.changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Holding the lock: waits, and raises what has happened instead."""
        self._outbox.changed.wait_for(
            lambda: ready() or self._ended or self._error is not None)
        if self._error is not None:
            raise self._error
        if not ready():
            raise Unavailable("the server ended the stream",
                              code="UNAVAILABLE")

    def put(self, batch: EncodedBatch) -> int:
        """Sends a batch and returns its number. Blocks while the session has no
        room for it.

        Raises:
          BatchError: it is too large to be sent.
          BatchRejected: an earlier batch was refused.
          Rewound: the trainer went to another step; see follow().
          CpfeedError: the stream has ended.
        """
        header = batch.header
        if header.producer_state_bytes > _MOST_STATE:
            raise BatchError(
                f"producer_state has {header.producer_state_bytes} bytes; must "
                f"be at most {_MOST_STATE}", reason="BATCH_MALFORMED")
        if batch.nbytes > self.max_batch_bytes:
            raise BatchError(
                f"batch has {batch.nbytes} bytes; must be at most "
                f"{self.max_batch_bytes}; see max_batch_bytes of the session",
                reason="BATCH_TOO_LARGE")
        header.sequence = self.next_sequence
        request = api.PutBatchesRequest()
        request.batch.CopyFrom(header)
        with self._outbox.changed:
            begin = time.monotonic()
            self._wait(lambda: self._credit >= batch.nbytes)
            self.wait_seconds += time.monotonic() - begin
            self._credit -= batch.nbytes
            self._sent[header.sequence] = header.batch_id
        self._send(request.SerializeToString())
        for message in batch.messages(self._message_bytes):
            self._send(message)
        self.next_sequence += 1
        return header.sequence

    def _send(self, message: bytes) -> None:
        if not self._outbox.put(message):
            with self._outbox.changed:
                self._wait(lambda: False)

    def flush(self) -> None:
        """Waits until every batch has its receipt. Raises as put."""
        with self._outbox.changed:
            self._wait(lambda: not self._sent)

    def finish(self) -> int:
        """Ends this producer's data; returns the session's number of steps, -1
        while other producers go on. Raises as put."""
        # A rejection would be lost: finishing behind a gap ends the stream.
        self.flush()
        request = api.PutBatchesRequest()
        request.finish.num_batches = self.next_sequence
        self._send(request.SerializeToString())
        with self._outbox.changed:
            self._wait(lambda: self._num_steps is not None)
            num_steps = self._num_steps
        assert num_steps is not None
        self._outbox.close()
        self._reader.join()
        return num_steps

    def close(self) -> None:
        """Breaks the stream off, unless it has ended."""
        self._outbox.close()
        self._call.cancel()
        self._reader.join()
