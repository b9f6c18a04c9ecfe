"""A toy language model, packs to train it on, and sharding inside the rank."""

import torch

VOCABULARY = 64


class Packs(torch.utils.data.Dataset):
    """Batches of two packed rows; the slots divide by four, for two ranks."""

    def __init__(self, count=6, width=32):
        self._count = count
        self._width = width

    def __len__(self):
        return self._count

    def __getitem__(self, number):
        if number >= self._count:
            raise IndexError
        generator = torch.Generator().manual_seed(number)
        ids = torch.randint(1, VOCABULARY, (2, self._width),
                            generator=generator)
        real = torch.tensor([[13, self._width - 18], [self._width - 3, -1000]])
        slots = torch.tensor([[16, self._width - 16], [self._width, -1000]])
        labels = ids.roll(-1, 1)
        for row in range(2):
            begin = 0
            for length, slot in zip(real[row].tolist(), slots[row].tolist()):
                if length > 0:
                    labels[row, begin + length - 1:begin + slot] = -100
                    begin += slot
        positions = torch.arange(self._width).expand(2, -1)
        return {"input_ids": ids, "labels": labels, "position_ids": positions,
                "seq_lens": real, "seq_lens_padded": slots,
                "qkv_format": "thd"}


class ToyModel(torch.nn.Module):
    """Guesses the next token from the token and its position."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.tokens = torch.nn.Embedding(VOCABULARY, 16)
        self.positions = torch.nn.Embedding(64, 16)
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32),
                                          torch.nn.GELU(),
                                          torch.nn.Linear(32, VOCABULARY))

    def forward(self, input_ids, position_ids):
        return self.layers(self.tokens(input_ids) +
                           self.positions(position_ids))


def shard_in_rank(batch, cp_size, cp_rank):
    """Chunks r and 2 * cp_size - 1 - r of each slot, as each rank of today's
    frameworks cuts them out of the whole batch for itself."""
    slots = batch["seq_lens_padded"].flatten()
    index, begin = [], 0
    for slot in slots[slots != -1000].tolist():
        places = torch.arange(begin, begin + slot).chunk(2 * cp_size)
        index += [places[cp_rank], places[2 * cp_size - 1 - cp_rank]]
        begin += slot
    index = torch.cat(index)
    return {key: batch[key].flatten()[index]
            for key in ("input_ids", "labels", "position_ids")}
