"""Runs the service beside the sharding that a training loop has."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from cpfeed.errors import ChecksumMismatch

# What the service adds.
_OURS = ("plan", "index", "num_label_tokens")


@dataclasses.dataclass(frozen=True)
class ShadowDifference:
    """The first difference between two batches.

    Attributes:
      step: counted from 0.
      key: of the batch.
      what: both sides, for people.
      place: index of the first element that differs; None where the tensors
        cannot be compared.
    """

    step: int
    key: str
    what: str
    place: tuple[int, ...] | None = None

    def __str__(self) -> str:
        where = "" if self.place is None else f"{list(self.place)}"
        return f"step {self.step}: {self.key}{where}: {self.what}"


def _compare(step: int, key: str, existing: Any,
             ours: Any) -> ShadowDifference | None:
    if not isinstance(existing, torch.Tensor):
        if isinstance(ours, torch.Tensor):
            ours = ours.tolist()
        if existing == ours:
            return None
        return ShadowDifference(step, key, f"existing is {existing!r}, ours is "
                                f"{ours!r}")
    ours = torch.as_tensor(ours)
    for what in ("shape", "dtype"):
        sides = getattr(existing, what), getattr(ours, what)
        if sides[0] != sides[1]:
            return ShadowDifference(
                step, key, "existing has {} {}, ours has {}".format(
                    what, *(list(side) if what == "shape" else side
                            for side in sides)))
    existing, ours = existing.detach().cpu(), ours.detach().cpu()
    differs = existing != ours
    if existing.is_floating_point():
        differs &= ~(existing.isnan() & ours.isnan())
    if not differs.any():
        return None
    place = tuple(differs.nonzero()[0].tolist())
    return ShadowDifference(
        step, key, f"existing is {existing[place].item()}, ours is "
        f"{ours[place].item()}; {int(differs.sum())} of {differs.numel()} "
        "differ", place)


def compare_batches(step: int, existing: Mapping[str, Any],
                    ours: Mapping[str, Any],
                    keys: Sequence[str] | None = None
                   ) -> ShadowDifference | None:
    """The first difference, or None.

    Compares `keys`, or those of `existing`; what the service adds is left out.
    """
    for key in keys if keys is not None else existing:
        if key in _OURS:
            continue
        for side, batch in (("existing", existing), ("ours", ours)):
            if key not in batch:
                return ShadowDifference(step, key, f"{side} has none")
        found = _compare(step, key, existing[key], ours[key])
        if found is not None:
            return found
    return None


def shadow(existing: Iterable[Mapping[str, Any]],
           ours: Iterable[Mapping[str, Any]], *, steps: int = 100,
           keys: Sequence[str] | None = None,
           on_difference: Callable[[ShadowDifference], None] | None = None,
           on_equal: Callable[[int], None] | None = None
          ) -> Iterator[Mapping[str, Any]]:
    """Yields the existing batches, unchanged, and compares the first `steps`.

        for batch in cpfeed.torch.shadow(sharded_in_rank, dataset, steps=100):
            train(batch)

    Args:
      existing: batches as the rank shards them today.
      ours: a ShardDataset that is fed the same data; left alone afterwards.
      steps: how many are compared.
      keys: those compared; None means all of `existing`.
      on_difference: told of the first difference, after which nothing is
        compared; None raises.
      on_equal: told how many steps were equal, when all are.

    Raises:
      ChecksumMismatch: at the first difference, if there is no on_difference.
    """
    mine = iter(ours)
    equal = 0
    comparing = steps > 0
    for step, batch in enumerate(existing):
        if comparing:
            other = next(mine, None)
            found = (ShadowDifference(step, "", "ours has ended")
                     if other is None else
                     compare_batches(step, batch, other, keys))
            equal += found is None
            comparing = found is None and equal < steps
            if found is not None:
                if on_difference is None:
                    raise ChecksumMismatch(str(found), code="DATA_LOSS",
                                           reason="SHADOW_DIFFERENCE")
                on_difference(found)
            elif not comparing and on_equal is not None:
                on_equal(equal)
        yield batch
    if comparing and on_equal is not None:
        on_equal(equal)
