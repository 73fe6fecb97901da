"""How long a training step of one of the networks of step.cpp takes in PyTorch on a GPU, at the best of its settings.

    gpu_peer_torch.py NETWORK BATCH STEPS PRECISION [cuda|cpu]

Tried are: the model as it is and compiled (torch.compile), each with the whole step, forward, backward and update,
captured as one CUDA graph; and compiled with CUDA graphs of the compiler's own (reduce-overhead). The optimizers are fused ones where there are such. PRECISION is float32 (TF32 off), tf32, or bfloat16: autocast, which
keeps weights, gradients and updates in float32. The data lie on the device. Prints one line of JSON: the median of
the milliseconds a step, over runs of 50 steps, with quartiles. `cpu` is for seeing that it works.
"""

import json
import statistics
import sys
import time
import warnings

import torch

import networks_torch as networks

NETWORK, BATCH, STEPS, PRECISION = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
DEVICE = sys.argv[5] if len(sys.argv) > 5 else "cuda"
GPU = DEVICE == "cuda"
RUN = 50  # steps that are timed together


def wait():
    if GPU:
        torch.cuda.synchronize()


def optimizer(model, captured):
    hows = [dict(fused=True, capturable=captured), dict(fused=True), dict(foreach=True, capturable=captured), dict()]
    for how in hows if GPU else [dict()]:
        if not GPU or captured or not how.get("capturable", False):
            try:
                return networks.optimizer(NETWORK, model, **how)
            except (TypeError, RuntimeError, ValueError):
                continue
    return networks.optimizer(NETWORK, model)


class Training:
    """A step with one of the settings; `step` gives it the next batch."""

    def __init__(self, compiled, graph):
        self.model = networks.network(NETWORK).to(DEVICE)
        self.inputs = [networks.inputs(NETWORK, BATCH, DEVICE) for _ in range(20)]
        if NETWORK == "convnet":
            self.model = self.model.to(memory_format=torch.channels_last)
            self.inputs = [x.to(memory_format=torch.channels_last) for x in self.inputs]
        self.targets = [networks.targets(NETWORK, BATCH, DEVICE) for _ in range(20)]
        self.loss_of = networks.loss_of(NETWORK)
        self.update = optimizer(self.model, graph)
        if compiled:
            self.model = torch.compile(self.model, mode=None if compiled == "default" else compiled)
        self.at, self.graph = 0, None
        if graph:
            self.capture()

    def one(self, x, t):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=PRECISION == "bfloat16"):
            output = self.model(x)
        loss = self.loss_of(output.float(), t)
        loss.backward()
        self.update.step()
        self.update.zero_grad(set_to_none=self.graph is None)
        return loss

    def capture(self):
        self.x, self.t = self.inputs[0].clone(), self.targets[0].clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.one(self.x, self.t)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.one(self.x, self.t)
        self.graph = graph

    def step(self):
        x, t = self.inputs[self.at % 20], self.targets[self.at % 20]
        self.at += 1
        if self.graph is None:
            return self.one(x, t)
        self.x.copy_(x)
        self.t.copy_(t)
        return self.graph.replay()


def timed(setting, steps):
    training = Training(**setting)
    for _ in range(20):
        training.step()
    wait()
    times = []
    for _ in range(max(1, steps // RUN)):
        begin = time.perf_counter()
        for _ in range(RUN):
            training.step()
        wait()
        times.append((time.perf_counter() - begin) * 1e3 / RUN)
    return sorted(times)


def main():
    warnings.filterwarnings("ignore")
    torch.set_float32_matmul_precision("highest" if PRECISION == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = PRECISION != "float32"
    torch.backends.cudnn.benchmark = True
    settings = [dict(compiled=None, graph=GPU)]
    if hasattr(torch, "compile"):
        settings.append(dict(compiled="default", graph=GPU))
    if GPU and hasattr(torch, "compile"):
        settings.append(dict(compiled="reduce-overhead", graph=False))
    tried, failed = [], []
    for index, setting in enumerate(settings):
        try:
            tried.append((statistics.median(timed(setting, max(RUN, STEPS // 10))), index))
        except Exception as problem:  # a setting that this version cannot do
            failed.append(f"{setting}: {str(problem).splitlines()[0][:120] if str(problem) else type(problem).__name__}")
    if not tried:
        sys.exit("no setting works: " + "; ".join(failed))
    setting = settings[min(tried)[1]]
    times = timed(setting, STEPS)
    print(json.dumps({"network": NETWORK, "batch": BATCH, "precision": PRECISION, "device": DEVICE,
                      "ms": times[len(times) // 2], "lower": times[len(times) // 4],
                      "upper": times[len(times) * 3 // 4], "setting": setting, "failed": failed,
                      "torch": torch.__version__}), flush=True)


main()
