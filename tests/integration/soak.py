"""Small steps by the thousand through a server: what it holds must not grow.

tools/soak runs it at full length.
"""

import argparse
import json
import pathlib
import sys
import threading

import numpy as np

import cpfeed
from cpfeed.batches import encode_batch
from cpfeed.channel import open_channel
from cpfeed.producer import ProducerStream
from tests.integration.real_server import RealServer

COMMIT_EVERY = 1000
SAMPLES = 20
# Heaps breathe: less than this between the second and the last quarter of a run
# is no growth.
MOST_GROWTH_BYTES = 4 << 20
# gRPC's threads for unary calls come and go.
MOST_SPARE_THREADS = 4


def sample(pid):
    """Resident bytes, threads and descriptors of a process."""
    proc = pathlib.Path(f"/proc/{pid}")
    status = dict(line.split(":\t", 1) for line in
                  (proc / "status").read_text().splitlines() if ":\t" in line)
    return {"rss_bytes": int(status["VmRSS"].split()[0]) << 10,
            "threads": int(status["Threads"]),
            "descriptors": len(list((proc / "fd").iterdir()))}


class Loader(threading.Thread):
    """Puts the same small batch again and again."""

    def __init__(self, address, steps):
        super().__init__()
        self.steps = steps
        self.channel = open_channel(address)
        self.stream = ProducerStream(self.channel, "soak")
        self.num_steps = None

    def run(self):
        ids = np.arange(64).reshape(1, 64)
        batch = encode_batch({"input_ids": ids, "labels": ids})
        for _ in range(self.steps):
            self.stream.put(batch)
        self.num_steps = self.stream.finish()
        self.channel.close()


class Rank(threading.Thread):
    """Reads to the end; `on_step` is told of every step."""

    def __init__(self, address, cp_rank, on_step):
        super().__init__()
        self.on_step = on_step
        self.count = 0
        self.reader = cpfeed.ShardReader(address, "soak", cp_rank=cp_rank)

    def run(self):
        for step in self.reader:
            assert step.step == self.count, (step.step, self.count)
            self.count += 1
            self.reader.ack(step.step)
            self.on_step(step)
        self.reader.close()


def soak(steps):
    """Runs so many steps; returns what was measured."""
    # What is remembered for ExplainStep grows up to its own bound.
    server = RealServer("--metrics_listen=127.0.0.1:0", "--explain_history=0")
    try:
        return soak_server(server, steps)
    finally:
        server.stop()


def soak_server(server, steps):
    client = cpfeed.Client(server.address)
    client.create_session("soak", cpfeed.session_spec(
        2, max_batch_bytes=8 << 10, memory_budget_bytes=256 << 10))
    samples = []

    def on_step(step):
        if (step.step + 1) % COMMIT_EVERY == 0:
            client.commit("soak", step.cursor)
        if (step.step + 1) % max(steps // SAMPLES, 1) == 0:
            samples.append(sample(server.process.pid))

    threads = [Rank(server.address, 0, on_step),
               Rank(server.address, 1, lambda step: None),
               Loader(server.address, steps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [t.count for t in threads[:2]] == [steps, steps], "a step is missing"
    client.delete_session("soak")
    client.close()
    gauges = {name: value for name, value in server.metrics().items()
              if name.startswith(("cpfeed_memory_bytes", "cpfeed_sessions",
                                  "cpfeed_steps_retained",
                                  "cpfeed_ingest_queue_bytes",
                                  "cpfeed_credit_outstanding_bytes"))}
    return summary(steps, samples, gauges)


def summary(steps, samples, gauges):
    samples = samples[:-2]  # Where the loader has left already.
    quarter = len(samples) // 4
    early = samples[quarter:2 * quarter]
    late = samples[-quarter:]

    def mean(part):
        return sum(s["rss_bytes"] for s in part) / len(part)

    return {"steps": steps,
            "rss_bytes": round(mean(late)),
            "rss_growth_bytes": round(mean(late) - mean(early)),
            "threads": sorted({s["threads"] for s in early + late}),
            "descriptors": sorted({s["descriptors"] for s in early + late}),
            "left_after_delete": {k: v for k, v in gauges.items() if v != 0}}


def main():
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--idle", type=int, default=0,
                        help="first, a stream that is quiet for so many seconds")
    options = parser.parse_args()
    if options.idle > 0:
        from tests.integration.idle_test import stay_quiet
        stay_quiet(options.idle)
    result = soak(options.steps)
    print(json.dumps(result))
    bad = (result["rss_growth_bytes"] > MOST_GROWTH_BYTES
           or result["threads"][-1] - result["threads"][0] > MOST_SPARE_THREADS
           or len(result["descriptors"]) > 1
           or result["left_after_delete"])
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
