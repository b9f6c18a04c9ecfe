"""Batches as loaders have them, made ready for the wire.

A batch is a mapping: `input_ids` [B, S] and what belongs to it, as NumPy arrays,
torch tensors or lists, under the keys that NeMo AutoModel's collaters, Megatron
and Hugging Face tokenizers use.
"""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xxhash

from cpfeed import api, dtypes, frames
from cpfeed import labels as label_rules
from cpfeed.errors import BatchError

_LENGTHS = ("seq_lens", "seq_lens_padded")
_ORDER = ("input_ids", "labels", "position_ids", "attention_mask",
          "padding_mask")
# What collaters add that is no data.
_META = {"qkv_format", "___PAD_TOKEN_IDS___"}


class UnshiftedLabelsWarning(UserWarning):
    """Labels equal the ids; the service wants them shifted by one."""


@dataclasses.dataclass(frozen=True)
class BatchFormat:
    """How a loader's batches are read.

    Attributes:
      shift_labels: labels are not shifted yet (Hugging Face's collators).
      padding_token_id: fills ids where rows of lists have unequal lengths.
      seq_lens_padding_value: filler of rectangular lengths.
      sequence_axes: of extra tensors, the axis of the positions, where it is
        not 1.
      drop: keys that do not travel.
    """

    shift_labels: bool = False
    padding_token_id: int = 0
    seq_lens_padding_value: int = -1000
    sequence_axes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    drop: frozenset[str] = frozenset()


@dataclasses.dataclass
class EncodedBatch:
    """A header without its number, and the bytes behind it."""

    header: Any  # cpfeed.v1.BatchHeader
    pieces: list[memoryview]

    @property
    def nbytes(self) -> int:
        """Bytes of the payload."""
        return sum(piece.nbytes for piece in self.pieces)

    def messages(self, most: int) -> Iterator[bytes]:
        """The messages of the payload, of `most` bytes each."""
        offset = room = 0
        chunk: list[memoryview] = []
        for piece in self.pieces:
            at = 0
            while at < piece.nbytes:
                room = most - sum(part.nbytes for part in chunk)
                part = piece[at:at + room]
                chunk.append(part)
                at += part.nbytes
                if part.nbytes == room:
                    yield self._message(offset, chunk)
                    offset += most
                    chunk = []
        if chunk:
            yield self._message(offset, chunk)

    @staticmethod
    def _message(offset: int, chunk: list[memoryview]) -> bytes:
        request = api.PutBatchesRequest()
        request.chunk.offset = offset
        return frames.encode(request, chunk)


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _add(encoded: EncodedBatch, name: str, array: np.ndarray, dtype: str,
         axis: int = 0) -> None:
    piece = _bytes_of(array)
    encoded.header.tensors.add(
        name=name, dtype=dtypes.wire_number(dtype), shape=array.shape,
        checksum=xxhash.xxh3_64_intdigest(piece), sequence_axis=axis)
    if piece.nbytes:
        encoded.pieces.append(piece)


def _is_ragged(value: Any) -> bool:
    return (isinstance(value, (list, tuple)) and len(value) > 0 and
            isinstance(value[0], (list, tuple)))


def _pad_rows(rows: Sequence[Sequence[Any]], fill: int) -> np.ndarray:
    width = max(map(len, rows))
    padded = np.full((len(rows), width), fill, np.int64)
    for row, values in enumerate(rows):
        padded[row, :len(values)] = values
    return padded


def _fill_of(key: str, form: BatchFormat) -> int:
    return {"input_ids": form.padding_token_id, "labels": label_rules.IGNORE,
            "padding_mask": 1}.get(key, 0)


class _Reader:
    """One batch, its values turned into arrays."""

    def __init__(self, batch: Mapping[str, Any], form: BatchFormat):
        self.form = form
        self.arrays: dict[str, tuple[np.ndarray, str]] = {}
        self.lengths: dict[str, Any] = {}  # Arrays, or lists of lists.
        if "input_ids" not in batch:
            raise BatchError(f"batch has no input_ids; it has "
                             f"{', '.join(map(str, batch)) or 'no key'}",
                             reason="BATCH_MALFORMED")
        self._pad_ragged_ids(batch["input_ids"])
        for key, value in batch.items():
            self._take(key, value)
        if self.arrays["input_ids"][0].ndim == 1:
            self._add_row_axis()
        self._expand_positions()

    def _pad_ragged_ids(self, ids: Any) -> None:
        """Rows of lists may have unequal lengths, which are then the real
        ones."""
        if _is_ragged(ids) and len(set(map(len, ids))) > 1:
            self.lengths["seq_lens"] = [[len(row)] for row in ids]
            width = max(map(len, ids))
            self.lengths["seq_lens_padded"] = [[width] for _ in ids]

    def _take(self, key: str, value: Any) -> None:
        if key == "qkv_format" and value != "thd":
            raise BatchError(f"qkv_format is {value!r}; must be 'thd'",
                             reason="BATCH_MALFORMED")
        if value is None or key in _META or key in self.form.drop:
            return
        if key in _LENGTHS:
            self._take_lengths(key, value)
            return
        if _is_ragged(value) and len(set(map(len, value))) > 1:
            value = _pad_rows(value, _fill_of(key, self.form))
        if isinstance(value, (str, bytes, Mapping)) or np.ndim(value) == 0:
            raise BatchError(
                f"{key} is a {type(value).__name__}; must be an array, or be "
                "named in `drop`", reason="BATCH_MALFORMED")
        self.arrays[key] = dtypes.to_array(key, value)

    def _take_lengths(self, key: str, value: Any) -> None:
        if _is_ragged(value):
            self.lengths[key] = [list(map(int, row)) for row in value]
            return
        array = dtypes.to_array(key, value)[0]
        if array.ndim == 1:
            array = array[None]
        if array.dtype.kind not in "iu":
            raise BatchError(f"{key} is of {array.dtype.name}; must be of "
                             "integers", reason="BATCH_MALFORMED")
        self.lengths[key] = array

    def _add_row_axis(self) -> None:
        for key, (array, dtype) in self.arrays.items():
            self.arrays[key] = array[None], dtype

    def _expand_positions(self) -> None:
        """[1, S] stands for all rows."""
        rows = self.arrays["input_ids"][0].shape[0]
        if "position_ids" in self.arrays:
            array, dtype = self.arrays["position_ids"]
            if array.ndim == 2 and array.shape[0] == 1 < rows:
                self.arrays["position_ids"] = np.repeat(array, rows, 0), dtype

    def owners(self) -> np.ndarray:
        """For each position the number of its sequence, -1 for padding."""
        rows, width = self.arrays["input_ids"][0].shape[:2]
        if "seq_lens" in self.lengths:
            real = self.lengths["seq_lens"]
            return label_rules.slots_of_rows(
                rows, width, real, self.lengths.get("seq_lens_padded", real))
        owner = np.zeros((rows, width), np.int64)
        if "attention_mask" in self.arrays:
            owner[self.arrays["attention_mask"][0] == 0] = -1
        elif "padding_mask" in self.arrays:
            owner[self.arrays["padding_mask"][0] != 0] = -1
        return owner

    def fill_labels(self) -> None:
        """Labels of a batch without them, or with unshifted ones."""
        if "labels" in self.arrays and not self.form.shift_labels:
            return
        ids, dtype = self.arrays["input_ids"]
        if "labels" not in self.arrays and (ids.ndim != 2 or
                                            ids.dtype.kind not in "iu"):
            raise BatchError("batch has no labels, and input_ids are no token "
                             "ids to take them from", reason="BATCH_MALFORMED")
        own, dtype = self.arrays.get("labels", (ids, dtype))
        self.arrays["labels"] = label_rules.shift(own, self.owners()), dtype

    def warn_if_unshifted(self) -> None:
        """Warns where labels look like those of a Hugging Face collator."""
        labels = self.arrays["labels"][0]
        if label_rules.look_unshifted(self.arrays["input_ids"][0], labels):
            warnings.warn(
                "labels equal input_ids: the service does not shift, so each "
                "token would be asked for itself; give shift_labels=True, or "
                "shifted labels", UnshiftedLabelsWarning, stacklevel=4)


def _add_lengths(encoded: EncodedBatch, lengths: Mapping[str, Any]) -> None:
    counts: list[int] | None = None
    for key in _LENGTHS:
        if key not in lengths:
            continue
        value = lengths[key]
        if isinstance(value, np.ndarray):
            _add(encoded, key, value, value.dtype.name)
            continue
        own = [len(row) for row in value]
        if own != counts:
            name = ("sequences_per_row" if key == "seq_lens" else
                    "sequences_per_row_padded")
            _add(encoded, name, np.array(own, np.int64), "int64")
        counts = own if key == "seq_lens" else counts
        flat = [length for row in value for length in row]
        _add(encoded, key, np.array(flat, np.int64), "int64")


def encode_batch(batch: Mapping[str, Any], form: BatchFormat = BatchFormat(), *,
                 batch_id: str = "", producer_state: bytes = b"",
                 data_epoch: int = 0,
                 check_labels: bool = False) -> EncodedBatch:
    """Makes a batch ready; copies only what is not contiguous already.

    Accepted as they are: the output of AutoModel's
    `packed_sequence_thd_collater` (`qkv_format` is dropped), that of Hugging
    Face tokenizers (rows of unequal lengths are padded; without labels the next
    token of the sequence is the label), [S] in place of [1, S].

    Raises:
      BatchError: a value cannot travel; the message names its key.
    """
    if not isinstance(batch, Mapping):
        raise BatchError(f"batch is a {type(batch).__name__}; must be a mapping",
                         reason="BATCH_MALFORMED")
    read = _Reader(batch, form)
    read.fill_labels()
    if check_labels:
        read.warn_if_unshifted()
    encoded = EncodedBatch(
        api.BatchHeader(batch_id=batch_id, data_epoch=data_epoch,
                        producer_state_bytes=len(producer_state)),
        [memoryview(producer_state)] if producer_state else [])
    _add_lengths(encoded, read.lengths)
    extras = [key for key in read.arrays if key not in _ORDER]
    for key in (*_ORDER, *extras):
        if key in read.arrays:
            axis = form.sequence_axes.get(key, 0)
            _add(encoded, key, *read.arrays[key], axis)
    return encoded
