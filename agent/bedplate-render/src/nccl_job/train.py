# Trains a model with DistributedDataParallel on synthetic data: one process per GPU, started by torchrun.
# Each step reduces all gradients over all ranks. Ends with an error if the weights of the ranks differ.
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH, WIDTH, LAYERS = 64, 4096, 8
WARMUP, STEPS = 10, 100


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # The same weights on each rank, other data on each.
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]
    model = DistributedDataParallel(nn.Sequential(*blocks).cuda())
    torch.manual_seed(1 + rank)
    data = torch.randn(BATCH, WIDTH, device="cuda")
    target = torch.randn(BATCH, WIDTH, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(WARMUP + STEPS):
        if step == WARMUP:
            torch.cuda.synchronize()
            start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / STEPS
    weights = torch.stack([weight.detach().double().sum() for weight in model.parameters()])
    least, most = weights.clone(), weights.clone()
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    if rank == 0:
        gradients = sum(weight.numel() * weight.element_size() for weight in model.parameters())
        print(f"ranks {ranks}, gradients {gradients / 2**20:.0f} MiB per step", flush=True)
        print(f"time per step {seconds * 1e3:.2f} ms, {ranks * BATCH / seconds:.0f} samples/s", flush=True)
        print(f"loss {losses[0].item():.4f} -> {losses[-1].item():.4f}", flush=True)
    if not torch.equal(least, most) or not torch.isfinite(weights).all():
        raise SystemExit(f"rank {rank}: weights differ between ranks or are not finite")
    dist.destroy_process_group()


main()
