"""launch(): server, feeders and ranks out of the training script."""

import dataclasses
import gc
import os
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing

import cpfeed
from cpfeed.torch import check_plans, launch
from tests.client.python.serving import batch_of

FLAGS = ("--drain_budget=1s",)


def first_ids(batches):
    return [int(batch["input_ids"][0]) for batch in batches]


def run_rank(rank, store):
    """What each of two processes does; raises where something is wrong."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank,
                            world_size=2)
    groups_end_together(rank)
    job_goes_back(rank)
    no_binary_is_an_error_everywhere()
    dist.destroy_process_group()
    # A cycle may still hold the group, whose threads would then drop tensors
    # after the interpreter's end, where torch aborts.
    gc.collect()


def groups_end_together(rank):
    loader = [batch_of(10 * rank + number) for number in range(3 + 2 * rank)]
    with launch(loader, "dp=2,cp=1", job="groups", server_flags=FLAGS,
                memory_budget_bytes=16 << 20,
                max_batch_bytes=1 << 20) as batches:
        assert batches.session == f"groups-dp{rank}"
        ids = first_ids(batches)
    assert ids == [10000 * rank + 1000 * number for number in range(3)], ids


def job_goes_back(rank):
    loader = [batch_of(number) for number in range(8)]
    expected = [1000 * number + 2 * rank for number in range(8)]
    with launch(loader, "cp=2", server_flags=FLAGS) as batches:
        ids = []
        for batch in batches:
            check_plans(batch, dist.group.WORLD)
            ids += first_ids([batch])
            if len(ids) == 3:
                state = batches.state_dict()
            if len(ids) == 6:
                break
        assert ids == expected[:6], ids
        batches.load_state_dict(state)
        ids = first_ids(batches)
        assert ids == expected[3:], ids
    batch["plan"] = dataclasses.replace(batch["plan"], digest=7 + rank)
    try:
        check_plans(batch, dist.group.WORLD)
    except cpfeed.ChecksumMismatch as error:
        assert "is 7 at rank 0 of the group and 8 at rank 1" in str(error)
    else:
        raise AssertionError("plans that differ are taken for equal")


def no_binary_is_an_error_everywhere():
    with mock.patch.dict(os.environ, CPFEED_SERVER_BIN="/no/such/server"):
        try:
            launch([], "cp=2")
        except cpfeed.UsageError:
            return
    raise AssertionError("no error")


class LaunchTest(unittest.TestCase):

    def test_two_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(
                run_rank, (os.path.join(folder, "store"),), nprocs=2)

    def test_one_rank_needs_no_process_group(self):
        loader = torch.utils.data.DataLoader(
            [batch_of(number) for number in range(3)], batch_size=None)
        with launch(loader, cpfeed.Mesh({"cp": 1}), epochs=2, per_epoch=True,
                    server_flags=FLAGS) as batches:
            self.assertEqual([first_ids(batches) for _ in range(3)],
                             [[0, 1000, 2000]] * 2 + [[]])

    def test_error_of_the_loader_ends_the_loop(self):

        def loader():
            yield batch_of(0)
            raise OSError("disk is gone")

        with launch(loader(), "cp=1", server_flags=FLAGS) as batches:
            with self.assertRaisesRegex(OSError, "disk is gone"):
                first_ids(batches)

    def test_rejected_batch_ends_the_loop(self):
        wrong = {"input_ids": np.ones((1, 8), int), "seq_lens": [[9]]}
        with launch([batch_of(0), wrong], "cp=1",
                    server_flags=FLAGS) as batches:
            with self.assertRaises(cpfeed.BatchRejected) as caught:
                first_ids(batches)
        self.assertEqual(caught.exception.sequence, 1)

    def test_mesh_that_does_not_fit(self):
        with self.assertRaisesRegex(cpfeed.UsageError,
                                    "mesh has 4 ranks; must be 1"):
            launch([], "dp=2,cp=2")
        with self.assertRaisesRegex(cpfeed.UsageError, "mesh is a list"):
            launch([], [2, 2])


if __name__ == "__main__":
    unittest.main()
