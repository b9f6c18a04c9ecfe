#!/usr/bin/env python3
"""attention_bench beside PyTorch's own ring engine, round by round.

PyTorch's engine is called by its private functions: context_parallel(), the
public way, has no handler for CPU tensors. Its ranks are processes over Gloo
with one thread each; layout head-tail, causal, forward and backward. The
python must have torch (the whole package, not only LibTorch):

  bazel build //tests/bench:attention_bench
  PYTHON_WITH_TORCH tests/bench/peers/torch_ring.py --ranks 2 \\
      --tokens 4096 --dtype float32

Prints one line of JSON: for each exchange and for the engine the efficiency in
CPU seconds (one process over all ranks, each over its own one process in the
same round), median over rounds, and ours over the engine's.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def one_process(torch, tensors):
    """The CPU seconds of causal attention, forward and backward."""
    q, k, v, dout = tensors
    ops = torch.ops.aten
    start = time.process_time()
    out, lse = ops._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, True)
    ops._scaled_dot_product_flash_attention_for_cpu_backward(
        dout, q, k, v, out, lse, 0.0, True)
    return time.process_time() - start


def engine(torch, group, tensors):
    """This rank's part by PyTorch's ring engine."""
    from torch.distributed.tensor.experimental._context_parallel import (
        _attention as cp)
    cp._cp_options.enable_load_balance = True
    cp._cp_options.rotate_method = cp._RotateMethod.ALL_TO_ALL
    ops = torch.ops.aten

    def forward(q, k, v, is_causal=False, **_):
        return ops._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, is_causal)

    def backward(*, query, key, value, out, logsumexp, is_causal, grad_out,
                 **_):
        return ops._scaled_dot_product_flash_attention_for_cpu_backward(
            grad_out, query, key, value, out, logsumexp, 0.0, is_causal)

    q, k, v, dout = tensors
    out, lse, *_ = cp._templated_ring_attention(
        group, 2, forward, q, k, v, is_causal=True)
    if lse.dim() == 4:
        lse = lse.squeeze(-1)
    cp._templated_ring_attention_backward(
        group, 2, backward, dout, "grad_out", q, k, v, out, lse.contiguous(),
        True)


def worker(rank, ranks, port, shape, dtype, pipe):
    """A process: rank 0 of none is the one process."""
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import torch
    torch.set_num_threads(1)
    tensors = [torch.randn(shape).to(getattr(torch, dtype)) for _ in range(4)]
    if ranks:
        import torch.distributed as dist
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
    with torch.no_grad():
        while pipe.recv() == "go":
            if ranks:
                dist.barrier()
            start = time.process_time()
            if ranks:
                engine(torch, dist.group.WORLD, tensors)
            else:
                one_process(torch, tensors)
            pipe.send(time.process_time() - start)
    if ranks:
        dist.destroy_process_group()


class Processes:
    """Processes that run one round when told so."""

    def __init__(self, ranks, tokens, options):
        context = multiprocessing.get_context("spawn")
        port = free_port()
        shape = (1, options.heads, tokens, options.head_dim)
        self.pipes = []
        for rank in range(max(ranks, 1)):
            here, there = context.Pipe()
            context.Process(target=worker, daemon=True,
                            args=(rank, ranks, port, shape, options.dtype,
                                  there)).start()
            self.pipes.append(here)

    def round(self):
        for pipe in self.pipes:
            pipe.send("go")
        return sum(pipe.recv() for pipe in self.pipes)

    def stop(self):
        for pipe in self.pipes:
            pipe.send("stop")


def ours(options):
    """Efficiencies of one round of attention_bench."""
    line = subprocess.run(
        [options.program, f"--ranks={options.ranks}", "--rounds=1",
         f"--tokens={options.tokens}", f"--heads={options.heads}",
         f"--head_dim={options.head_dim}", f"--dtype={options.dtype}",
         f"--exchanges={options.exchanges}"],
        stdout=subprocess.PIPE, text=True, check=True).stdout
    report = json.loads(line)
    return {name: ratio["cpu"] for name, ratio in report["efficiency"].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program",
                        default="bazel-bin/tests/bench/attention_bench")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head_dim", type=int, default=64)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--exchanges", default="ring,alltoall,planned")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    single = Processes(0, options.tokens, options)
    ring = Processes(options.ranks, options.tokens // options.ranks, options)
    efficiency, over_engine = {}, {}
    single.round()  # Warm up.
    ring.round()
    for _ in range(options.rounds):
        row = ours(options)
        row["torch_engine"] = single.round() / ring.round()
        for name, value in row.items():
            efficiency.setdefault(name, []).append(value)
            over_engine.setdefault(name, []).append(
                value / row["torch_engine"])
    single.stop()
    ring.stop()

    def median(values):
        return {name: round(statistics.median(all_rounds), 3)
                for name, all_rounds in values.items()}

    print(json.dumps({"bench": "torch_ring",
                      "ranks": options.ranks, "tokens": options.tokens,
                      "dtype": options.dtype, "rounds": options.rounds,
                      "efficiency": median(efficiency),
                      "over_engine": median(over_engine)}))


if __name__ == "__main__":
    main()
