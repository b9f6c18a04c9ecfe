"""Steps as the dicts that training loops take."""

from typing import Any

import numpy as np
import torch

from cpfeed import dtypes
from cpfeed.errors import UsageError
from cpfeed.shards import ShardChunk, Step

# Filler of rectangular cu_seqlens, as upstream has it.
_FILLER = -1000
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.uint8)
_INT64 = ("input_ids", "labels", "position_ids")


class TensorBuffer:
    """Allocates the bytes of a step as a tensor, pinned where asked for.

    Tensors of the step are views of it: pinned memory is then known to the
    allocator that must not reuse it before a transfer is done.
    """

    def __init__(self, pin_memory: bool):
        self._pin_memory = pin_memory
        self._tensor = torch.empty(0, dtype=torch.uint8)

    def __call__(self, size: int) -> np.ndarray:
        self._tensor = torch.empty(size, dtype=torch.uint8,
                                   pin_memory=self._pin_memory)
        return self._tensor.numpy()

    def tensor(self, array: np.ndarray, name: str) -> torch.Tensor:
        """The tensor over the bytes of `array`, of element type `name`."""
        dtype: torch.dtype = getattr(torch, name)
        if array.nbytes == 0:
            return torch.empty(array.shape, dtype=dtype)
        begin = array.ctypes.data - self._tensor.data_ptr()
        flat = self._tensor[begin:begin + array.nbytes]
        return flat.view(dtype).reshape(array.shape)


def _chunk_tensors(chunk: ShardChunk,
                   buffer: TensorBuffer) -> dict[str, torch.Tensor]:
    plan = chunk.plan
    tensors = {}
    for name, array in chunk.tensors.items():
        tensor = buffer.tensor(array, chunk.dtypes[name])
        if name in _INT64 and tensor.dtype in _INTEGERS:
            tensor = tensor.to(torch.int64)
        tensors[name] = tensor
    tensors["index"] = torch.from_numpy(plan.index())
    # Of slots: they locate tokens, and are what TransformerEngine wants.
    tensors["cu_seqlens"] = torch.from_numpy(plan.cu_seqlens_padded.copy())
    tensors["max_seqlen"] = torch.tensor(plan.max_seqlen_padded,
                                         dtype=torch.int32)
    return tensors


def _stack(step: Step, parts: list[dict[str, torch.Tensor]]
          ) -> dict[str, torch.Tensor]:
    rows = [chunk.plan.num_tokens for chunk in step.chunks]
    if len(set(rows)) > 1:
        raise UsageError(
            f"step {step.step}: chunks have {rows} local rows; must be equal "
            "to be stacked; read such sessions with ShardReader",
            code="FAILED_PRECONDITION")
    stacked = {}
    for name in parts[0]:
        values = [part[name] for part in parts]
        if name == "cu_seqlens":
            width = max(len(value) for value in values)
            values = [torch.nn.functional.pad(value, (0, width - len(value)),
                                              value=_FILLER)
                      for value in values]
        stacked[name] = torch.stack(values)
    return stacked


def make_batch(step: Step, buffer: TensorBuffer) -> dict[str, Any]:
    """The dict of one step: what upstream's make_cp_batch_for_te gives a rank,
    at every cp_size, and more.

    input_ids, labels, position_ids   int64 [n] of this rank's rows (positions
                                      of n_rope components: [n_rope, n])
    padding_mask                      bool [n], True = pad, from the layout
    cu_seqlens                        int32 [N + 1] of slots, of all ranks
    max_seqlen                        int32, widest slot
    qkv_format, cp_size, cp_rank      "thd" and ints
    further token tensors             in their own dtype
    index                             int64 [n], places in the chunk's stream
    num_label_tokens                  int over all ranks and chunks: what the
                                      loss is divided by
    plan                              cpfeed.ShardPlan

    With C > 1 chunks tensors have a first axis [C], `cu_seqlens` is filled up
    with -1000, and `plan` is a list.
    """
    parts = [_chunk_tensors(chunk, buffer) for chunk in step.chunks]
    plans = [chunk.plan for chunk in step.chunks]
    batch: dict[str, Any] = dict(parts[0] if len(parts) == 1 else
                                 _stack(step, parts))
    batch["qkv_format"] = "thd"
    batch["cp_size"] = plans[0].cp_size
    batch["cp_rank"] = plans[0].cp_rank
    batch["num_label_tokens"] = step.num_label_tokens
    batch["plan"] = plans[0] if len(plans) == 1 else plans
    return batch


def to_device(batch: dict[str, Any],
              device: torch.device | None) -> dict[str, Any]:
    """Tensors moved without waiting, where their memory is pinned."""
    if device is None:
        return batch
    return {name: value.to(device, non_blocking=True)
            if dtypes.is_tensor(value) else value
            for name, value in batch.items()}
