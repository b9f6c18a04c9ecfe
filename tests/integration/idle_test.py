"""A quiet stream lives, also where its client pings as often as it may."""

import time
import unittest

import cpfeed
from tests.integration.raw_streams import RawLoader, RawRank, batch_of
from tests.integration.real_server import RealServer

# The least that docs/protocol.md allows between two pings.
EAGER = [("grpc.keepalive_time_ms", 10_000),
         ("grpc.keepalive_permit_without_calls", 1),
         ("grpc.http2.max_pings_without_data", 0)]
# Three pings: a server that did not allow them would end the connection at the
# third. tools/soak --idle=180 takes longer.
QUIET_SECONDS = 35


class IdleTest(unittest.TestCase):
    """One server, a rank with our settings and one that pings every 10 s."""

    def test_a_step_comes_on_the_stream_that_was_quiet(self):
        stay_quiet(QUIET_SECONDS)


def stay_quiet(seconds):
    """Both ranks get the step that comes after so long, on their streams."""
    server = RealServer()
    try:
        with cpfeed.Client(server.address) as client:
            client.create_session("train", cpfeed.session_spec(2))
        ranks = [RawRank(server.address, timeout=None),
                 RawRank(server.address, cp_rank=1, timeout=None,
                         options=EAGER)]
        for rank in ranks:
            rank.read_kind("attached")
        time.sleep(seconds)
        loader = RawLoader(server.address)
        loader.opened()
        loader.put(0, batch_of(0))
        for rank in ranks:
            number, _ = rank.next_step()
            assert number == 0, number
        for stream in [loader, *ranks]:
            stream.close()
    finally:
        server.stop()


if __name__ == "__main__":
    unittest.main()
