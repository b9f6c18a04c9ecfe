"""What a client of protocol version 1 sent and received, byte for byte: the
server of today gives it the same.

The recordings are of release 0.1.0. Where an answer has a new field, a client of
then passes over it: fields that a recording lacks are not compared. To record
anew, after the protocol has a new version: python -m
tests.integration.wire_replay_test record FOLDER (with PYTHONPATH=client/python).
"""

import pathlib
import queue
import struct
import sys
import threading
import unittest

import google.protobuf.message
import grpc
import numpy as np

import cpfeed
from cpfeed import api, frames, streams
from cpfeed.channel import open_channel
from tests.integration.real_server import RealServer

RECORDINGS = pathlib.Path("tests/testdata/protocol_1")
METHODS = {"loader": "/cpfeed.v1.IngestService/PutBatches",
           "rank0": "/cpfeed.v1.ShardService/StreamShards",
           "rank1": "/cpfeed.v1.ShardService/StreamShards"}
RESPONSES = {"loader": api.PutBatchesResponse,
             "rank0": api.StreamShardsResponse,
             "rank1": api.StreamShardsResponse}
SENT, RECEIVED = 0, 1
SPEC = {"layout": "HEAD_TAIL_PER_SEQUENCE", "max_message_bytes": 1024}


def batches():
    """Two: one with chunks of payload, one whose ranks have unequal shares."""
    for width, lengths in [(256, [120, 136]), (120, [5, 0])]:
        ids = np.arange(100, 100 + width).reshape(1, width)
        yield {"input_ids": ids, "labels": ids + 1, "seq_lens": [lengths],
               "seq_lens_padded": [[120, width - 120]]}


def read_events(name):
    """(SENT or RECEIVED, message) in order."""
    data = (RECORDINGS / f"{name}.bin").read_bytes()
    events, place = [], 0
    while place < len(data):
        kind, size = struct.unpack_from("<BI", data, place)
        place += 5
        events.append((kind, data[place:place + size]))
        place += size
    return events


def plain(name, message):
    """A response without what differs from run to run; None for credit, whose
    time is the server's own."""
    response, payload = frames.decode(message, RESPONSES[name])
    kind = response.WhichOneof("message")
    if kind == "credit":
        return None
    if kind in ("opened", "attached"):
        getattr(response, kind).server_instance = ""
    if kind == "step" and response.step.cursor_bytes:
        response.step.cursor_bytes = 0  # Grows with what cursors say.
        response.step.payload_bytes = 0
    return response, bytes(payload)


def is_within(old, new):
    """Whether all fields that `old` has are so in `new`."""
    if not isinstance(old, google.protobuf.message.Message):
        if isinstance(old, (int, float, str, bytes)):
            return old == new
        return len(old) == len(new) and all(map(is_within, old, new))
    return all(is_within(value, getattr(new, field.name))
               for field, value in old.ListFields())


class Replay(threading.Thread):
    """Sends what was sent, when as much has come as had then."""

    def __init__(self, address, name):
        super().__init__(daemon=True)
        self.name_ = name
        self.expected = []
        self.received = []
        self.error = None
        self._requests = queue.SimpleQueue()
        self._channel = open_channel(address, cpfeed.Security())
        self._call = self._channel.stream_stream(METHODS[name])(
            iter(self._requests.get, None))

    def run(self):
        try:
            for kind, message in read_events(self.name_):
                if kind == SENT:
                    self._requests.put(message)
                elif (wanted := plain(self.name_, message)) is not None:
                    self.expected.append(wanted)
                    while (found := plain(self.name_,
                                          next(self._call))) is None:
                        pass
                    self.received.append(found)
        except (grpc.RpcError, StopIteration) as error:
            self.error = error
        self._requests.put(None)
        self._channel.close()


class WireReplayTest(unittest.TestCase):

    def replay(self, **spec):
        server = RealServer()
        self.addCleanup(server.stop)
        with cpfeed.Client(server.address,
                           credentials=cpfeed.Security()) as client:
            client.create_session("train", cpfeed.session_spec(2, **spec))
        replays = [Replay(server.address, name) for name in METHODS]
        for replay in replays:
            replay.start()
        for replay in replays:
            replay.join(60)
            self.assertFalse(replay.is_alive(), replay.name_)
        return replays

    def test_streams_of_the_release_before_are_served(self):
        for replay in self.replay(**SPEC):
            self.assertIsNone(replay.error, replay.name_)
            self.assertGreater(len(replay.expected), 3)
            for (old, old_payload), (new, payload) in zip(
                    replay.expected, replay.received, strict=True):
                self.assertTrue(is_within(old, new), f"{old}\n{new}")
                # A cursor leads the leader's payload, and may say more.
                if not (replay.name_ == "rank0" and old.HasField("chunk")):
                    self.assertEqual(payload, old_payload)

    def test_what_differs_is_found(self):
        different = 0
        for replay in self.replay(**SPEC | {"layout": "STRIPED"}):
            for (old, _), (new, _) in zip(replay.expected, replay.received):
                different += not is_within(old, new)
        self.assertGreater(different, 0)


def record(folder):
    """Writes what the clients of this tree send and receive."""
    events = {}
    decode, iterate = frames.decode, streams.Outbox.__iter__

    def sent(outbox):
        for message in iterate(outbox):
            events.setdefault(outbox.name, []).append((SENT, message))
            yield message

    def received(message, kind):
        name = threading.current_thread().name
        # The stream's own thread has that name.
        name = "loader" if name == "cpfeed-producer" else name
        events[name].append((RECEIVED, bytes(message)))
        return decode(message, kind)

    streams.Outbox.__iter__ = sent
    streams.Outbox.name = property(
        lambda outbox: outbox.__dict__.setdefault(
            "_name", threading.current_thread().name))
    create = streams.Outbox.__init__

    def named(outbox, *arguments, **options):
        create(outbox, *arguments, **options)
        outbox.name  # pylint: disable=pointless-statement

    streams.Outbox.__init__ = named
    frames.decode = received
    server = cpfeed.LocalServer()
    with cpfeed.Client(server.address) as client:
        client.create_session("train", cpfeed.session_spec(2, **SPEC))

    def load():
        stream = cpfeed.ProducerStream(open_channel(server.address), "train")
        for batch in batches():
            stream.put(cpfeed.encode_batch(batch, producer_state=b"state"))
        stream.finish()

    def read(rank):
        with cpfeed.ShardReader(server.address, "train",
                                cp_rank=rank) as reader:
            for step in reader:
                reader.ack(step.step)

    threads = [threading.Thread(target=load, name="loader")]
    threads += [threading.Thread(target=read, args=(rank,), name=f"rank{rank}")
                for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.stop()
    folder.mkdir(parents=True, exist_ok=True)
    for name in METHODS:
        (folder / f"{name}.bin").write_bytes(b"".join(
            struct.pack("<BI", kind, len(message)) + bytes(message)
            for kind, message in events[name]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record(pathlib.Path(sys.argv[2]))
    else:
        unittest.main()
