"""The rank side for training loops in PyTorch."""

from cpfeed.torch.dataset import ShardDataset
from cpfeed.torch.launch import Launched, launch
from cpfeed.torch.shadow import ShadowDifference, compare_batches, shadow

__all__ = ["Launched", "ShadowDifference", "ShardDataset", "compare_batches",
           "launch", "shadow"]
