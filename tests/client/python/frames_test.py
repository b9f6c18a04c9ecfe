"""Messages taken apart and put together, against protobuf itself."""

import random
import unittest

import cpfeed
from cpfeed import api, frames


class FramesTest(unittest.TestCase):

    def test_equals_protobuf(self):
        generator = random.Random(3)
        for size in (0, 1, 127, 128, 16383, 16384, 100_000):
            payload = generator.randbytes(size)
            header = api.PutBatchesRequest()
            header.chunk.offset = generator.randrange(1 << 40)
            cut = generator.randrange(size + 1)
            message = frames.encode(header, [memoryview(payload)[:cut],
                                             memoryview(payload)[cut:]])
            whole = api.PutBatchesRequest.FromString(message)
            self.assertEqual(whole.payload, payload)
            self.assertEqual(whole.chunk, header.chunk)
            back, view = frames.decode(whole.SerializeToString(),
                                       api.PutBatchesRequest)
            self.assertEqual(back, header)
            self.assertEqual(view, payload)

    def test_payload_may_come_first_and_twice(self):
        header = api.PutBatchesRequest()
        header.chunk.offset = 5
        first = api.PutBatchesRequest(payload=b"first").SerializeToString()
        last = api.PutBatchesRequest(payload=b"last").SerializeToString()
        back, view = frames.decode(first + header.SerializeToString() + last,
                                   api.PutBatchesRequest)
        self.assertEqual((back, bytes(view)), (header, b"last"))

    def test_damaged_messages_are_refused(self):
        header = api.PutBatchesRequest()
        header.chunk.offset = 300
        message = frames.encode(header, [memoryview(b"x" * 300)])
        for size in range(1, len(message)):
            try:
                back, view = frames.decode(message[:size],
                                           api.PutBatchesRequest)
            except cpfeed.CpfeedError as error:
                self.assertEqual(error.reason, "PROTOCOL_ERROR")
            else:  # Cut between two fields.
                self.assertEqual((back, len(view)), (header, 0))
        for damaged in (b"\x7b", b"\x7a" + b"\xff" * 11, b"\x7a\xff\x01x",
                        b"\x1a\x02\x08\xff"):
            with self.assertRaises(cpfeed.CpfeedError):
                frames.decode(damaged, api.PutBatchesRequest)


if __name__ == "__main__":
    unittest.main()
