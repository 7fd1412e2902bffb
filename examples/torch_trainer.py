"""Trains with torch, alone or with DDP under torchrun. Usage: torch_trainer.py DIR [STEPS] [SECONDS PER STEP]."""

import os
import sys
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from forewarn.inpod import CheckpointStore, InterruptionLog, Loop, SaveSchedule, find_ranks, state


def main(directory, steps=200, pause=0.0):
    """Train, or go on training; return the exit code."""
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("gloo")
    ranks = find_ranks()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.1), nn.Tanh(), nn.Linear(32, 1))
    wrapped = DistributedDataParallel(model) if ranks.size > 1 else model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    parts = {"model": model, "optimizer": optimizer, "averaged": averaged, "scheduler": scheduler}
    shuffle = torch.Generator().manual_seed(ranks.rank)
    inputs = torch.randn(256, 8, generator=shuffle)
    targets = inputs.sum(1, keepdim=True).sin()
    data = {"order": torch.randperm(256, generator=shuffle), "position": 0}
    own = {"generators": {"shuffle": shuffle}}
    # Each rank keeps its own part: its place in the data and its random states are its own.
    store = CheckpointStore(directory, config={"steps": steps, "ranks": ranks.size}, ranks=ranks)
    log = InterruptionLog("interruptions.log")
    with Loop(store, schedule=SaveSchedule(0.01, shortest=0.0), stop_on_warning=False, interruptions=log) as loop:
        step = 0
        if restored := loop.resume():
            step, data = state.restore(restored.state, **parts, **own), restored.state["extra"]
        while step < steps:
            if data["position"] == 256:
                data = {"order": torch.randperm(256, generator=shuffle), "position": 0}
            chosen = data["order"][data["position"] : data["position"] + 16]
            loss = nn.functional.mse_loss(wrapped(inputs[chosen]), targets[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            averaged.update_parameters(model)
            data["position"], step = data["position"] + 16, step + 1
            time.sleep(pause)
            if ranks.rank == 0:
                print(f"step {step} loss {loss.item():.6f}", flush=True)
            if loop.step(step, lambda: state.gather(step=step, extra=data, **parts, **own)):
                return loop.exit_code
        loop.finish(steps, lambda: state.gather(step=steps, extra=data, **parts, **own))
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3]), *map(float, sys.argv[3:4])))
