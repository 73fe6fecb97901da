"""Milliseconds a training step on a GPU, ours beside PyTorch and JAX where Python has them; for tests/benchmarks/gpu.

    gpu_steps.py STEP KERNELS [--seconds N] [--device cuda|cpu] [--quick] [--json FILE]

STEP and KERNELS are the commands of benchmarks/step and benchmarks/kernels, with whatever starts them. Contenders take
turns, round by round, as long as the time allows: a figure is the median of the rounds, with the smallest and largest.
Beside the wide network stands the share of its step that its products alone take, one by one, at the rate that was
measured for each: what is missing to 1 is everything else. `--device cpu` is for seeing that it works.
"""

import argparse
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# network, batch, steps a round
NETWORKS = [("mlp", 64, 2000), ("convnet", 64, 500), ("wide", 256, 300), ("gpt_mini", 12, 500), ("gpt_char", 16, 200),
            ("gpt2_1024", 4, 50)]
PRECISIONS = ("float32", "tf32", "bfloat16")


class Contender:
    def __init__(self, name, command):
        self.name, self.command, self.results, self.problem = name, command, [], None

    def run(self, limit):
        if self.problem or limit < 5:
            return
        try:
            done = subprocess.run(self.command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit)
        except subprocess.TimeoutExpired:
            self.problem = None if self.results else f"not done in {limit:.0f} s"
            return
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            words = [line for line in (done.stderr + done.stdout).splitlines() if re.search("[a-z]", line)]
            told = [line for line in words if re.search("rank|rror", line)] or words
            self.problem = told[0][:200] if told else f"status {done.returncode}"
        else:
            self.results.append(json.loads(lines[-1]))

    def ms(self):
        return statistics.median(result["ms"] for result in self.results)

    def text(self):
        if not self.results:
            return "-"
        found = [result["ms"] for result in self.results]
        return f"{self.ms():.4f} ({min(found):.4f}..{max(found):.4f})"


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def table(heading, rows):
    widths = [max(len(str(row[i])) for row in [heading] + rows) for i in range(len(heading))]
    for row in [heading, ["-" * width for width in widths]] + rows:
        print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |")
    print(flush=True)


def product_times(kernels, device, limit):
    """Microseconds of the products of the wide network's step, summed, by precision; with their FLOP."""
    done = subprocess.run(kernels + ["--device", device, "matmul"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit)
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"matmul (?:[nt]{2} )?(\d+)x(\d+)x(\d+)(.*?) +([\d.]+) us", line)
        if not match:
            continue
        m, n, k = (int(match[i]) for i in (1, 2, 3))
        if 256 not in (m, k) or not {m, n, k} <= {256, 1024, 4096, 10}:
            continue  # of another batch
        precision = next((name for name in PRECISIONS if f"in {name}" in match[4]), "float32")
        microseconds, flop = found.get(precision, (0.0, 0.0))
        found[precision] = (microseconds + float(match[5]), flop + 2.0 * m * n * k)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", type=shlex.split)
    parser.add_argument("kernels", type=shlex.split)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the steps, one precision: to see that it works")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--networks", default=",".join(network for network, _, _ in NETWORKS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--peers", default="PyTorch,JAX")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    peers = [(name, script) for name, module, script in (("PyTorch", "torch", "gpu_peer_torch.py"),
                                                         ("JAX", "jax", "peer_jax.py"))
             if name in arguments.peers.split(",") and has(module)]
    for name, module in (("PyTorch", "torch"), ("JAX", "jax")):
        if name in arguments.peers.split(",") and name not in dict(peers):
            print(f"{name} is not there: {sys.executable} has no {module}")
    precisions = ("float32",) if arguments.quick or arguments.device == "cpu" else arguments.precisions.split(",")
    products = {}
    if not arguments.quick:
        try:
            products = product_times(arguments.kernels, arguments.device, max(5, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            print("the products alone: not done in time")

    cases = []
    for precision in precisions:
        for network, batch, steps in NETWORKS:
            if network not in arguments.networks.split(","):
                continue
            steps = max(20, steps // 20) if arguments.quick else steps
            common = [network, str(batch), str(steps)]
            contenders = [Contender("ours", arguments.step + common + ["data", "auto", precision, arguments.device])]
            for name, script in peers:
                contenders.append(Contender(name, [sys.executable, HERE / script] + common +
                                            [precision, arguments.device]))
            if precision == "float32":
                contenders.append(Contender("ours, batches fed", arguments.step + common +
                                            ["data", "auto", precision, arguments.device, "never"]))
            cases.append((network, batch, precision, contenders))
    # In the first round ours go first, since peers compile for half a minute; then as many rounds as there is time for.
    turns = [contender for case in cases for contender in case[3]]
    turns.sort(key=lambda contender: not contender.name.startswith("ours"))
    rounds, longest = 0, 0.0
    while rounds < (1 if arguments.quick else 3) and time.monotonic() + longest < end:
        begin = time.monotonic()
        for contender in turns:
            contender.run(end - time.monotonic())
        turns = [contender for case in cases for contender in case[3]]
        longest, rounds = time.monotonic() - begin, rounds + 1

    names = ["ours"] + [name for name, _ in peers]
    rows, problems, record = [], [], []
    for network, batch, precision, contenders in cases:
        by_name = {contender.name: contender for contender in contenders}
        ours = by_name["ours"]
        rivals = [by_name[name] for name in names[1:] if by_name[name].results]
        row = [f"{network}, batch {batch}", precision] + [by_name[name].text() for name in names]
        row.append(f"{min(map(Contender.ms, rivals)) / ours.ms():.2f}" if rivals and ours.results else "-")
        if network == "wide" and precision in products and ours.results:
            microseconds, flop = products[precision]
            row.append(f"{microseconds * 1e-3 / ours.ms():.2f} ({flop / microseconds * 1e-6:.1f} TFLOP/s)")
        else:
            row.append("-")
        row.append(by_name["ours, batches fed"].text() if "ours, batches fed" in by_name else "-")
        rows.append(row)
        problems += [f"{network}, {precision}, {c.name}: {c.problem}" for c in contenders if c.problem]
        problems += [f"{network}, {precision}, {c.name}: not run, the time was over" for c in contenders
                     if not c.results and not c.problem]
        record.append(dict(network=network, batch=batch, precision=precision,
                           contenders={c.name: c.results or c.problem for c in contenders}))
    print(f"milliseconds a step; median of {rounds} round(s) (smallest..largest)")
    table(["network", "precision"] + names + ["ours faster than the best", "share of its products' measured rate",
                                              "ours, batches fed"], rows)
    for contender in [c for case in cases for c in case[3]]:
        if contender.name != "ours" and contender.results and "setting" in contender.results[-1]:
            result = contender.results[-1]
            print(f"{contender.name} {result.get('torch', result.get('jax'))}, {result['network']}, "
                  f"{result['precision']}: at its best with {result['setting']}")
    for problem in problems:
        print("problem:", problem)
    if arguments.json:
        arguments.json.write_text(json.dumps(dict(steps=record, products=products), indent=1, default=str))
    if any(not case[3][0].results for case in cases):
        sys.exit(1)  # ours


main()
