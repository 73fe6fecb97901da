"""A transformer in the program and in PyTorch: configs/gpt_mini.yaml.

    pytorch_transformer.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2

PyTorch computes the same network in float64, from weights that the program exports and reads again.
The test compares the outputs, the first gradients, and ten steps of AdamW: after each step its
loss, every weight, and the optimizer's running means. Two runs take these steps. The first has the
optimizer of the configuration. The second clips gradients, warms up in three steps, and splits the
heads over the ranks. Exit status 77: PyTorch or h5py is missing.

The program computes in float32. In float32, PyTorch is about as far from its own float64.
"""
import math
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True  # the folder of the sources stays as it is
try:
    import h5py
    import numpy
    import torch
    from torch.nn import functional
except ImportError as problem:
    print(problem)
    sys.exit(77)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from transformer_run import (BATCH, BLOCKS, DATA_SETTINGS, LENGTH, STEPS, WIDTH, check, checkpoint,
                             configuration, finish, predictions, run, write_text)  # noqa: E402

BETA_1, BETA_2, EPSILON, DECAY, RATE = 0.9, 0.99, 1e-7, 0.1, 1e-3
# Tolerance of outputs and running means of gradients, relative to the largest element of the array.
# Forward and backward pass about 20 products each in sequence, whose sums each err by some 1e-7.
SUMS = 5e-6
# Of running means of squares, whose relative errors are twice those of the gradients.
SQUARES = 2 * SUMS
# Of a loss, relative: a mean of 768 logarithms, whose relative errors of some 1e-6 partly cancel.
LOSS = 5e-7
# Of a weight. A step rounds it twice, by at most 2^-24 each: at the decay and at the update. No
# weight exceeds 1.5, so ten steps round it by at most 1.8e-6.
WEIGHTS = 2e-6
# Of a key's bias, as a share of the sum of all rates. The softmax over keys cancels the bias, so
# its gradient is zero. The program's gradient is rounding of up to 3e-9, which AdamW divides by its
# corrected epsilon of at least 3e-7.
KEY_BIASES = 1e-2


class Case:
    """A run of STEPS steps: the program's settings, and the rates and the clipping for PyTorch."""

    def __init__(self, name, warm_up, decay_steps, clip_norm=None, settings=()):
        self.name, self.settings = name, settings
        self.warm_up, self.decay_steps, self.clip_norm = warm_up, decay_steps, clip_norm

    def rate(self, step):
        """The rate of a step, counted from 0."""
        if step < self.warm_up:
            return RATE * step / self.warm_up
        part = min((step - self.warm_up) / self.decay_steps, 1)
        return RATE * (0.1 + 0.9 * (1 + math.cos(math.pi * part)) / 2)


# The worst difference of a run, by kind: its share of what is allowed, itself, and its place.
largest = {}


def compare(kind, found, expected, allowed, what):
    difference = float(numpy.abs(found - expected).max())
    largest[kind] = max(largest.get(kind, (0, 0, "")), (difference / allowed, difference, what))
    check(difference <= allowed,
          f"{what}: {kind} differ by {difference:.2e}, allowed {allowed:.2e}")


def print_largest(name):
    for kind, (share, difference, what) in largest.items():
        print(f"{name}: {kind} differ by {difference:.1e} at {what}, {share:.0%} of the allowed")
    largest.clear()


def variable_names():
    """The configuration's names of all variables."""
    layers = {"layer_normalization": ("gamma", "beta"), "layer_normalization_1": ("gamma", "beta"),
              "hidden": ("kernel", "bias"), "back": ("kernel", "bias")}
    for part in ("query", "key", "value", "attention_output"):
        layers[f"attention/{part}"] = ("kernel", "bias")
    return (["tokens/embeddings", "places/embeddings", "layer_normalization/gamma",
             "layer_normalization/beta"] +
            [f"block_{i}/{layer}/{variable}" for i in range(BLOCKS)
             for layer, variables in layers.items() for variable in variables])


def keras_place(name):
    """Where Keras's weights file has the variable of that name."""
    layer, variable = name.rsplit("/", 1)
    for ours, theirs in (("^block_0", "block"), ("^tokens$", "reversible_embedding"),
                         ("^places$", "position_embedding"), ("attention_output$", "output_dense"),
                         ("/(query|key|value)$", r"/\1_dense")):
        layer = re.sub(ours, theirs, layer)
    return f"layers/{layer}/vars/{int(variable in ('bias', 'beta'))}"


def write_start():
    """Adds noise to every exported weight and gives them all.

    No bias stays zero, and no query looks at all keys alike.
    """
    random = numpy.random.default_rng(4)
    weights = {}
    with h5py.File("start.weights.h5", "r+") as file:
        for name in variable_names():
            array = file[keras_place(name)]
            array[...] = array[()] + random.normal(0, 0.1, array.shape).astype("f4")
            weights[name] = array[()]
        arrays = []
        file.visititems(lambda place, item: arrays.extend([place] * isinstance(item, h5py.Dataset)))
    check(sorted(arrays) == sorted(map(keras_place, weights)), f"what was exported: {arrays}")
    return weights


def outputs(weights, tokens):
    """Logits (rows, LENGTH, BYTES) of tokens (rows, LENGTH)."""

    def normalized(x, name):
        return functional.layer_norm(x, (WIDTH,), weights[f"{name}/gamma"], weights[f"{name}/beta"],
                                     1e-5)

    def dense(x, name):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    def heads(x, name):
        # (rows, heads, LENGTH, 32) = x (rows, LENGTH, WIDTH) * kernel (WIDTH, heads, 32)
        return (torch.einsum("rlw,whd->rhld", x, weights[f"{name}/kernel"]) +
                weights[f"{name}/bias"][:, None])

    def attention(x, name):
        x = functional.scaled_dot_product_attention(
            *(heads(x, f"{name}/{part}") for part in ("query", "key", "value")), is_causal=True)
        name += "/attention_output"
        return (torch.einsum("rhld,hdw->rlw", x, weights[f"{name}/kernel"]) +
                weights[f"{name}/bias"])

    x = weights["tokens/embeddings"][tokens] + weights["places/embeddings"]
    for block in (f"block_{i}" for i in range(BLOCKS)):
        x = x + attention(normalized(x, f"{block}/layer_normalization"), f"{block}/attention")
        y = dense(normalized(x, f"{block}/layer_normalization_1"), f"{block}/hidden")
        x = x + dense(functional.gelu(y, approximate="tanh"), f"{block}/back")
    return normalized(x, "layer_normalization") @ weights["tokens/embeddings"].T


def steps_of_pytorch(case):
    """After each step: its loss, and weights, running means of gradients and of squares by name."""
    weights = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True)
               for name, array in start.items()}
    decayed = [name for name in weights if re.search("kernel$|embeddings$", name)]
    optimizer = torch.optim.AdamW(
        [{"params": [weights[name] for name in decayed], "weight_decay": DECAY},
         {"params": [weights[name] for name in weights if name not in decayed], "weight_decay": 0}],
        betas=(BETA_1, BETA_2))
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = case.rate(step)
            # Keras adds epsilon to the root before the correction, PyTorch behind it.
            group["eps"] = EPSILON / math.sqrt(1 - BETA_2 ** (step + 1))
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = functional.cross_entropy(outputs(weights, x[rows]).flatten(0, 1), y[rows].flatten())
        loss.backward()
        if case.clip_norm:
            torch.nn.utils.clip_grad_norm_(weights.values(), case.clip_norm)
        optimizer.step()
        states = {name: optimizer.state[weight] for name, weight in weights.items()}
        yield (loss.item(), {name: weight.detach().numpy() for name, weight in weights.items()},
               {name: state["exp_avg"].numpy() for name, state in states.items()},
               {name: state["exp_avg_sq"].numpy() for name, state in states.items()})


def steps_of_program(case):
    """The same, from a checkpoint after each step."""
    shutil.rmtree("steps", ignore_errors=True)
    settings = [*case.settings, "fit.epochs=1", "checkpoint.directory=steps",
                "checkpoint.every_steps=1", f"checkpoint.keep={STEPS}"]
    run("train", configuration, *DATA_SETTINGS, "--weights", "start.weights.h5",
        *(part for setting in settings for part in ("--set", setting)))
    before = 0
    for step in range(1, STEPS + 1):
        with h5py.File(checkpoint("steps", step)) as file:
            # A checkpoint has the sum of the epoch's losses; behind the last step, their mean.
            if step < STEPS:
                at = list(file["state/running_names"]).index(b"loss")
                losses = file["state/running_sums"][at] / (BATCH * LENGTH)
            else:
                losses = file["history/loss"][0] * STEPS
            yield (losses - before, *({name: file[place.format(name)][()] for name in start}
                                      for place in ("params/{}", "slots/{}/m", "slots/{}/v")))
            before = losses


def compare_steps(case):
    rates = 0
    losses = []
    for step, (ours, theirs) in enumerate(zip(steps_of_program(case), steps_of_pytorch(case),
                                              strict=True)):
        rates += case.rate(step)
        what = f"step {step + 1}"
        compare("losses", ours[0], theirs[0], LOSS * theirs[0], what)
        losses.append(f"{theirs[0]:.4f} {ours[0] - theirs[0]:+.1e}")
        for name in start:
            key_bias = name.endswith("key/bias")
            # The gradient of a key's bias is zero; the kernel's has terms of the same size.
            scale = name.replace("key/bias", "key/kernel")
            what = f"step {step + 1}, {name}"
            if key_bias:
                compare("keys' biases", ours[1][name], theirs[1][name],
                        KEY_BIASES * rates + WEIGHTS, what)
            else:
                compare("weights", ours[1][name], theirs[1][name], WEIGHTS, what)
            # After the first step the mean is a tenth of the gradient.
            kind = "means of gradients" if step else "first gradients"
            compare(kind, ours[2][name], theirs[2][name], SUMS * numpy.abs(theirs[2][scale]).max(),
                    what)
            compare("means of squares", ours[3][name], theirs[3][name],
                    SQUARES * numpy.abs(theirs[3][scale]).max(), what)
            if step == STEPS - 1 and not key_bias:
                moved = numpy.abs(theirs[1][name] - start[name]).max()
                check(moved > 100 * WEIGHTS, f"{case.name}: {name} moves by {moved} alone")
        check(max(numpy.abs(weight).max() for weight in theirs[1].values()) < 1.5,
              "a weight exceeds 1.5")
    print(f"{case.name}: losses and differences {', '.join(losses)}")
    print_largest(case.name)


torch.set_num_threads(1)
x, y = (torch.from_numpy(array).long() for array in write_text())
shutil.rmtree("first", ignore_errors=True)
run("train", configuration, *DATA_SETTINGS, "--set", "fit.epochs=1", "--set",
    "checkpoint.directory=first")
run("export", "first", "--keras", "start.weights.h5", "--weights-only", "--overwrite", ranks=False)
start = write_start()
expected = outputs({name: torch.tensor(array, dtype=torch.float64)
                    for name, array in start.items()}, x).numpy()
compare("outputs", predictions("start.weights.h5"), expected, SUMS * numpy.abs(expected).max(),
        "the start")
print_largest("start")
compare_steps(Case("as configured", 100, 4889))
compare_steps(Case("clipped", 3, 7, 1, [
    "mesh={data: 1, model: -1}", "optimizer.AdamW.global_clipnorm=1",
    "optimizer.AdamW.learning_rate.CosineDecay.warmup_steps=3",
    "optimizer.AdamW.learning_rate.CosineDecay.decay_steps=7"]))
finish()
