"""How long a training step of one of the networks of step.cpp takes in PyTorch, at the best of its settings.

    peer_torch.py NETWORK BATCH STEPS THREADS                                   one process
    mpirun -n 2 peer_torch.py NETWORK BATCH STEPS THREADS ddp                   DistributedDataParallel over gloo

With `bfloat16` behind, forward is under autocast to it, which keeps weights, their gradients and updates in float32.
With a setting behind, as this prints it, no other is tried.
Prints one line of JSON: the median step in milliseconds with quartiles, the setting that gave it, and the most memory
that the process had.
The data are in memory already, which is less than what our own figure contains.
"""

import itertools
import json
import os
import resource
import statistics
import sys
import time

import torch
from torch import nn

import networks_torch as networks

NETWORK, BATCH, STEPS, THREADS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
DDP = "ddp" in sys.argv[5:]
BFLOAT16 = "bfloat16" in sys.argv[5:]
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0)) if DDP else 0
RANKS = int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1)) if DDP else 1


def timed(steps, channels_last, update, how):
    rows = BATCH // RANKS
    inputs = [networks.inputs(NETWORK, rows) for _ in range(20)]
    targets = [networks.targets(NETWORK, rows) for _ in range(20)]
    loss_of = networks.loss_of(NETWORK)
    model = networks.network(NETWORK)
    if channels_last:
        last = networks.channels_last(NETWORK)
        model = model.to(memory_format=last)
        inputs = [x.to(memory_format=last) for x in inputs]
    if how == "compiled":
        model = torch.compile(model)
    if DDP:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    optimizer = networks.optimizer(NETWORK, model, **({update: True} if update else {}))
    times = []
    warm_up = min(10, steps)
    for step in range(steps + warm_up):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=not DDP)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=BFLOAT16):
            output = model(inputs[step % 20])
        loss = loss_of(output.float(), targets[step % 20])
        loss.backward()
        optimizer.step()
        if step >= warm_up:
            times.append((time.perf_counter() - begin) * 1e3)
    return times


def blas():
    """The library that multiplies matrices: the reference one is many times slower than OpenBLAS."""
    with open("/proc/self/maps") as maps:
        names = {line.split()[-1] for line in maps if "blas" in line.rsplit("/", 1)[-1]}
    return ", ".join(sorted(names)) or "built in"


def main():
    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)
    if DDP:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29531")
        torch.distributed.init_process_group("gloo", rank=RANK, world_size=RANKS)
    given = [json.loads(argument) for argument in sys.argv[5:] if argument.startswith("{")]
    updates = ("", "foreach") if NETWORK == "dropout" else ("fused",)  # RMSprop has no fused update
    settings = given or [dict(channels_last=last, update=update, how=how)
                         for last, update, how in itertools.product(
                             (False, True) if networks.channels_last(NETWORK) else (False,), updates,
                             ("eager",) if DDP else ("eager", "compiled"))]
    tried = [(statistics.median(timed(max(min(STEPS, 5), STEPS // 4), **setting)), index)
             for index, setting in enumerate(settings)] if len(settings) > 1 else [(0, 0)]
    best = torch.tensor(min(tried)[1])
    if DDP:  # one choice for all ranks
        torch.distributed.broadcast(best, 0)
    setting = settings[int(best)]
    times = sorted(timed(STEPS, **setting))
    if RANK == 0:
        print(json.dumps({"network": NETWORK, "batch": BATCH, "ranks": RANKS, "threads": THREADS,
                          "precision": "bfloat16" if BFLOAT16 else "float32",
                          "ms": times[len(times) // 2], "lower": times[len(times) // 4],
                          "upper": times[len(times) * 3 // 4], "setting": setting,
                          "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                          "torch": torch.__version__, "blas": blas()}), flush=True)
    if DDP:
        torch.distributed.destroy_process_group()


main()
