"""What loaders have becomes what the service takes."""

import unittest
import warnings

import numpy as np
import torch

import cpfeed
from cpfeed import dtypes

IGNORE = -100


def decode(encoded):
    """The tensors of an encoded batch, read as a server would."""
    data = b"".join(encoded.pieces)
    at = encoded.header.producer_state_bytes
    tensors = {}
    for spec in encoded.header.tensors:
        dtype = dtypes.numpy_type(dtypes.name_of(spec.dtype))
        size = int(np.prod(spec.shape)) * dtype.itemsize
        tensors[spec.name] = np.frombuffer(data[at:at + size], dtype).reshape(
            tuple(spec.shape))
        at += size
    assert at == len(data)
    return tensors


def encode(batch, **form):
    return decode(cpfeed.encode_batch(batch, cpfeed.BatchFormat(**form)))


class EncodeBatchTest(unittest.TestCase):

    def assert_tensors(self, tensors, **expected):
        self.assertEqual(set(tensors), set(expected))
        for name, values in expected.items():
            np.testing.assert_array_equal(tensors[name], values, name)

    def test_output_of_the_packed_collater(self):
        # Two rows of six; the second has one sequence and a sentinel.
        batch = {
            "input_ids": torch.arange(12).reshape(2, 6),
            "labels": torch.arange(1, 13).reshape(2, 6),
            "position_ids": torch.tensor([[0, 1, 2, 3, 0, 1], range(6)]),
            "seq_lens": torch.tensor([[3, 2], [6, -1000]]),
            "seq_lens_padded": torch.tensor([[4, 2], [6, -1000]]),
            "qkv_format": "thd"}
        tensors = encode(batch)
        self.assert_tensors(tensors, **{
            key: value.numpy() for key, value in batch.items()
            if key != "qkv_format"})
        self.assertEqual(list(tensors)[:2], ["seq_lens", "seq_lens_padded"])

    def test_output_of_a_tokenizer(self):
        tensors = encode({"input_ids": [[5, 6, 7], [8]],
                          "token_type_ids": [[0, 0, 1], [1]],
                          "attention_mask": [[1, 1, 1], [1]]},
                         padding_token_id=9)
        self.assert_tensors(
            tensors, input_ids=[[5, 6, 7], [8, 9, 9]],
            labels=[[6, 7, IGNORE], [IGNORE] * 3],
            token_type_ids=[[0, 0, 1], [1, 0, 0]],
            attention_mask=[[1, 1, 1], [1, 0, 0]], sequences_per_row=[1, 1],
            seq_lens=[3, 1], seq_lens_padded=[3, 3])

    def test_real_tokenizer_output(self):
        from tokenizers import Tokenizer, models, pre_tokenizers
        tokenizer = Tokenizer(models.WordLevel({"a": 1, "b": 2, "?": 0}, "?"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.enable_padding(pad_id=7)
        encodings = tokenizer.encode_batch(["a b a", "b"])
        tensors = encode({"input_ids": [e.ids for e in encodings],
                          "attention_mask": [e.attention_mask
                                             for e in encodings]})
        self.assert_tensors(tensors, input_ids=[[1, 2, 1], [2, 7, 7]],
                            labels=[[2, 1, IGNORE], [IGNORE] * 3],
                            attention_mask=[[1, 1, 1], [1, 0, 0]])

    def test_labels_are_shifted_within_sequences(self):
        ids = np.array([[1, 2, 3, 0, 4, 5, 6, 7]])
        lengths = {"seq_lens": [[3, 4]], "seq_lens_padded": [[4, 4]]}
        shifted = [[2, 3, IGNORE, IGNORE, 5, 6, 7, IGNORE]]
        tensors = encode({"input_ids": ids, **lengths})
        np.testing.assert_array_equal(tensors["labels"], shifted)
        labels = np.where(ids == 2, IGNORE, ids)
        tensors = encode({"input_ids": ids, "labels": labels, **lengths},
                         shift_labels=True)
        shifted[0][0] = IGNORE
        np.testing.assert_array_equal(tensors["labels"], shifted)

    def test_given_labels_are_never_changed(self):
        ids = np.arange(8).reshape(2, 4)
        labels = ids[::-1].copy()
        tensors = encode({"input_ids": ids, "labels": labels})
        np.testing.assert_array_equal(tensors["labels"], labels)

    def test_warns_of_labels_that_are_the_ids(self):
        ids = np.arange(8).reshape(2, 4)
        for labels, warned in ((ids, 1), (np.where(ids < 3, IGNORE, ids), 1),
                               (ids + 1, 0), (np.full_like(ids, IGNORE), 0)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                cpfeed.encode_batch({"input_ids": ids, "labels": labels},
                                    check_labels=True)
            self.assertEqual(len(caught), warned, labels)

    def test_one_row_needs_no_row_axis(self):
        tensors = encode({"input_ids": np.arange(4), "labels": np.arange(4),
                          "seq_lens": np.array([1, 3])})
        self.assert_tensors(tensors, input_ids=[range(4)], labels=[range(4)],
                            seq_lens=[[1, 3]])

    def test_positions_of_one_row_stand_for_all(self):
        ids = np.arange(8).reshape(2, 4)
        tensors = encode({"input_ids": ids, "labels": ids,
                          "position_ids": np.arange(4)[None]})
        np.testing.assert_array_equal(tensors["position_ids"], [range(4)] * 2)

    def test_unequal_counts_travel_for_the_server_to_tell(self):
        ids = np.arange(8).reshape(2, 4)
        tensors = encode({"input_ids": ids, "labels": ids,
                          "seq_lens": [[4], [2, 2]],
                          "seq_lens_padded": [[2, 2], [4]]})
        np.testing.assert_array_equal(tensors["sequences_per_row"], [1, 2])
        np.testing.assert_array_equal(tensors["sequences_per_row_padded"],
                                      [2, 1])

    def test_contiguous_arrays_are_not_copied(self):
        ids = np.arange(1024).reshape(1, 1024)
        encoded = cpfeed.encode_batch({"input_ids": ids, "labels": ids})
        for piece in encoded.pieces:
            self.assertTrue(np.shares_memory(np.frombuffer(piece, np.uint8),
                                             ids))

    def test_wrong_batches_are_refused_by_key(self):
        ids = np.arange(8).reshape(2, 4)
        for batch, expected in (
            ([1], "batch is a list; must be a mapping"),
            ({"labels": ids}, "batch has no input_ids; it has labels"),
            ({"input_ids": ids, "qkv_format": "bshd"},
             "qkv_format is 'bshd'; must be 'thd'"),
            ({"input_ids": ids, "source": "web"},
             "source is a str; must be an array, or be named in `drop`"),
            ({"input_ids": ids, "labels": ids.astype(np.complex64)},
             "labels is of complex64"),
            ({"input_ids": ids, "labels": torch.ones(2, 4, dtype=torch.uint16)},
             "labels is of uint16"),
            ({"input_ids": ids.astype(float)}, "are no token ids"),
            ({"input_ids": ids, "labels": ids, "seq_lens": np.ones((2, 1))},
             "seq_lens is of float64; must be of integers"),
        ):
            with self.assertRaisesRegex(cpfeed.BatchError, expected) as caught:
                encode(batch)
            self.assertEqual(caught.exception.reason, "BATCH_MALFORMED")

    def test_dropped_keys_do_not_travel(self):
        ids = np.arange(4)[None]
        self.assert_tensors(
            encode({"input_ids": ids, "labels": ids, "source": "web",
                    "loss_mask": None}, drop=frozenset({"source"})),
            input_ids=ids, labels=ids)


class MessagesTest(unittest.TestCase):

    def test_payload_is_cut_without_gaps(self):
        ids = np.arange(100, dtype=np.int32)[None]
        encoded = cpfeed.encode_batch({"input_ids": ids, "labels": -ids},
                                      producer_state=b"state")
        whole = b"".join(encoded.pieces)
        from cpfeed import api, frames
        for most in (1, 7, 400, 405, 805, 10_000):
            at = 0
            for message in encoded.messages(most):
                request, payload = frames.decode(message, api.PutBatchesRequest)
                self.assertEqual(request.chunk.offset, at)
                self.assertLessEqual(len(payload), most)
                self.assertEqual(payload, whole[at:at + len(payload)])
                at += len(payload)
            self.assertEqual(at, len(whole))


if __name__ == "__main__":
    unittest.main()
