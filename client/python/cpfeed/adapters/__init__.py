"""The dict of a ShardDataset, as training frameworks want it."""
