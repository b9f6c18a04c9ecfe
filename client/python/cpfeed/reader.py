"""Reads the shards of one consumer, in step order."""

import collections
import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from cpfeed import api, frames, trace
from cpfeed.channel import backoff, open_channel, retry
from cpfeed.errors import (CpfeedError, CursorError, Rewound, SessionNotFound,
                           Unavailable, error_from_rpc)
from cpfeed.history import StepHistory
from cpfeed.security import Credentials
from cpfeed.sessions import Client, session_name
from cpfeed.shards import (Allocator, Step, StepGather, allocate,
                           content_digest)
from cpfeed.streams import Outbox, identity

_METHOD = "/cpfeed.v1.ShardService/StreamShards"
# How long to wait for a server to let go.
_LEAVE_SECONDS = 5.0
# Between two attempts to attach again.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


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

    A connection that breaks is opened again, and no step comes twice. Where the
    server itself is new the session is gone with the old one: the leader
    (cp_rank 0, consumer 0) that has `spec` makes it again, behind a step that
    every consumer is sure to have, and what comes again is compared with what
    was there before and left out.

    Attributes:
      cp_size: of the session.
      consumers_per_cp_rank: likewise.
      generation: likewise.
      first_step: the first that will come.
      num_steps: of the session, once the data has ended.
      reconnects: how often it attached again.
      data_wait_seconds: how long it has waited for the server so far.
    """

    def __init__(self, server: str, session: str, *, cp_rank: int,
                 consumer: int = 0, cp_size: int = 0, generation: int = 0,
                 incarnation: int = 0, first_step: int | None = None,
                 tensors: Sequence[str] = (), credit_bytes: int = 256 << 20,
                 max_step_bytes: int = 16 << 30, verify: bool = True,
                 allocator: Allocator = allocate, session_wait: float = 30.0,
                 reconnect_wait: float = 60.0, spec: Any = None,
                 start_cursor: bytes | None = None,
                 credentials: Credentials = None):
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
          reconnect_wait: seconds to wait for a server that went away; 0 raises
            Unavailable at once.
          spec: of `session_spec`: what the leader makes the session of on a new
            server. None: somebody else does.
          start_cursor: where that session began; None is at step 0.
          credentials: TLS and token; those of the environment by default.

        Raises:
          SessionNotFound, TopologyMismatch, CursorError, Fenced, Unavailable:
            as they say.
        """
        self._server = server
        self._session = session
        self._credentials = credentials
        self._verify = verify
        self._allocator = allocator
        self._max_step_bytes = max_step_bytes
        self._reconnect_wait = reconnect_wait
        leads = cp_rank == 0 and consumer == 0
        self._spec = spec if leads else None
        self._held: collections.deque[tuple[int, int]] = collections.deque()
        self._acknowledged = -1
        self._cancelled = threading.Event()
        self._last_epoch_end = -1
        self.num_steps: int | None = None
        self.reconnects = 0
        self.data_wait_seconds = 0.0
        self._request = api.StreamShardsRequest()
        attach = self._request.attach
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
        self._channel = open_channel(server, credentials)
        try:
            retry(self._attach, (SessionNotFound, Unavailable), session_wait)
        except BaseException:
            self._channel.close()
            raise
        self._history = StepHistory(self.first_step, start_cursor,
                                    self._max_step_skew())

    def _max_step_skew(self) -> int:
        if self._spec is None:
            return 0
        with self._client() as client:
            session = client.get_session(self._session)
        return session.delivery.max_step_skew

    def _client(self) -> Client:
        return Client(self._server, credentials=self._credentials)

    def _attach(self) -> None:
        self._outbox = Outbox(most=1 << 20)
        self._outbox.put(self._request.SerializeToString())
        self._call = self._channel.stream_stream(
            _METHOD, request_serializer=identity,
            response_deserializer=identity)(
                iter(self._outbox), wait_for_ready=False,
                metadata=trace.metadata())
        attached = self._read()[0].attached
        self.cp_size: int = attached.cp_size
        self.consumers_per_cp_rank: int = attached.consumers_per_cp_rank
        self.generation: int = attached.generation
        self.first_step: int = attached.first_step
        self._sent = self.first_step - 1  # By this stream.
        self._instance: str = attached.server_instance

    def _attach_again(self) -> None:
        """On the same server or a new one."""
        instance, generation = self._instance, self.generation
        self._channel.close()
        # Certificates may have changed.
        self._channel = open_channel(self._server, self._credentials)
        attach = self._request.attach
        attach.ClearField("first_step")
        attach.generation = 0
        attach.incarnation = max(time.time_ns(), attach.incarnation + 1)
        self._held.clear()
        try:
            self._attach()
        except SessionNotFound:
            if self._spec is not None:
                with self._client() as client:
                    client.create_session(
                        self._session, self._spec,
                        start_cursor=self._history.safe_cursor)
            raise
        if self._instance == instance and self.generation != generation:
            raise Rewound(f"session {self._session} went to generation "
                          f"{self.generation} meanwhile", code="ABORTED",
                          reason="REWOUND")
        if self.first_step > self._history.next_step:
            raise CursorError(
                f"session {self._session} goes on at step {self.first_step}; "
                f"must be {self._history.next_step} or before",
                code="OUT_OF_RANGE", reason="CURSOR_EXPIRED")

    def _resume(self, error: Unavailable) -> None:
        """Attaches again; raises `error` if it takes too long."""
        deadline = time.monotonic() + self._reconnect_wait
        pause = _FIRST_PAUSE
        while (not self._cancelled.is_set() and
               time.monotonic() < deadline):
            try:
                self._attach_again()
                self.reconnects += 1
                return
            except (Unavailable, SessionNotFound):
                self._cancelled.wait(backoff(pause))
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise error

    def __enter__(self) -> "ShardReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> tuple[Any, memoryview]:
        """Any thread may cancel the call, which ends the waiting."""
        begin = time.monotonic()
        try:
            message = next(self._call)
        except grpc.RpcError as error:
            self._outbox.close()
            raise error_from_rpc(error) from None
        except StopIteration:
            self._outbox.close()
            raise Unavailable("the stream ended early",
                              code="UNAVAILABLE") from None
        finally:
            self.data_wait_seconds += time.monotonic() - begin
        return frames.decode(message, api.StreamShardsResponse)

    def events(self) -> Iterator[Step | Tombstone | EpochEnd]:
        """Steps, and what else happens between them, until the data ends.

        Raises:
          Rewound: the session went to another step: attach again.
          ChecksumMismatch: bytes were damaged on the way: attach again, once.
          SequenceConflict: a step that came again is not what it was.
          Unavailable: the server went away, and did not come back in time.
        """
        while self.num_steps is None:
            try:
                event = self._next_event()
            except Unavailable as error:
                self._resume(error)
                continue
            if event is not None:
                yield event

    def _next_event(self) -> Step | Tombstone | EpochEnd | None:
        """None for what is of no interest, and at the end."""
        response, _ = self._read()
        kind = response.WhichOneof("message")
        if kind == "step":
            return self._read_step(response.step)
        if kind == "tombstone":
            return self._take_tombstone(response.tombstone)
        if kind == "epoch_end":
            end = response.epoch_end
            if end.step <= self._last_epoch_end:
                return None
            self._last_epoch_end = end.step
            return EpochEnd(end.step, end.data_epoch)
        if kind == "end":
            self.num_steps = response.end.num_steps
        elif kind == "chunk":
            raise CpfeedError("the server sent a chunk without a step",
                              reason="PROTOCOL_ERROR")
        return None

    def _take_tombstone(self, tombstone: Any) -> Tombstone | None:
        if not self._take(tombstone.step, 0, 0):
            return None
        return Tombstone(tombstone.step, tombstone.reason, tombstone.message)

    def _take(self, step: int, nbytes: int, digest: int,
              cursor: bytes | None = None) -> bool:
        """Whether it is new; what is not is acknowledged if it was before."""
        self._held.append((step, nbytes))
        self._sent = step
        if self._history.take(step, digest, cursor):
            return True
        if step <= self._acknowledged:
            self.ack(step)
        return False

    def __iter__(self) -> Iterator[Step]:
        """The steps alone; tombstones are acknowledged here."""
        for event in self.events():
            if isinstance(event, Step):
                yield event
            elif isinstance(event, Tombstone):
                self.ack(event.step)

    def _read_step(self, header: Any) -> Step | None:
        """The step; None for one that came before a break."""
        again = header.step < self._history.next_step
        gather = None if again else StepGather(
            header, self.cp_size, self._max_step_bytes, self._allocator)
        missing = header.payload_bytes
        while missing > 0 or (gather is not None and not gather.complete):
            response, payload = self._read()
            if response.WhichOneof("message") != "chunk":
                raise CpfeedError(f"the server sent something else inside step "
                                  f"{header.step}", reason="PROTOCOL_ERROR")
            missing -= len(payload)
            if gather is not None:
                gather.append(response.chunk.offset, payload)
        step = None if gather is None else gather.finish(self._verify)
        self._take(header.step, header.payload_bytes, content_digest(header),
                   step.cursor if step else None)
        return step

    def ack(self, through_step: int) -> None:
        """The caller holds all steps up to this one; makes room for more."""
        self._acknowledged = max(self._acknowledged, through_step)
        # Behind a break the server may not have sent it yet.
        through_step = min(through_step, self._sent)
        if through_step < self.first_step:
            return
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
        self._cancelled.set()
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
