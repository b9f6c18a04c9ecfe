"""The rank side for training loops in PyTorch."""

from cpfeed.torch.dataset import ShardDataset, check_plans
from cpfeed.torch.launch import Launched, launch
from cpfeed.torch.shadow import ShadowDifference, compare_batches, shadow

__all__ = ["Launched", "ShadowDifference", "ShardDataset", "check_plans",
           "compare_batches", "launch", "shadow"]
