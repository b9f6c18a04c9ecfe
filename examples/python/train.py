"""Trains the toy model; each rank shards whole batches for itself.

  torchrun --standalone --nproc-per-node 2 train.py
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader

from toy import Packs, ToyModel, shard_in_rank


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (1, dist.get_world_size()),
                            mesh_dim_names=("dp", "cp"))
    model = ToyModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = DataLoader(Packs(), batch_size=None, num_workers=1)
    for step, batch in enumerate(loader):
        num_label_tokens = int((batch["labels"] != -100).sum())
        batch = shard_in_rank(batch, mesh["cp"].size(),
                              mesh["cp"].get_local_rank())
        logits = model(batch["input_ids"], batch["position_ids"])
        loss = torch.nn.functional.cross_entropy(
            logits, batch["labels"], reduction="sum") / num_label_tokens
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        dist.all_reduce(loss.detach_())
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
