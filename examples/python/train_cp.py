"""Trains the toy model on shards that cpfeed gives each rank.

  torchrun --standalone --nproc-per-node 2 train_cp.py
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader

from cpfeed.torch import launch
from toy import Packs, ToyModel


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (1, dist.get_world_size()),
                            mesh_dim_names=("dp", "cp"))
    model = ToyModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = DataLoader(Packs(), batch_size=None, num_workers=1)
    batches = launch(loader, mesh)
    for step, batch in enumerate(batches):
        num_label_tokens = batch["num_label_tokens"]
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
    batches.shut_down()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
