"""Labels that are shifted: what stands at a token is the token to predict.

The service never shifts. Hugging Face's collators give labels that are equal to
the ids, since its models shift inside; these functions turn one into the other.
"""

from collections.abc import Sequence

import numpy as np

IGNORE = -100


def slots_of_rows(rows: int, width: int, real: Sequence[Sequence[int]],
                  slots: Sequence[Sequence[int]]) -> np.ndarray:
    """For each of [rows, width] positions the number of its sequence in the
    row, -1 for padding.

    Negative lengths are filler, as in rectangular arrays.
    """
    owner = np.full((rows, width), -1, np.int64)
    for row in range(rows):
        begin = 0
        lengths = (n for n in slots[row] if n >= 0)
        reals = (n for n in real[row] if n >= 0)
        for number, (length, slot) in enumerate(zip(reals, lengths)):
            owner[row, begin:begin + length] = number
            begin += slot
    return owner


def shift(labels: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Labels [B, S] moved one to the left, each within its sequence.

    Args:
      labels: the token's own id, or IGNORE.
      owner: for each position the number of its sequence, -1 for padding.

    Returns:
      Labels; the last position of a sequence and padding have IGNORE.
    """
    shifted = np.full_like(labels, IGNORE)
    same = (owner[:, 1:] == owner[:, :-1]) & (owner[:, 1:] >= 0)
    np.copyto(shifted[:, :-1], labels[:, 1:], where=same)
    return shifted


def look_unshifted(ids: np.ndarray, labels: np.ndarray) -> bool:
    """Whether labels are the ids themselves, where there are labels."""
    if ids.shape != labels.shape:
        return False
    chosen = labels != IGNORE
    values = labels[chosen]
    return (values.size > 1 and bool((values != values[0]).any()) and
            bool((values == ids[chosen]).all()))
