"""What the contract says of each failure, over real processes: nothing is lost,
nothing is counted twice, and who is to blame is named."""

import threading
import unittest

import cpfeed
from cpfeed import api
from tests.integration.raw_streams import RawLoader, RawRank, batch_of
from tests.integration.real_server import RealServer, until

SESSIONS = "cpfeed.v1.SessionService/"
OUTCOMES = api.BatchReceipt.Outcome


class FailureTest(unittest.TestCase):
    """Each test has a session of its own."""

    @classmethod
    def setUpClass(cls):
        cls.server = RealServer("--metrics_listen=127.0.0.1:0",
                                "--stall_timeout=1s", "--max_step_skew=2",
                                "--session_memory_budget=16777216",
                                "--max_batch_bytes=1048576")
        cls.addClassCleanup(cls.server.stop)
        cls.client = cpfeed.Client(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.session = self.id().rsplit(".", 1)[-1][5:60].strip("_")

    def create(self, cp_size=1, **spec):
        return self.client.create_session(
            self.session, cpfeed.session_spec(cp_size, **spec))

    def loader(self, **fields):
        loader = RawLoader(self.server.address, self.session, **fields)
        self.addCleanup(loader.close)
        return loader

    def opened(self, **fields):
        loader = self.loader(**fields)
        return loader, loader.opened()

    def rank(self, **fields):
        rank = RawRank(self.server.address, self.session, **fields)
        self.addCleanup(rank.close)
        return rank

    def look(self):
        return self.client.get_session(self.session)

    def stalled(self):
        """What is missing, once the session stands still."""
        stalled = api.enum_values("SessionState")["SESSION_STATE_STALLED"]
        until(lambda: self.look().state == stalled)
        return self.look().state_detail

    def settle(self, loader, *wanted):
        """The receipts that come next are those."""
        for outcome, sequence, step in wanted:
            receipt = loader.receipt()
            self.assertEqual(
                (OUTCOMES.Name(receipt.outcome), receipt.sequence,
                 receipt.step),
                ("OUTCOME_" + outcome, sequence, step), receipt.status.message)
        return receipt

    def reason(self, receipt):
        info = api.ErrorInfo()
        receipt.status.details[0].Unpack(info)
        return info.reason

    # ---- Loaders ----

    def test_half_a_batch_is_never_a_step(self):
        self.create()
        loader, before = self.opened(incarnation=1)
        loader.put(0, batch_of(0), most=10)
        until(lambda: self.look().memory_bytes > 0)
        loader.close()
        until(lambda: self.look().memory_bytes == 0)
        self.assertEqual(self.look().next_step, 0)
        again, after = self.opened(incarnation=2)
        self.assertEqual((after.next_sequence, after.credit_bytes),
                         (0, before.credit_bytes))
        again.put(0, batch_of(0))
        self.settle(again, ("ACCEPTED", 0, 0))

    def test_a_loader_that_is_missing_is_named(self):
        self.create(producers=["a", "b"])
        loader, _ = self.opened(producer="a", incarnation=1)
        loader.put(0, batch_of(0))
        self.settle(loader, ("ACCEPTED", 0, 0))
        loader.put(1, batch_of(1))
        rank = self.rank()
        rank.ack(rank.next_step()[0])
        detail = self.stalled()
        self.assertIn("producer b", detail)
        late, _ = self.opened(producer="b", incarnation=1)
        late.put(0, batch_of(5))
        self.settle(late, ("ACCEPTED", 0, 1))
        self.settle(loader, ("ACCEPTED", 1, 2))

    def test_there_is_one_writer(self):
        self.create()
        first, _ = self.opened(incarnation=5)
        for incarnation in [5, 4]:
            error = self.loader(incarnation=incarnation).end()
            self.assertEqual((error.code, error.reason), ("ABORTED", "FENCED"))
        first.put(0, batch_of(0))
        self.settle(first, ("ACCEPTED", 0, 0))
        newer, opened = self.opened(incarnation=6)
        self.assertEqual(opened.next_sequence, 1)
        self.assertEqual(first.end().reason, "FENCED")
        newer.put(1, batch_of(1))
        self.settle(newer, ("ACCEPTED", 1, 1))

    def test_a_lost_receipt_is_answered_with_the_step_that_it_was(self):
        self.create()
        loader, _ = self.opened(incarnation=1)
        for number in range(6):
            loader.put(number, batch_of(number))
        self.settle(loader, *[("ACCEPTED", n, n) for n in range(6)])
        before = self.server.metrics()["cpfeed_steps_published_total"]
        # As if the receipt of 0 had not come, and those of 1 to 5 had.
        for number in [0, 3, 0]:
            loader.put(number, batch_of(number))
        self.settle(loader, ("DUPLICATE", 0, 0), ("DUPLICATE", 3, 3),
                    ("DUPLICATE", 0, 0))
        loader.close()
        again, opened = self.opened(incarnation=2)
        self.assertEqual(opened.next_sequence, 6)
        again.put(5, batch_of(5))
        self.settle(again, ("DUPLICATE", 5, 5))
        self.assertEqual(
            self.server.metrics()["cpfeed_steps_published_total"], before)
        self.assertEqual(self.look().next_step, 6)

    def test_a_gap_names_what_is_wanted_and_the_stream_goes_on(self):
        self.create()
        loader, _ = self.opened(incarnation=1)
        loader.put(0, batch_of(0))
        loader.put(2, batch_of(2))
        seen = {}
        for _ in range(2):
            receipt = loader.receipt()
            seen[receipt.sequence] = receipt
        self.assertEqual(seen[0].outcome, OUTCOMES.Value("OUTCOME_ACCEPTED"))
        self.assertEqual(self.reason(seen[2]), "OUT_OF_ORDER")
        self.assertIn("sequence 2; must be 1", seen[2].status.message)
        loader.put(1, batch_of(1))
        loader.put(2, batch_of(2))
        self.settle(loader, ("ACCEPTED", 1, 1), ("ACCEPTED", 2, 2))

    def test_other_content_under_a_known_number_is_a_conflict(self):
        self.create()
        loader, _ = self.opened(incarnation=1)
        loader.put(0, batch_of(0))
        self.settle(loader, ("ACCEPTED", 0, 0))
        loader.put(0, batch_of(7))
        receipt = self.settle(loader, ("REJECTED", 0, 0))
        self.assertEqual(self.reason(receipt), "SEQUENCE_CONFLICT")
        # The first one stays what the rank gets.
        number, payload = self.rank().next_step()
        self.assertEqual(number, 0)
        self.assertNotIn((7000).to_bytes(8, "little"), payload)

    def test_a_damaged_batch_is_not_delivered(self):
        self.create()
        loader, _ = self.opened(incarnation=1)
        name = "cpfeed_checksum_errors_total"
        before = self.server.metrics()[name]
        loader.put(0, batch_of(0), damage=True)
        receipt = self.settle(loader, ("REJECTED", 0, 0))
        self.assertEqual(self.reason(receipt), "CHECKSUM_MISMATCH")
        self.assertEqual(self.server.metrics()[name], before + 1)
        loader.put(0, batch_of(0))
        self.settle(loader, ("ACCEPTED", 0, 0))

    def test_versions_are_agreed_on_and_what_is_unknown_is_passed_over(self):
        self.create()
        error = self.loader(min_version=2, max_version=3).end()
        self.assertEqual((error.code, error.reason),
                         ("FAILED_PRECONDITION", "PROTOCOL_UNSUPPORTED"))
        # Field 1000, a varint: of a later version.
        _, opened = self.opened(min_version=1, max_version=9,
                                unknown=b"\xc0\x3e\x01")
        self.assertEqual(opened.protocol_version, 1)

    def test_a_trainer_that_goes_back_takes_the_loader_along_in_band(self):
        self.create()
        loader, _ = self.opened(incarnation=1, follows_rewind=True)
        for number in range(4):
            batch = batch_of(number)
            loader.put(number, batch)
        self.settle(loader, *[("ACCEPTED", n, n) for n in range(4)])
        rank = self.rank()
        header = rank.read_kind("step")
        cursor = rank.read().payload[:header.cursor_bytes]
        loader.put(4, batch_of(4), most=10)  # Half a batch is under way.
        self.assertEqual(self.client.seek(self.session, cursor), 2)
        rewind = loader.read_kind("rewind")
        self.assertEqual((rewind.generation, rewind.next_sequence), (2, 1))
        self.assertGreater(rewind.credit_bytes, 0)
        # Of what comes before `follow` nothing is taken.
        loader.put(5, batch_of(5))
        loader.send(follow={"generation": 1})
        loader.put(1, batch_of(9))
        loader.send(follow={"generation": 2})
        loader.put(1, batch_of(1))
        self.settle(loader, ("ACCEPTED", 1, 1))
        self.assertEqual(rank.end().reason, "REWOUND")
        fenced = self.rank(generation=1).end()
        self.assertEqual(fenced.reason, "FENCED")
        self.assertEqual(self.rank(generation=2).next_step()[0], 1)

    def test_a_loader_that_takes_no_rewind_is_ended(self):
        self.create()
        loader, _ = self.opened(incarnation=1)
        loader.put(0, batch_of(0))
        self.settle(loader, ("ACCEPTED", 0, 0))
        rank = self.rank()
        header = rank.read_kind("step")
        cursor = rank.read().payload[:header.cursor_bytes]
        self.client.seek(self.session, cursor)
        error = loader.end()
        self.assertEqual((error.code, error.reason), ("ABORTED", "REWOUND"))

    def test_follow_without_a_rewind_breaks_the_protocol(self):
        self.create()
        loader, _ = self.opened(follows_rewind=True)
        loader.send(follow={"generation": 1})
        self.assertEqual(loader.end().reason, "PROTOCOL_ERROR")

    # ---- Ranks ----

    def test_a_rank_that_is_gone_holds_the_others_and_is_named(self):
        self.create(2)
        loader, _ = self.opened(incarnation=1)
        for number in range(5):
            loader.put(number, batch_of(number))
        self.settle(loader, *[("ACCEPTED", n, n) for n in range(5)])
        ranks = [self.rank(cp_rank=rank, incarnation=1) for rank in range(2)]
        first = ranks[1].next_step()
        ranks[1].close()
        # Two steps ahead of nothing, and no further.
        for step in range(2):
            self.assertEqual(ranks[0].next_step()[0], step)
            ranks[0].ack(step)
        self.assertIn("cp_rank 1", self.stalled())
        again = self.rank(cp_rank=1, incarnation=2)
        self.assertEqual(again.next_step(), first)  # The same bytes.
        again.ack(0)
        for step in range(1, 5):
            self.assertEqual(again.next_step()[0], step)
            again.ack(step)
            if step > 1:
                self.assertEqual(ranks[0].next_step()[0], step)
                ranks[0].ack(step)
        until(lambda: self.look().memory_bytes == 0)

    def test_a_step_that_a_rank_cannot_use_comes_again(self):
        self.create()
        loader, _ = self.opened()
        loader.put(0, batch_of(0))
        rank = self.rank(incarnation=1)
        first = rank.next_step()
        rank.send(nack={"step": 0, "reason": "CHECKSUM_MISMATCH"})
        error = rank.end()
        self.assertEqual((error.code, error.reason),
                         ("DATA_LOSS", "CHECKSUM_MISMATCH"))
        self.assertEqual(self.rank(incarnation=2).next_step(), first)

    def test_another_world_is_refused_with_both_sizes(self):
        self.create(2)
        error = self.rank(cp_size=4).end()
        self.assertEqual((error.code, error.reason),
                         ("FAILED_PRECONDITION", "TOPOLOGY_MISMATCH"))
        self.assertIn("cp_size = 4; the session has 2", error.message)
        self.assertEqual(self.rank(cp_rank=2).end().code, "INVALID_ARGUMENT")

    def test_ranks_wait_for_a_slow_loader_and_that_is_counted(self):
        self.create()
        loader, _ = self.opened()
        rank = self.rank()
        rank.read_kind("attached")
        name = 'cpfeed_starved_seconds_total{side="consumer"}'
        before = self.server.metrics().get(name, 0)
        self.assertIn("producer default", self.stalled())
        loader.put(0, batch_of(0))
        self.assertEqual(rank.next_step()[0], 0)
        self.assertGreater(self.server.metrics()[name] - before, 0.9)

    # ---- Sessions ----

    def test_a_session_that_cannot_fit_is_not_made(self):
        with self.assertRaises(cpfeed.CpfeedError) as refused:
            self.create(retention="RETAIN", max_uncommitted_steps=1000,
                        max_batch_bytes=1 << 20,
                        memory_budget_bytes=64 << 20)
        self.assertEqual((refused.exception.code, refused.exception.reason),
                         ("RESOURCE_EXHAUSTED", "MEMORY_PRESSURE"))

    def test_deleting_a_session_in_use_ends_its_streams_and_frees_all(self):
        self.create(2)
        loader, _ = self.opened()
        loader.put(0, batch_of(0))
        self.settle(loader, ("ACCEPTED", 0, 0))
        loader.put(1, batch_of(1), most=10)
        ranks = [self.rank(cp_rank=rank) for rank in range(2)]
        self.assertEqual(ranks[0].next_step()[0], 0)
        ranks[1].read_kind("attached")
        self.client.delete_session(self.session, force=True)
        for stream in [loader, *ranks]:
            error = stream.end()
            self.assertEqual((error.code, error.reason),
                             ("NOT_FOUND", "SESSION_DELETED"))
        labels = f'session="{self.session}"'
        self.assertFalse([name for name in self.server.metrics()
                          if labels in name])

    def test_a_partition_that_heals_does_not_bring_a_second_writer(self):
        self.create()
        # The server still believes in the old stream: nothing told it.
        old, _ = self.opened(incarnation=1)
        old.put(0, batch_of(0))
        self.settle(old, ("ACCEPTED", 0, 0))
        new, opened = self.opened(incarnation=2)
        self.assertEqual(opened.next_sequence, 1)
        old.put(1, batch_of(8))
        new.put(1, batch_of(1))
        self.settle(new, ("ACCEPTED", 1, 1))
        self.assertEqual(old.end().reason, "FENCED")
        number, payload = self.last_step()
        self.assertEqual(number, 1)
        self.assertNotIn((8000).to_bytes(8, "little"), payload)

    def last_step(self):
        rank = self.rank()
        rank.next_step()
        return rank.next_step()

    def test_a_slow_rank_slows_its_loader_and_nobody_else(self):
        self.create(2, max_batch_bytes=70_000, memory_budget_bytes=1 << 20)
        batch = batch_of(0, width=4096)  # 64 KiB.
        sent = []

        def feed():
            stream = cpfeed.ProducerStream(
                cpfeed.channel.open_channel(self.server.address), self.session)
            for number in range(60):
                stream.put(batch)
                sent.append(number)
            stream.finish()

        loader = threading.Thread(target=feed, daemon=True)
        loader.start()
        readers = [cpfeed.ShardReader(self.server.address, self.session,
                                      cp_rank=rank) for rank in range(2)]
        self.assertEqual(next(iter(readers[1])).step, 0)  # Then it sleeps.
        self.stalled()
        self.assertLess(len(sent), 20)
        budget = self.look()
        self.assertLessEqual(budget.memory_bytes, 1 << 20)
        # Another session goes on meanwhile.
        self.session += "2"
        self.create()
        other, _ = self.opened()
        rank = self.rank()
        for number in range(50):
            other.put(number, batch_of(number))
            self.assertEqual(rank.next_step()[0], number)
            rank.ack(number)
        # It wakes up: all steps at both, in order, none twice.
        steps = [[], [0]]
        readers[1].ack(0)

        def read(index):
            for step in readers[index]:
                steps[index].append(step.step)
                readers[index].ack(step.step)
            readers[index].close()

        threads = [threading.Thread(target=read, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in [*threads, loader]:
            thread.join(60)
        self.assertEqual(steps, [list(range(60))] * 2)


if __name__ == "__main__":
    unittest.main()
