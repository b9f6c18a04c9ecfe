"""Trainers that go back, servers and connections that go away, loaders that
start anew: the steps are those of the undisturbed run."""

import unittest

import numpy as np
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

import cpfeed
from tests.client.python.serving import Proxy, ServerTest, batch_of

BATCHES = 24
WIDTH = 4096  # Two int64 tensors: 64 KiB.
# Room for a few batches, so that the feeder is still there when the trainer
# goes back.
SMALL = {"max_batch_bytes": 70_000, "memory_budget_bytes": 1 << 20}


def batches():
    return [batch_of(number, width=WIDTH) for number in range(BATCHES)]


def first_id(step):
    return int(step.chunks[0].tensors["input_ids"][0])


class Numbers(torch.utils.data.Dataset):
    """Samples of one row."""

    def __len__(self):
        return 20

    def __getitem__(self, number):
        return {key: torch.from_numpy(value[0])
                for key, value in batch_of(number).items()}


class CursorTest(ServerTest):

    def read(self, count, session="train"):
        """The next `count` steps: first ids, and the last cursor."""
        ids, cursor = [], None
        with self.reader(session=session) as reader:
            for step in reader:
                ids.append(first_id(step))
                cursor = step.cursor
                reader.ack(step.step)
                if len(ids) == count:
                    break
        return ids, cursor


class RewindTest(CursorTest):

    def test_trainer_goes_back_while_the_feeder_runs(self):
        self.create(**SMALL)
        feeder = self.feeder(batches()).start()
        ids, cursor = self.read(3)
        self.read(2)
        self.assertEqual(self.client.commit("train", cursor), 2)
        self.assertEqual(self.client.seek("train", cursor), 2)
        ids += self.read(BATCHES)[0]
        self.assertEqual(ids, [1000 * number for number in range(BATCHES)])
        progress = feeder.join(30)
        self.assertEqual((progress.rewinds, progress.num_steps), (1, BATCHES))

    def test_deleted_session_ends_the_feeder(self):
        self.create(**SMALL)
        feeder = self.feeder(batches()).start()
        self.read(3)
        self.client.delete_session("train", force=True)
        with self.assertRaises(cpfeed.SessionNotFound) as caught:
            feeder.join(30)
        self.assertEqual(caught.exception.reason, "SESSION_DELETED")

    def test_new_server_goes_on_from_the_cursor(self):
        spec = cpfeed.session_spec(1, **SMALL)
        self.client.open_session("train", spec)
        feeder = self.feeder(batches()).start()
        ids, cursor = self.read(5)
        self.read(1)
        self.server.kill()
        again = cpfeed.LocalServer(f"--listen={self.server.address}")
        self.addCleanup(again.stop)
        self.client.open_session("train", spec, cursor)
        ids += self.read(BATCHES)[0]
        self.assertEqual(ids, [1000 * number for number in range(BATCHES)])
        self.assertGreaterEqual(feeder.join(30).rewinds, 1)

    def test_iterator_cannot_go_back(self):
        self.create(**SMALL)
        feeder = self.feeder(iter(batches())).start()
        _, cursor = self.read(1)
        self.read(8)
        self.client.seek("train", cursor)
        with self.assertRaisesRegex(cpfeed.CannotRewind,
                                    "wants batch 1 again"):
            feeder.join(30)

    def test_other_batches_on_replay_are_a_conflict(self):
        generator = np.random.default_rng(1)

        class Unsteady:
            def __iter__(self):
                for batch in batches():
                    yield batch | {"noise": generator.random((1, WIDTH))}

        self.create(max_batch_bytes=1 << 20, memory_budget_bytes=16 << 20)
        feeder = self.feeder(Unsteady()).start()
        _, cursor = self.read(1)
        self.read(BATCHES - 1)
        feeder.join(30)
        self.client.seek("train", cursor)
        with self.assertRaises(cpfeed.SequenceConflict):
            self.feeder(Unsteady()).run()

    def test_broken_connection_loses_nothing(self):
        proxy = Proxy(self.server.address)
        self.addCleanup(proxy.close)
        self.create(**SMALL)
        # An iterator: what was sent is sent again out of the feeder's memory.
        feeder = cpfeed.Feeder(iter(batches()), server=proxy.address,
                               session="train").start()
        ids = []
        while len(ids) < BATCHES:
            ids += self.read(4)[0]
            proxy.cut()
        self.assertEqual(ids, [1000 * number for number in range(BATCHES)])
        progress = feeder.join(30)
        self.assertEqual((progress.batches_accepted, progress.num_steps),
                         (BATCHES, BATCHES))


class StatefulTest(CursorTest):
    """torchdata's loader, shuffled and with workers; a new one each time."""

    def loader(self, workers):
        data = Numbers()
        sampler = StatefulDistributedSampler(data, num_replicas=1, rank=0,
                                             shuffle=True, seed=11)
        return StatefulDataLoader(data, batch_size=2, sampler=sampler,
                                  num_workers=workers)

    def feed(self, session, workers):
        self.create(session=session, memory_budget_bytes=4 << 20,
                    max_batch_bytes=1 << 16)
        return self.feeder(self.loader(workers), session=session,
                           epochs=2).run()

    def test_resumed_run_equals_the_undisturbed_one(self):
        for workers in (0, 2):
            self.feed(f"whole{workers}", workers)
            whole, _ = self.read(20, f"whole{workers}")
            self.assertNotEqual(whole[:10], sorted(whole[:10]))
            self.assertNotEqual(whole[:10], whole[10:])
            for stop in (1, 7, 9, 10, 11, 19):
                session = f"part{workers}.{stop}"
                self.feed(session, workers)
                head, cursor = self.read(stop, session)
                self.client.seek(session, cursor)
                progress = self.feeder(self.loader(workers), session=session,
                                       epochs=2).run()
                tail, _ = self.read(20 - stop, session)
                self.assertEqual(head + tail, whole, (workers, stop))
                self.assertEqual(progress.num_steps, 20)

    def test_state_of_another_loader_is_refused(self):
        self.create()
        stream = cpfeed.ProducerStream(
            cpfeed.channel.open_channel(self.server.address), "train")
        stream.put(cpfeed.encode_batch(batch_of(0), producer_state=b"mine"))
        stream.flush()
        stream.close()
        with self.assertRaisesRegex(cpfeed.CannotRewind, "not one of a Feeder"):
            self.feeder(self.loader(0)).run()


if __name__ == "__main__":
    unittest.main()
