#!/usr/bin/env python3
# Holds Meshwork's convolutional networks against PyTorch, with Keras's conventions translated.
#
#   tests/layers/pytorch.py build/tests/layers/test_pytorch_dump
#
# The program writes what it computed to a folder; the networks are computed here again with PyTorch
# and compared: the loss and all gradients of one step, the losses of ten steps with momentum, the
# variables behind them, moving statistics among them, and predictions. Exit code 77, which CTest
# calls skipped, where there is no PyTorch.
#
# Translated: channels last to channels first; padding "same", whose odd element goes behind; kernels
# (rows, columns, in, out); the momentum buffer, which in Keras has the rate inside; moving statistics
# of the population variance; transposed convolutions, whose padding PyTorch has as a cut.

import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as functional
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# Differences of float32 sums in another order, relative to the largest element of an array: one step,
# and ten, in which they grow.
ONE_STEP = 2e-5
TEN_STEPS = 5e-4


def read(folder):
    arrays = {}
    for line in (folder / "index.txt").read_text().splitlines():
        name, *shape = line.split()
        content = bytearray((folder / f"{name}.f32").read_bytes())
        arrays[name] = torch.frombuffer(content, dtype=torch.float32).reshape([int(n) for n in shape])
    return arrays


def total_padding(length, window, stride, dilation=1):
    outputs = -(-length // stride)
    return max((outputs - 1) * stride + dilation * (window - 1) + 1 - length, 0)


def padded(x, windows, strides, dilations=(1, 1), value=0.0):
    rows = total_padding(x.shape[2], windows[0], strides[0], dilations[0])
    columns = total_padding(x.shape[3], windows[1], strides[1], dilations[1])
    borders = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)
    return functional.pad(x, borders, value=value)


class Network:
    """Layers by Keras's names over a dictionary of variables; images are channels first in here."""

    def __init__(self, variables, training):
        self.variables = variables
        self.training = training
        self.used = {}
        self.moved = {}

    def path(self, kind):
        number = self.used.get(kind, 0)
        self.used[kind] = number + 1
        return kind if number == 0 else f"{kind}_{number}"

    def conv(self, x, strides=(1, 1), same=False, dilation=(1, 1), groups=1, bias=True):
        path = self.path("conv2d")
        kernel = self.variables[f"{path}.kernel"].permute(3, 2, 0, 1)
        if same:
            x = padded(x, kernel.shape[2:], strides, dilation)
        return functional.conv2d(x, kernel, self.variables[f"{path}.bias"] if bias else None,
                                 stride=strides, dilation=dilation, groups=groups)

    def transposed(self, x, strides, same):
        path = self.path("conv2d_transpose")
        kernel = self.variables[f"{path}.kernel"].permute(3, 2, 0, 1)
        y = functional.conv_transpose2d(x, kernel, None, stride=strides)
        for dimension in (2, 3):
            window, stride = kernel.shape[dimension], strides[dimension - 2]
            length = x.shape[dimension] * stride + (0 if same else max(window - stride, 0))
            before = total_padding(length, window, stride) // 2 if same else 0
            missing = before + length - y.shape[dimension]
            if missing > 0:  # a stride wider than the window leaves zeros behind the last one
                border = (0, 0, 0, missing) if dimension == 2 else (0, missing)
                y = functional.pad(y, border)
            y = y.narrow(dimension, before, length)
        return y + self.variables[f"{path}.bias"].view(1, -1, 1, 1)

    def normalize(self, x, scale=True, momentum=0.99, epsilon=1e-3):
        path = self.path("batch_normalization")
        mean = self.variables[f"{path}.moving_mean"]
        variance = self.variables[f"{path}.moving_variance"]
        if self.training:
            old_mean, old_variance = mean, variance
            mean = x.mean((0, 2, 3))
            variance = x.var((0, 2, 3), unbiased=False)
            with torch.no_grad():
                self.moved[f"{path}.moving_mean"] = momentum * old_mean + (1 - momentum) * mean
                self.moved[f"{path}.moving_variance"] = (
                    momentum * old_variance + (1 - momentum) * variance)
        channels = (1, -1, 1, 1)
        y = (x - mean.view(channels)) / torch.sqrt(variance.view(channels) + epsilon)
        if scale:
            y = y * self.variables[f"{path}.gamma"].view(channels)
        return y + self.variables[f"{path}.beta"].view(channels)

    def dense(self, x):
        path = self.path("dense")
        return x @ self.variables[f"{path}.kernel"] + self.variables[f"{path}.bias"]


def max_pool(x, size, strides, same):
    if same:
        x = padded(x, size, strides, value=float("-inf"))
    return functional.max_pool2d(x, size, strides)


def average_pool_same(x, size, strides):
    ones = padded(torch.ones_like(x), size, strides)
    return (functional.avg_pool2d(padded(x, size, strides), size, strides) /
            functional.avg_pool2d(ones, size, strides))


def convnet(network, images):
    x = images.permute(0, 3, 1, 2)
    for stride in (1, 2, 2):
        x = network.conv(x, (stride, stride), same=True, bias=False)
        x = torch.relu(network.normalize(x, scale=False))
    return network.dense(torch.relu(network.dense(x.mean((2, 3)))))


def collection(network, images):
    x = functional.pad(images.permute(0, 3, 1, 2), (0, 3, 1, 2))
    x = network.normalize(network.conv(x, (2, 3)), momentum=0.9)
    x = torch.tanh(network.conv(x, same=True, dilation=(2, 2), groups=4))
    x = functional.interpolate(x, scale_factor=(1, 2), mode="bilinear", align_corners=False)
    x = max_pool(x, (3, 3), (2, 2), same=True)
    x = network.transposed(x, (2, 2), same=True)
    x = average_pool_same(x, (3, 2), (2, 2))
    x = network.transposed(x, (3, 2), same=False)
    x = x.repeat_interleave(2, 2)
    x = max_pool(x, (4, 3), (4, 3), same=False)
    return network.dense(x.permute(0, 2, 3, 1).flatten(1))


def step(network, variables, images, labels):
    """The loss, the gradients and the moving statistics of one training step."""
    leaves = {name: value.clone().requires_grad_("moving" not in name)
              for name, value in variables.items()}
    pass_through = Network(leaves, training=True)
    loss = functional.cross_entropy(network(pass_through, images), labels)
    loss.backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.requires_grad}
    return loss.item(), gradients, pass_through.moved


def check(what, found, expected, tolerance, failures):
    largest = max(1.0, expected.abs().max().item()) if "loss" in what else expected.abs().max().item()
    difference = (found - expected).abs().max().item()
    good = difference <= tolerance * max(largest, 1e-3)
    print(f"{'' if good else 'FAILED '}{what}: differs by {difference:.2e} of {largest:.2e}")
    if not good:
        failures.append(what)


def compare(name, network, arrays, failures):
    own = {key[len(name) + 1:]: value for key, value in arrays.items() if key.startswith(name + ".")}

    def variables(when):
        return {key[len(when) + 1:]: value for key, value in own.items()
                if key.startswith(when + ".")}

    images, labels = own["images"], own["labels"].long()

    before, stepped = variables("before"), variables("stepped")
    loss, gradients, moved = step(network, before, images, labels)
    check(f"{name} loss", own["loss"], torch.tensor([loss]), ONE_STEP, failures)
    for path, gradient in gradients.items():
        # Weights near 1 have lost what is below 6e-8 of the gradient that was taken away.
        check(f"{name} gradient of {path}", before[path] - stepped[path], gradient, ONE_STEP * 5,
              failures)
    for path, value in moved.items():
        check(f"{name} {path} after one step", stepped[path], value, ONE_STEP, failures)

    values = variables("start")
    momenta = {path: torch.zeros_like(value) for path, value in values.items()}
    losses = []
    for _ in range(10):
        loss, gradients, moved = step(network, values, images, labels)
        losses.append(loss)
        for path, gradient in gradients.items():
            momenta[path] = 0.9 * momenta[path] - 0.02 * gradient
            values[path] = values[path] + momenta[path]
        values.update(moved)
    check(f"{name} losses of ten steps", own["losses"], torch.tensor(losses), TEN_STEPS, failures)
    for path, value in variables("trained").items():
        check(f"{name} {path} after ten steps", value, values[path], TEN_STEPS, failures)
    with torch.no_grad():
        predicted = network(Network(values, training=False), images)
    check(f"{name} predictions", own["predicted"], predicted, TEN_STEPS, failures)


def main():
    torch.set_num_threads(1)
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        arrays = read(pathlib.Path(folder))
    compare("convnet", convnet, arrays, failures)
    compare("collection", collection, arrays, failures)
    print(f"PyTorch {torch.__version__}: {len(failures)} differences beyond rounding")
    sys.exit(1 if failures else 0)


main()
