"""A real server, and loaders and ranks of it, for the tests of this folder."""

import select
import socket
import threading
import unittest

import numpy as np

import cpfeed


def batch_of(number, rows=1, width=8):
    """Ids that tell batch and position; each row one sequence."""
    ids = 1000 * number + np.arange(rows * width).reshape(rows, width)
    return {"input_ids": ids, "labels": ids + 1}


class ServerTest(unittest.TestCase):
    """Each test has a server of its own."""

    def setUp(self):
        self.server = cpfeed.LocalServer("--drain_budget=1s")
        self.addCleanup(self.server.stop)
        self.client = cpfeed.Client(self.server.address)
        self.addCleanup(self.client.close)

    def create(self, cp_size=1, session="train", **spec):
        return self.client.create_session(
            session, cpfeed.session_spec(cp_size, **spec))

    def feeder(self, source, session="train", **options):
        return cpfeed.Feeder(source, server=self.server.address,
                             session=session, **options)

    def reader(self, cp_rank=0, session="train", **options):
        return cpfeed.ShardReader(self.server.address, session,
                                  cp_rank=cp_rank, **options)

    def read_all(self, cp_rank=0, session="train"):
        with self.reader(cp_rank, session) as reader:
            steps = []
            for step in reader:
                steps.append(step)
                reader.ack(step.step)
            return steps

    def read_ranks(self, cp_size, session="train"):
        """All steps of all ranks, read at the same time."""
        steps = [None] * cp_size

        def read(rank):
            steps[rank] = self.read_all(rank, session)

        threads = [threading.Thread(target=read, args=(rank,))
                   for rank in range(cp_size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertNotIn(None, steps)
        return steps


def unshard(chunks, name, axis=0):
    """The whole tensor out of the chunks of all ranks."""
    index = np.concatenate([chunk.plan.index() for chunk in chunks])
    parts = np.concatenate([chunk.tensors[name] for chunk in chunks], axis)
    kept = index >= 0
    order = np.argsort(index[kept])
    return np.compress(kept, parts, axis).take(order, axis)


class Proxy:
    """Passes bytes between clients and a server until it is told to cut."""

    def __init__(self, server):
        host, port = server.split(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
                pair = client, socket.create_connection(self._server)
            except OSError:
                return
            self._pairs.append(pair)
            threading.Thread(target=self._pass, args=pair, daemon=True).start()

    @staticmethod
    def _pass(one, other):
        to = {one: other, other: one}
        try:
            while True:
                for ready in select.select([one, other], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        raise OSError
                    to[ready].sendall(data)
        except OSError:
            one.close()
            other.close()

    def cut(self):
        for pair in self._pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self._pairs.clear()

    def close(self):
        self._listener.close()
        self.cut()
