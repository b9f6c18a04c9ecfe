"""Reads the shards of one consumer, in step order."""

import collections
import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from cpfeed import api, frames
from cpfeed.channel import open_channel, retry
from cpfeed.errors import (CpfeedError, SessionNotFound, Unavailable,
                           error_from_rpc)
from cpfeed.sessions import session_name
from cpfeed.shards import Allocator, Step, StepGather, allocate
from cpfeed.streams import Outbox, identity

_METHOD = "/cpfeed.v1.ShardService/StreamShards"
# How long to wait for a server to let go.
_LEAVE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Tombstone:
    """A step that is skipped at every consumer."""

    step: int
    reason: str
    message: str


@dataclasses.dataclass(frozen=True)
class EpochEnd:
    """The pass `data_epoch` ended with `step`."""

    step: int
    data_epoch: int


class ShardReader:
    """One consumer of a session. For one thread. A context manager.

        with cpfeed.ShardReader("127.0.0.1:8470", "train", cp_rank=0) as reader:
            for step in reader:
                use(step.chunks[0].tensors["input_ids"])
                reader.ack(step.step)

    Attributes:
      cp_size: of the session.
      consumers_per_cp_rank: likewise.
      generation: likewise.
      first_step: the first that will come.
      num_steps: of the session, once the data has ended.
    """

    def __init__(self, server: str, session: str, *, cp_rank: int,
                 consumer: int = 0, cp_size: int = 0, generation: int = 0,
                 incarnation: int = 0, first_step: int | None = None,
                 tensors: Sequence[str] = (), credit_bytes: int = 256 << 20,
                 max_step_bytes: int = 16 << 30, verify: bool = True,
                 allocator: Allocator = allocate, session_wait: float = 30.0,
                 credentials: grpc.ChannelCredentials | None = None):
        """Attaches.

        Args:
          server: such as "127.0.0.1:8470".
          session: its id; it and the server are waited for `session_wait`
            seconds.
          cp_rank: whose shard.
          consumer: number within the rank.
          cp_size: what the caller expects; 0 takes the session's.
          generation: what Client.seek gave; 0 takes the newest.
          incarnation: fences older readers; 0 takes the time.
          first_step: where to begin; None is behind the last acknowledged.
          tensors: those wanted, "index" among them; none means all.
          credit_bytes: payload under way or held without acknowledgement.
          max_step_bytes: larger steps are refused.
          verify: compare checksums.
          allocator: makes the memory that tensors lie in.
          credentials: of a server with TLS.

        Raises:
          SessionNotFound, TopologyMismatch, CursorError, Fenced, Unavailable:
            as they say.
        """
        self._verify = verify
        self._allocator = allocator
        self._max_step_bytes = max_step_bytes
        self._channel = open_channel(server, credentials)
        self._held: collections.deque[tuple[int, int]] = collections.deque()
        self.num_steps: int | None = None
        request = api.StreamShardsRequest()
        attach = request.attach
        attach.session = session_name(session)
        attach.cp_rank = cp_rank
        attach.consumer = consumer
        attach.cp_size = cp_size
        attach.generation = generation
        attach.incarnation = incarnation or time.time_ns()
        if first_step is not None:
            attach.first_step = first_step
        attach.tensors.extend(tensors)
        attach.credit_bytes = credit_bytes
        attach.min_protocol_version = attach.max_protocol_version = 1
        try:
            retry(lambda: self._attach(request.SerializeToString()),
                  (SessionNotFound, Unavailable), session_wait)
        except BaseException:
            self._channel.close()
            raise

    def _attach(self, request: bytes) -> None:
        self._outbox = Outbox(most=1 << 20)
        self._outbox.put(request)
        self._call = self._channel.stream_stream(
            _METHOD, request_serializer=identity,
            response_deserializer=identity)(iter(self._outbox),
                                            wait_for_ready=False)
        attached = self._read()[0].attached
        self.cp_size: int = attached.cp_size
        self.consumers_per_cp_rank: int = attached.consumers_per_cp_rank
        self.generation: int = attached.generation
        self.first_step: int = attached.first_step

    def __enter__(self) -> "ShardReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> tuple[Any, memoryview]:
        """Any thread may cancel the call, which ends the waiting."""
        try:
            message = next(self._call)
        except grpc.RpcError as error:
            self._outbox.close()
            raise error_from_rpc(error) from None
        except StopIteration:
            self._outbox.close()
            raise Unavailable("the stream ended early",
                              code="UNAVAILABLE") from None
        return frames.decode(message, api.StreamShardsResponse)

    def events(self) -> Iterator[Step | Tombstone | EpochEnd]:
        """Steps, and what else happens between them, until the data ends.

        Raises:
          Rewound: the session went to another step: attach again.
          ChecksumMismatch: bytes were damaged on the way: attach again, once.
          Unavailable: the server went away.
        """
        while self.num_steps is None:
            response, _ = self._read()
            kind = response.WhichOneof("message")
            if kind == "step":
                yield self._read_step(response.step)
            elif kind == "tombstone":
                tombstone = response.tombstone
                self._held.append((tombstone.step, 0))
                yield Tombstone(tombstone.step, tombstone.reason,
                                tombstone.message)
            elif kind == "epoch_end":
                yield EpochEnd(response.epoch_end.step,
                               response.epoch_end.data_epoch)
            elif kind == "end":
                self.num_steps = response.end.num_steps
            elif kind == "chunk":
                raise CpfeedError("the server sent a chunk without a step",
                                  reason="PROTOCOL_ERROR")

    def __iter__(self) -> Iterator[Step]:
        """The steps alone; tombstones are acknowledged here."""
        for event in self.events():
            if isinstance(event, Step):
                yield event
            elif isinstance(event, Tombstone):
                self.ack(event.step)

    def _read_step(self, header: Any) -> Step:
        gather = StepGather(header, self.cp_size, self._max_step_bytes,
                            self._allocator)
        while not gather.complete:
            response, payload = self._read()
            if response.WhichOneof("message") != "chunk":
                raise CpfeedError(f"the server sent something else inside step "
                                  f"{header.step}", reason="PROTOCOL_ERROR")
            gather.append(response.chunk.offset, payload)
        step = gather.finish(self._verify)
        self._held.append((header.step, header.payload_bytes))
        return step

    def ack(self, through_step: int) -> None:
        """The caller holds all steps up to this one; makes room for more."""
        freed = 0
        while self._held and self._held[0][0] <= through_step:
            freed += self._held.popleft()[1]
        request = api.StreamShardsRequest()
        request.ack.through_step = through_step
        self._outbox.put(request.SerializeToString())
        if freed:
            request = api.StreamShardsRequest()
            request.credit.bytes = freed
            self._outbox.put(request.SerializeToString())

    def cancel(self) -> None:
        """Breaks the stream off; from any thread."""
        self._outbox.close()
        self._call.cancel()

    def close(self) -> None:
        """Leaves; the server has the acknowledgements when this returns."""
        if self.num_steps is None:
            request = api.StreamShardsRequest()
            request.detach.SetInParent()
            self._outbox.put(request.SerializeToString())
        self._outbox.close()
        give_up = threading.Timer(_LEAVE_SECONDS, self._call.cancel)
        give_up.daemon = True
        give_up.start()
        try:
            for _ in self._call:
                pass
        except grpc.RpcError:
            pass  # It has ended, for whatever reason.
        give_up.cancel()
        self._channel.close()
