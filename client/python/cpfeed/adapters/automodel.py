"""NeMo AutoModel: the functions of cp_utils, over batches that are sharded."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from cpfeed.adapters.checks import check_ranks
from cpfeed.errors import UsageError

# What upstream's dict does not have.
_OURS = ("index", "num_label_tokens", "plan")


def _size_and_rank(cp_mesh: Any) -> tuple[int, int]:
    if cp_mesh is None or cp_mesh.size() <= 1:
        return 1, 0
    return cp_mesh.size(), cp_mesh.get_local_rank()


def make_cp_batch_for_te(cp_mesh: Any, batch: Mapping[str, Any],
                         qkv_format: str = "thd", padding_token_id: int = 0,
                         num_chunks: int = 1,
                         seq_lens_padding_value: int = -1000) -> dict[str, Any]:
    """What upstream's function of that name returns, for a batch of a
    ShardDataset: nothing is left to do but to check that it fits the mesh.

    Args:
      cp_mesh: torch's DeviceMesh of the context-parallel ranks, or None.
      batch: of a ShardDataset.
      qkv_format: "thd".
      padding_token_id: the session's, which filled; not used here.
      num_chunks: must be the session's.
      seq_lens_padding_value: likewise not used here.

    Raises:
      ValueError: another qkv_format, as upstream.
      UsageError: the batch is not sharded, or has other chunks.
      TopologyMismatch: it is for other ranks.
    """
    del padding_token_id, seq_lens_padding_value
    if qkv_format != "thd":
        raise ValueError("Currently only 'thd' format is supported, got: "
                         f"{qkv_format}")
    plan = batch.get("plan")
    if plan is None:
        raise UsageError("batch has no plan; must be one of a ShardDataset",
                         code="FAILED_PRECONDITION")
    chunks = len(plan) if isinstance(plan, list) else 1
    if chunks != max(num_chunks, 1):
        raise UsageError(f"batch has {chunks} chunks; num_chunks is "
                         f"{num_chunks}", code="FAILED_PRECONDITION")
    check_ranks(batch, *_size_and_rank(cp_mesh))
    return {key: value for key, value in batch.items() if key not in _OURS}


def make_cp_batch_and_ctx(
        device_mesh: Any, batch: Mapping[str, Any], loss_mask: Any = None,
        use_te: bool = True, padding_token_id: int = 0, num_chunks: int = 1,
        seq_lens_padding_value: int = -1000
) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Upstream's entry for training recipes: a context that does nothing, and
    the batch.

    Raises:
      UsageError: `use_te` is off, for which batches are not made; or
        `loss_mask` is given beside the batch: it must travel in it.
    """
    if not use_te:
        raise UsageError("use_te is off; sharded batches are in THD layout, "
                         "for TransformerEngine", reason="BAD_OPTION")
    if loss_mask is not None:
        raise UsageError("loss_mask is given beside the batch; must be in it "
                         "when it is fed, to be sharded", reason="BAD_OPTION")
    names = getattr(device_mesh, "mesh_dim_names", None) or ()
    cp_mesh = device_mesh["cp"] if "cp" in names else None
    return contextlib.nullcontext, make_cp_batch_for_te(
        cp_mesh, batch, "thd", padding_token_id, num_chunks,
        seq_lens_padding_value)
