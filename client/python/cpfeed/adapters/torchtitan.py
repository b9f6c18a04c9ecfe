"""torchtitan: rows that are sharded as PyTorch's context_parallel would."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from cpfeed.adapters.checks import plan_of
from cpfeed.errors import UsageError

_LAYOUT = "HEAD_TAIL_PER_ROW"
_TAKEN = {"input_ids", "labels", "position_ids", "padding_mask", "index",
          "cu_seqlens", "max_seqlen"}


def to_torchtitan(
        batch: Mapping[str, Any]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """(input_dict, labels) for a batch of a ShardDataset.

    `input` and `positions` int64 [B, S / cp_size], further token tensors
    likewise; `labels` int64 [B, S / cp_size]. Chunks r and 2 * cp_size - 1 - r
    of each row, as PyTorch's head-tail balancer deals them: the buffers must
    not be sharded again.

    Raises:
      UsageError: the session has another layout.
    """
    plan = plan_of(batch)
    if plan.layout != _LAYOUT:
        raise UsageError(f"session has layout {plan.layout}; must be {_LAYOUT}",
                         code="FAILED_PRECONDITION")
    rows = len(plan.sequences_per_row)

    def row_wise(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.reshape(rows, -1, *tensor.shape[1:])

    inputs = {"input": row_wise(batch["input_ids"]),
              "positions": row_wise(batch["position_ids"])}
    for key, value in batch.items():
        if key not in _TAKEN and isinstance(value, torch.Tensor):
            inputs[key] = row_wise(value)
    return inputs, row_wise(batch["labels"])


class TitanBatches:
    """Iterates a ShardDataset as torchtitan's dataloader; keeps its state.

    torchtitan saves what has state_dict and load_state_dict under the key
    "dataloader".
    """

    def __init__(self, dataset: Iterable[Mapping[str, Any]]):
        self._dataset = dataset

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor],
                                         torch.Tensor]]:
        return map(to_torchtitan, self._dataset)

    def state_dict(self) -> dict[str, Any]:
        """The dataset's."""
        return self._dataset.state_dict()  # type: ignore[attr-defined]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The dataset's."""
        self._dataset.load_state_dict(state)  # type: ignore[attr-defined]
