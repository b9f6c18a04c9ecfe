"""Megatron Core: what get_batch returns, and the fields of PackedSeqParams."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from cpfeed.adapters.checks import check_ranks, plan_of

_IGNORE = -100


def packed_seq_params(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of PackedSeqParams: PackedSeqParams(**packed_seq_params(b)).

    Both kinds of lengths are global, as attention wants them: cu_seqlens_q of
    real tokens int32 [N + 1], cu_seqlens_q_padded of slots, which locate
    tokens; max_seqlen_q is the widest slot, since attention divides it by
    cp_size.
    """
    plan = plan_of(batch)
    device = batch["input_ids"].device
    real = torch.from_numpy(plan.cu_seqlens.copy()).to(device)
    slots = batch["cu_seqlens"]
    return {
        "qkv_format": "thd",
        "cu_seqlens_q": real,
        "cu_seqlens_kv": real,
        "cu_seqlens_q_padded": slots,
        "cu_seqlens_kv_padded": slots,
        "max_seqlen_q": plan.max_seqlen_padded,
        "max_seqlen_kv": plan.max_seqlen_padded,
    }


def to_megatron(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of Megatron's get_batch, for a batch of a ShardDataset.

    tokens, labels, position_ids   int64 [1, n]
    loss_mask                      float32 [1, n]: 0 where there is no label,
                                   else the batch's own loss_mask, or 1
    attention_mask                 None: packed_seq_params says it
    packed_seq_params              fields, see packed_seq_params()
    num_label_tokens               int, over all ranks: divide the summed loss
                                   by it, not by this rank's own count

    Labels that are ignored are 0 here, as Megatron's loss reads every label.
    """
    labels = batch["labels"]
    labelled = labels != _IGNORE
    mask = batch.get("loss_mask", torch.ones_like(labels)).float()
    return {
        "tokens": batch["input_ids"][None],
        "labels": labels.where(labelled, 0)[None],
        "loss_mask": mask.where(labelled, 0.0)[None],
        "attention_mask": None,
        "position_ids": batch["position_ids"][None],
        "packed_seq_params": packed_seq_params(batch),
        "num_label_tokens": batch["num_label_tokens"],
    }


def get_batch(data_iterator: Iterator[Mapping[str, Any]], cp_size: int = 0,
              cp_rank: int = 0) -> dict[str, Any]:
    """In place of get_batch: the next batch, already this rank's.

    Args:
      data_iterator: over a ShardDataset.
      cp_size: of Megatron's parallel state; checked unless it is 0.
      cp_rank: likewise.

    Raises:
      StopIteration: the data has ended.
      TopologyMismatch: the batch is for other ranks.
    """
    batch = next(data_iterator)
    if cp_size:
        check_ranks(batch, cp_size, cp_rank)
    return to_megatron(batch)
