"""Plans, sharding and attention of the C++ core for torch's autograd.

They are a wheel of their own, cpfeed-torch-ops, tied to one version of torch.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from cpfeed.errors import ChecksumMismatch, UsageError
from cpfeed.shards import ShardPlan
from cpfeed.version import __version__

_ERROR = re.compile(r"\[([A-Z_]+) (\w*)\] (.*)", re.S)


def _load() -> None:
    try:
        import cpfeed_torch_ops as wheel
    except ImportError as error:
        raise ImportError(
            "cpfeed.torch.ops needs the wheel cpfeed-torch-ops "
            f"{__version__}, built for torch {torch.__version__}: in a clone "
            "of cpfeed run client/torch_ops/make_wheel and pip install what "
            "it makes") from error
    built_for = (wheel.VERSION, wheel.TORCH_VERSION)
    here = (__version__, torch.__version__.split("+")[0])
    if built_for != here:
        raise ImportError(
            "cpfeed-torch-ops is built for cpfeed {} and torch {}; here are "
            "cpfeed {} and torch {}; both must be equal: build the wheel "
            "anew with client/torch_ops/make_wheel".format(*built_for, *here))
    torch.ops.load_library(wheel.LIBRARY)


_load()

# torch.classes.cpfeed.ShardPlan and torch.classes.cpfeed.Group.
Plan = Any
Group = Any


def call(op: Callable[..., Any], *arguments: Any) -> Any:
    """Turns what the core throws into this package's error."""
    try:
        return op(*arguments)
    except RuntimeError as error:
        found = _ERROR.match(str(error))
        if found is None:
            raise
        code, reason, message = found.groups()
        raise UsageError(message, code=code, reason=reason) from None


def plan_shards(seq_lens: Sequence[Sequence[int]],
                seq_lens_padded: Sequence[Sequence[int]] | None = None, *,
                cp_size: int, layout: str = "HEAD_TAIL_PER_SEQUENCE",
                uneven: bool = False, stripe_width: int = 1,
                chunk_size: int = 128, keep_padding: bool = False,
                token_multiple: int = 1) -> Plan:
    """Which tokens of a packed stream each rank holds.

    Args:
      seq_lens: real lengths of the sequences of each row.
      seq_lens_padded: lengths of their slots; None: the real ones.
      cp_size: ranks.
      layout: as in the README's table; what follows are its parameters.

    Returns:
      A plan with cp_size(), layout(), digest(), num_tokens(cp_rank) and
      index(cp_rank), int64, -1 for rows that token_multiple adds.

    Raises:
      UsageError: the lengths are none, or do not fit the layout.
    """
    padded = seq_lens if seq_lens_padded is None else seq_lens_padded
    if [len(row) for row in seq_lens] != [len(row) for row in padded]:
        raise UsageError("seq_lens and seq_lens_padded have other counts",
                         reason="LENGTHS_INCONSISTENT")
    splits = [0]
    for row in seq_lens:
        splits.append(splits[-1] + len(row))
    flat = [[int(length) for row in rows for length in row]
            for rows in (seq_lens, padded)]
    return call(torch.ops.cpfeed.plan_shards, *flat, splits, layout, cp_size,
                 uneven, stripe_width, chunk_size, keep_padding,
                 token_multiple)


def plan_of(plan: ShardPlan) -> Plan:
    """The plan of a batch (`batch["plan"]`), made here from its lengths.

    Raises:
      ChecksumMismatch: it is another one than the server's: objective, mask
        or costs of the session are not the defaults.
    """
    def rows(cu_seqlens: np.ndarray) -> list[list[int]]:
        ends = np.cumsum(plan.sequences_per_row)[:-1]
        return [row.tolist() for row in np.split(np.diff(cu_seqlens), ends)]

    spec = plan.sharding
    ours = plan_shards(rows(plan.cu_seqlens), rows(plan.cu_seqlens_padded),
                       cp_size=plan.cp_size, layout=plan.layout,
                       uneven=spec.uneven, stripe_width=spec.stripe_width or 1,
                       chunk_size=spec.chunk_size or 128,
                       keep_padding=spec.keep_padding,
                       token_multiple=spec.token_multiple or 1)
    digest = ours.digest() % (1 << 64)
    if digest != plan.digest:
        raise ChecksumMismatch(
            f"plan digest is {digest:x}; the batch has {plan.digest:x}",
            code="DATA_LOSS", reason="PLAN_MISMATCH")
    return ours


def cp_group(group: dist.ProcessGroup | None = None,
             device: torch.device | str = "cpu") -> Group:
    """The ranks of a process group, for attention of tensors on `device`.

    Keep it for the whole job. None is this process alone.
    """
    if group is None:
        return torch.ops.cpfeed.local_group()
    return torch.ops.cpfeed.group(group.boxed(), group.group_name,
                                  torch.device(device))


def check_plan(plan: Plan, group: Group) -> None:
    """Compares the plan's digest over the ranks; all of them call it.

    Raises:
      UsageError: on all ranks, where two differ (PLAN_MISMATCH).
    """
    call(torch.ops.cpfeed.check_plan, plan, group)


def shard_by_plan(whole: torch.Tensor, plan: Plan, cp_rank: int, *,
                  dim: int = 0, fill: float = 0) -> torch.Tensor:
    """The rank's rows of a stream that has the plan's slots on axis `dim`.

    Differentiable. `fill` stands in rows that token_multiple adds.
    """
    return call(torch.ops.cpfeed.shard_by_plan, whole, plan, cp_rank, dim,
                 fill)


def cp_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: Plan,
                 group: Group, *, exchange: str = "planned",
                 inner_size: int = 2, window: tuple[int, int] = (-1, 0),
                 scale: float | None = None
                ) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of this rank's rows over the documents they belong to.

    All ranks of the group call it, and run their backward passes, in the same
    order.

    Args:
      q: [rows, heads, head_dim].
      k: [rows, kv_heads, head_dim]; kv_heads divides heads.
      v: [rows, kv_heads, value_dim].
      plan: of plan_shards.
      group: of cp_group.
      exchange: "planned", "allgather", "ring", "alltoall" or "hierarchical".
      inner_size: of hierarchical.
      window: keys that a query sees before and behind its own position, -1
        is unbounded: (-1, 0) is the causal mask, (-1, -1) the full one.
      scale: head_dim ** -0.5 where it is None.

    Returns:
      out [rows, heads, value_dim], differentiable, and lse [rows, heads].
      Rows of padding have out 0 and lse -inf.

    Raises:
      UsageError: shapes that do not fit, or what the exchange cannot do.
    """
    return call(torch.ops.cpfeed.cp_attention, q, k, v, plan, group, exchange,
                 inner_size, window[0], window[1], scale)
