"""What a rank receives: steps, and the tensors of their chunks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import xxhash

from cpfeed import api, dtypes
from cpfeed.errors import ChecksumMismatch, CpfeedError

_LAYOUTS = {number: name.removeprefix("LAYOUT_")
            for name, number in api.enum_values("Layout").items()}
_DESCRIPTION = ("cu_seqlens", "cu_seqlens_padded", "sequences_per_row",
                "source_lengths", "segments", "local_cu_seqlens",
                "local_cu_seqlens_padded")
_ALIGNMENT = 64

# Makes writable bytes that tensors are received into.
Allocator = Callable[[int], np.ndarray]


def allocate(size: int) -> np.ndarray:
    """Uninitialized bytes, the first at a multiple of 64."""
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % _ALIGNMENT
    return raw[begin:begin + size]


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """Which tokens of a chunk the rank holds.

    Lengths are int32 prefix sums of N sequences. `cu_seqlens` counts real
    tokens, `cu_seqlens_padded` slots; it locates tokens. The global ones are
    equal on all ranks, the local ones count this rank's rows.

    Attributes:
      digest: equal on all ranks; compare before the first collective.
      layout: its name.
      sharding: cpfeed.v1.ShardingSpec, parameters filled in.
      cp_rank: this rank.
      cp_size: ranks.
      total_tokens: T of the chunk.
      num_tokens: rows of this rank.
      num_label_tokens: labels of this rank that are not -100.
      max_seqlen: widest real length of the chunk.
      max_seqlen_padded: widest slot of the chunk.
      sequences_per_row: int32 [rows].
      segments: int32 [segments, 3]: sequence, begin in its slot, length.
      source_lengths: int32 [N], positions of each slot that came from the
        input; None where none was inserted.
    """

    digest: int
    layout: str
    sharding: Any
    cp_rank: int
    cp_size: int
    total_tokens: int
    num_tokens: int
    num_label_tokens: int
    max_seqlen: int
    max_seqlen_padded: int
    cu_seqlens: np.ndarray
    cu_seqlens_padded: np.ndarray
    local_cu_seqlens: np.ndarray
    local_cu_seqlens_padded: np.ndarray
    sequences_per_row: np.ndarray
    segments: np.ndarray
    source_lengths: np.ndarray | None = None

    def index(self) -> np.ndarray:
        """int64 [num_tokens]: each row's position in the chunk's stream; -1
        for rows that pad the rank to a multiple."""
        sequence, begin, length = self.segments.astype(np.int64).T
        ends = np.cumsum(length)
        held = int(ends[-1]) if len(ends) else 0
        index = np.full(self.num_tokens, -1, np.int64)
        first = self.cu_seqlens_padded[sequence] + begin - (ends - length)
        index[:held] = np.repeat(first, length) + np.arange(held)
        return index


@dataclasses.dataclass(frozen=True)
class ShardChunk:
    """One chunk as a rank holds it.

    Attributes:
      plan: which tokens these are.
      tensors: by name, each with the rank's rows on its token axis.
      dtypes: element types; bfloat16 tensors are uint16 bits.
    """

    plan: ShardPlan
    tensors: dict[str, np.ndarray]
    dtypes: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Step:
    """One rank's part of a step.

    Attributes:
      step: its number.
      batch_id: what the loader called the batch.
      producer: the loader.
      sequence: the batch's number there.
      data_epoch: pass over the data.
      num_label_tokens: labels that are not -100, over all ranks and chunks:
        the denominator of the loss.
      chunks: in order.
      cursor: serialized cursor behind the step; None but at the leader.
      nbytes: of the payload.
    """

    step: int
    batch_id: str
    producer: str
    sequence: int
    data_epoch: int
    num_label_tokens: int
    chunks: list[ShardChunk]
    cursor: bytes | None
    nbytes: int


def _unfit(what: str) -> CpfeedError:
    return CpfeedError(what, reason="PROTOCOL_ERROR")


def content_digest(header: Any) -> int:
    """What tells a step's content: plans and checksums of its tensors. A cursor
    is no part of it."""
    digest = xxhash.xxh3_64()
    for chunk in header.chunks:
        digest.update(chunk.plan_digest.to_bytes(8, "little"))
        for spec in chunk.tensors:
            digest.update(spec.checksum.to_bytes(8, "little"))
    return digest.intdigest()


class StepGather:
    """Takes the payload of a step as it comes, each tensor to a place of its
    own.

    Nothing is allocated before the header's sizes agree with each other and
    with `max_bytes`.
    """

    def __init__(self, header: Any, cp_size: int, max_bytes: int,
                 allocator: Allocator = allocate):
        self._header = header
        self._cp_size = cp_size
        self._received = 0
        sizes = [header.cursor_bytes]
        self._dtypes: list[str] = []
        for chunk in header.chunks:
            for spec in chunk.tensors:
                sizes.append(self._size_of(spec))
        if min(sizes) < 0 or sum(sizes) != header.payload_bytes:
            raise _unfit(f"step {header.step} has a payload of "
                         f"{header.payload_bytes} bytes; its parts have "
                         f"{sum(sizes)}")
        if header.payload_bytes > max_bytes:
            raise CpfeedError(
                f"step {header.step} has {header.payload_bytes} bytes; must be "
                f"at most max_step_bytes = {max_bytes}",
                code="RESOURCE_EXHAUSTED", reason="MESSAGE_TOO_LARGE")
        places = []
        total = 0
        for size in sizes:
            places.append(total)
            total += -(-size // _ALIGNMENT) * _ALIGNMENT
        self._bytes = allocator(total)
        self._parts = [self._bytes[begin:begin + size]
                       for begin, size in zip(places, sizes)]
        self._part = 0
        self._offset = 0  # In the part.

    def _size_of(self, spec: Any) -> int:
        try:
            name = dtypes.name_of(spec.dtype)
        except KeyError:
            raise _unfit(f"{spec.name} has dtype {spec.dtype}, which is "
                         "unknown") from None
        size = dtypes.numpy_type(name).itemsize
        for extent in spec.shape:
            if extent < 0:
                raise _unfit(f"{spec.name} has shape {list(spec.shape)}")
            size *= extent
        self._dtypes.append(name)
        return size

    @property
    def complete(self) -> bool:
        """Whether all is there."""
        return self._received == self._header.payload_bytes

    def append(self, offset: int, payload: memoryview) -> None:
        """Takes the next piece."""
        end = self._received + len(payload)
        if offset != self._received or end > self._header.payload_bytes:
            raise _unfit(f"step {self._header.step}: chunk of {len(payload)} "
                         f"bytes at {offset}; {self._received} of "
                         f"{self._header.payload_bytes} are there")
        self._received = end
        piece = np.frombuffer(payload, np.uint8)
        while len(piece):
            part = self._parts[self._part]
            room = len(part) - self._offset
            if room == 0:
                self._part += 1
                self._offset = 0
                continue
            taken = piece[:room]
            part[self._offset:self._offset + len(taken)] = taken
            self._offset += len(taken)
            piece = piece[room:]

    def finish(self, verify: bool) -> Step:
        """The step; with `verify` its checksums are compared.

        Raises:
          ChecksumMismatch: a tensor differs; it is named.
          CpfeedError: the tensors contradict the header.
        """
        header = self._header
        parts = iter(zip(self._parts[1:], self._dtypes))
        chunks = []
        for chunk in header.chunks:
            tensors = {}
            names = {}
            for spec in chunk.tensors:
                data, name = next(parts)
                self._check(spec, data, verify)
                tensors[spec.name] = data.view(
                    dtypes.numpy_type(name)).reshape(tuple(spec.shape))
                names[spec.name] = name
            chunks.append(self._chunk(chunk, tensors, names))
        return Step(header.step, header.batch_id, header.producer,
                    header.sequence, header.data_epoch,
                    header.num_label_tokens_global, chunks,
                    self._parts[0].tobytes() if header.cursor_bytes else None,
                    header.payload_bytes)

    def _check(self, spec: Any, data: np.ndarray, verify: bool) -> None:
        if not verify or spec.checksum == 0:
            return
        computed = xxhash.xxh3_64_intdigest(data.data)
        if computed != spec.checksum:
            raise ChecksumMismatch(
                f"step {self._header.step}: tensor {spec.name}: checksum is "
                f"{computed:x}; must be {spec.checksum:x}", code="DATA_LOSS",
                reason="CHECKSUM_MISMATCH")

    def _chunk(self, chunk: Any, tensors: dict[str, np.ndarray],
               names: dict[str, str]) -> ShardChunk:
        described = {name: tensors.pop(name) for name in _DESCRIPTION
                     if name in tensors}
        missing = set(_DESCRIPTION) - set(described) - {"source_lengths"}
        if missing:
            raise _unfit(f"step {self._header.step}: shard has no "
                         f"{min(missing)}")
        plan = ShardPlan(
            digest=chunk.plan_digest, layout=_LAYOUTS[chunk.sharding.layout],
            sharding=chunk.sharding, cp_rank=self._header.cp_rank,
            cp_size=self._cp_size, total_tokens=chunk.total_tokens,
            num_tokens=chunk.num_tokens,
            num_label_tokens=chunk.num_label_tokens,
            max_seqlen=chunk.max_seqlen,
            max_seqlen_padded=chunk.max_seqlen_padded, **described)
        held = int(plan.segments[:, 2].sum()) if len(plan.segments) else 0
        if held > plan.num_tokens:
            raise _unfit(f"step {self._header.step}: segments have {held} rows; "
                         f"the shard has {plan.num_tokens}")
        for spec in chunk.tensors:
            if (spec.name in tensors and
                    spec.shape[spec.token_axis] != plan.num_tokens):
                raise _unfit(f"{spec.name} has shape {list(spec.shape)}; must "
                             f"have the {plan.num_tokens} local rows on axis "
                             f"{spec.token_axis}")
        return ShardChunk(plan, tensors, {name: names[name]
                                          for name in tensors})
