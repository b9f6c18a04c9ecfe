"""A dataset of the steps of one rank."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from cpfeed.errors import (ChecksumMismatch, CursorError, Unavailable,
                           UsageError)
from cpfeed.reader import EpochEnd, ShardReader
from cpfeed.security import Credentials
from cpfeed.sessions import Client
from cpfeed.torch.batch import TensorBuffer, to_device
from cpfeed.torch.prefetch import Prefetcher, ReadyStep

_STATE_VERSION = 1
# What ranks tell each other about their next step.
_FAILED, _END, _STEP = -1, 0, 1


def _device_of(group: dist.ProcessGroup) -> torch.device:
    """Where tensors of collectives of `group` must be."""
    if dist.get_backend(group) == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def check_plans(batch: Mapping[str, Any], group: dist.ProcessGroup) -> None:
    """Compares the batch's plans over the context-parallel ranks of `group`.

    Raises:
      ChecksumMismatch: on all ranks, where two differ; both are named.
    """
    plans = batch["plan"] if isinstance(batch["plan"], list) else [batch["plan"]]
    everyone: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, [plan.digest for plan in plans], group)
    for rank, digests in enumerate(everyone):
        if digests != everyone[0]:
            first, other = ([f"{digest:x}" for digest in digests]
                            for digests in (everyone[0], everyone[rank]))
            raise ChecksumMismatch(
                f"plan digest is {', '.join(first)} at rank 0 of the group and "
                f"{', '.join(other)} at rank {rank}", code="DATA_LOSS",
                reason="PLAN_MISMATCH")


class ShardDataset(torch.utils.data.IterableDataset):
    """Yields the dict of each step (see `cpfeed.torch.batch.make_batch`).

    Give it to the training loop as it is, or to a DataLoader with
    batch_size=None and num_workers=0: it has a thread of its own that reads
    ahead, and workers would fence each other.

    A connection that breaks is opened again. Where the server is a new one the
    leader makes the session again, if it has `spec`, and no step is missed or
    comes twice.

    `state_dict()` belongs into the checkpoint; when that is durable call
    `commit()`. After a restart every rank calls `load_state_dict`, and the
    session goes back when the dataset is iterated.
    """

    def __init__(self, server: str, session: str, *, cp_rank: int,
                 consumer: int = 0, cp_size: int = 0, spec: Any = None,
                 tensors: Sequence[str] = (), prefetch: int = 2,
                 device: torch.device | str | None = None,
                 pin_memory: bool | None = None, per_epoch: bool = False,
                 group: dist.ProcessGroup | None = None,
                 dp_group: dist.ProcessGroup | None = None,
                 credit_bytes: int = 256 << 20, session_wait: float = 30.0,
                 reconnect_wait: float = 60.0,
                 credentials: Credentials = None):
        """Args:
          server: such as "127.0.0.1:8470".
          session: its id.
          cp_rank: whose shard.
          consumer: number within the rank.
          cp_size: what the loop expects; checked; 0 is unchecked.
          spec: of `session_spec`: the leader (cp_rank 0, consumer 0) makes the
            session, and makes it again on a server that is new. None: it is
            made elsewhere.
          tensors: those wanted; none means all.
          prefetch: steps that are held ready.
          device: where batches go; None leaves them on the CPU.
          pin_memory: None pins where `device` is CUDA.
          per_epoch: iterating ends where a pass over the data ends; the next
            iteration goes on behind it.
          group: ranks that read this session, in one process group: after a
            restart they wait for the leader in it. Without it they ask the
            server.
          dp_group: ranks of different sessions that must end together.
          credit_bytes: payload under way.
          session_wait: seconds to wait for session and server.
          reconnect_wait: likewise after a break.
          credentials: TLS and token; those of the environment by default.
        """
        super().__init__()
        self.server = server
        self.session = session
        self.cp_rank = cp_rank
        self.consumer = consumer
        self._cp_size = cp_size
        self._spec = spec
        self._tensors = tuple(tensors)
        self._prefetch = prefetch
        self._device = None if device is None else torch.device(device)
        if pin_memory is None:
            pin_memory = self._device is not None and self._device.type == "cuda"
        self._pin_memory = pin_memory
        self._per_epoch = per_epoch
        self._group = group
        self._dp_group = dp_group
        self._credit_bytes = credit_bytes
        self._session_wait = session_wait
        self._reconnect_wait = reconnect_wait
        self._credentials = credentials
        self._prefetcher: Prefetcher | None = None
        self._generation = 0
        self._step = -1
        self._cursor = b""
        self._resume = False
        self._data_wait_seconds = 0.0

    @property
    def data_wait_seconds(self) -> float:
        """How long iterating has waited for steps so far: what the loop lost to
        its data."""
        return self._data_wait_seconds

    @property
    def is_leader(self) -> bool:
        """Whether this consumer gets the cursors."""
        return self.cp_rank == 0 and self.consumer == 0

    def state_dict(self) -> dict[str, Any]:
        """Behind the last step that was used (not read ahead).

        Its cursor is empty but at the leader; ranks may load the leader's.
        """
        return {"version": _STATE_VERSION, "session": self.session,
                "step": self._step, "cursor": self._cursor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back to a state when iterated the next time.

        Raises:
          CursorError: it is of another session or version, or the leader has
            no cursor.
        """
        if state.get("version") != _STATE_VERSION:
            raise CursorError(f"state has version {state.get('version')}; must "
                              f"be {_STATE_VERSION}", reason="CURSOR_MISMATCH")
        if state["session"] != self.session:
            raise CursorError(f"state is of session {state['session']}; this "
                              f"is {self.session}", reason="CURSOR_MISMATCH")
        if self.is_leader and state["step"] >= 0 and not state["cursor"]:
            raise CursorError("state of the leader has no cursor",
                              reason="CURSOR_MISMATCH")
        self.close()
        self._step = state["step"]
        self._cursor = state["cursor"]
        self._resume = self._step >= 0

    def commit(self) -> None:
        """The checkpoint with the last `state_dict()` is durable."""
        if self.is_leader and self._cursor:
            with self._client() as client:
                client.commit(self.session, self._cursor)

    def close(self) -> None:
        """Leaves the session."""
        if self._prefetcher is not None:
            self._prefetcher.stop()
            self._prefetcher = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Steps from where the last iteration ended.

        Raises:
          UsageError: in a worker of a DataLoader.
        """
        if torch.utils.data.get_worker_info() is not None:
            raise UsageError(
                "ShardDataset is iterated in a worker of a DataLoader; must be "
                "in the training process (num_workers=0): it reads ahead in a "
                "thread, and workers would fence each other",
                code="FAILED_PRECONDITION")
        if self._prefetcher is None:
            self._generation = self._position()
            buffer = TensorBuffer(self._pin_memory)
            self._prefetcher = Prefetcher(self._attach(buffer), buffer,
                                          self._prefetch)
            self._resume = False
        return self._batches(self._prefetcher)

    def _batches(self, prefetcher: Prefetcher) -> Iterator[dict[str, Any]]:
        while (ready := self._next(prefetcher)) is not None:
            self._step = ready.step
            self._cursor = ready.cursor or b""
            yield to_device(ready.batch, self._device)

    def _next(self, prefetcher: Prefetcher) -> ReadyStep | None:
        item: ReadyStep | EpochEnd | None = None
        failure: BaseException | None = None
        begin = time.monotonic()
        try:
            item = prefetcher.next()
            while isinstance(item, EpochEnd) and not self._per_epoch:
                item = prefetcher.next()
        except Exception as error:  # pylint: disable=broad-except
            failure = error
        self._data_wait_seconds += time.monotonic() - begin
        ready = item if isinstance(item, ReadyStep) else None
        if self._dp_group is not None:
            mine = _FAILED if failure else _STEP if ready else _END
            least = self._least(mine)
            if least == _FAILED and failure is None:
                raise Unavailable("another rank of dp_group has failed",
                                  code="ABORTED", reason="GROUP_FAILED")
            if least == _END:
                ready = None
        if failure is not None:
            raise failure
        return ready

    def _least(self, mine: int) -> int:
        assert self._dp_group is not None
        least = torch.tensor(mine, device=_device_of(self._dp_group))
        dist.all_reduce(least, dist.ReduceOp.MIN, self._dp_group)
        return int(least)

    def _client(self) -> Client:
        return Client(self.server, credentials=self._credentials,
                      timeout=max(self._session_wait, 0.1))

    def _attach(self, buffer: TensorBuffer) -> ShardReader:
        return ShardReader(
            self.server, self.session, cp_rank=self.cp_rank,
            consumer=self.consumer, cp_size=self._cp_size,
            generation=self._generation,
            first_step=self._step + 1 if self._resume else None,
            tensors=self._tensors, credit_bytes=self._credit_bytes,
            allocator=buffer, session_wait=self._session_wait,
            reconnect_wait=self._reconnect_wait, spec=self._spec,
            start_cursor=self._cursor or None, credentials=self._credentials)

    def _position(self) -> int:
        """Makes the session or goes back in it; returns the generation that
        readers must be of, 0 for any."""
        generation = 0
        if self.is_leader:
            with self._client() as client:
                if self._spec is not None:
                    generation = client.open_session(
                        self.session, self._spec,
                        self._cursor if self._resume else None)
                elif self._resume:
                    generation = client.seek(self.session, self._cursor)
        if not self._resume:
            return generation
        if self._group is not None:
            everyone: list[Any] = [None] * dist.get_world_size(self._group)
            dist.all_gather_object(everyone, (self.session, generation),
                                   self._group)
            return max(number for session, number in everyone
                       if session == self.session)
        return generation if self.is_leader else self._wait_for_seek()

    def _wait_for_seek(self) -> int:
        """Until the leader has gone back to the step of the loaded state."""
        deadline = time.monotonic() + self._session_wait
        while True:
            with self._client() as client:
                session = client.get_session(self.session, self._session_wait)
            mine, = (position for position in session.consumer_positions
                     if position.cp_rank == self.cp_rank and
                     position.consumer == self.consumer)
            if mine.acknowledged_step == self._step:
                return session.generation
            if time.monotonic() > deadline:
                raise CursorError(
                    f"session {self.session} is behind step "
                    f"{mine.acknowledged_step}; must be behind {self._step}: "
                    "the leader did not go back",
                    code="DEADLINE_EXCEEDED", reason="CURSOR_MISMATCH")
            time.sleep(0.05)
