"""What adapters ask of a batch before they pass it on."""

from collections.abc import Mapping
from typing import Any

from cpfeed.errors import TopologyMismatch, UsageError
from cpfeed.shards import ShardPlan


def plan_of(batch: Mapping[str, Any]) -> ShardPlan:
    """The plan of a batch of one chunk.

    Raises:
      UsageError: the batch is not one of a ShardDataset, or has several.
    """
    plan = batch.get("plan")
    if isinstance(plan, ShardPlan):
        return plan
    raise UsageError(
        "batch has no plan; must be one of a ShardDataset" if plan is None else
        f"batch has {len(plan)} chunks; must have one: give a session with "
        "num_chunks=1 for each micro-batch", code="FAILED_PRECONDITION")


def check_ranks(batch: Mapping[str, Any], cp_size: int, cp_rank: int) -> None:
    """Raises TopologyMismatch where batch and mesh disagree."""
    for name, found, wanted in (("cp_size", batch["cp_size"], cp_size),
                                ("cp_rank", batch["cp_rank"], cp_rank)):
        if found != wanted:
            raise TopologyMismatch(
                f"batch is for {name} {found}; the mesh has {wanted}",
                code="FAILED_PRECONDITION", reason="TOPOLOGY_MISMATCH")
