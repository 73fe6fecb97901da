"""Trains the network of configs/gpt_mini.yaml in PyTorch, on the same windows of the same text, and prints what
`meshwork train` prints of it: the loss and the bits a byte of the text that is held out, after each epoch.

    gpt_mini_torch.py jargon/usr/share/dictd/jargon.dict.dz [SEED]

Windows stand one after the other, 12 a batch, in another order in each epoch. Weights, rates and what decays are as
in the configuration.
"""

import gzip
import math
import sys

import numpy
import torch
from torch import nn

import networks_torch as networks

LENGTH, ROWS, EPOCHS, WARM_UP, DECAY = 64, 12, 3, 100, 4889
text = numpy.frombuffer(gzip.open(sys.argv[1]).read(), dtype=numpy.uint8).astype(numpy.int64)
generator = torch.Generator().manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1337)
torch.manual_seed(generator.initial_seed())


def windows(begin, end):
    """Of the bytes from `begin` to `end`: each of 64, and its targets."""
    part = torch.from_numpy(text[begin:end].copy())
    starts = torch.arange(0, len(part) - LENGTH, LENGTH)
    return torch.stack([part[s:s + LENGTH + 1] for s in starts])


held_out = int(len(text) * 0.9)
training, validation = windows(0, held_out), windows(held_out, len(text))
model = networks.network("gpt_mini")
for module in model.modules():
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
matrices = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
                              lr=1e-3, betas=(0.9, 0.99), eps=1e-7)
loss_of = networks.loss_of("gpt_mini")
step = 0
for epoch in range(EPOCHS):
    order = torch.randperm(len(training), generator=generator)
    total = 0.0
    for begin in range(0, len(order) - ROWS + 1, ROWS):
        rows = training[order[begin:begin + ROWS]]
        part = min((step - WARM_UP) / DECAY, 1)
        rate = step / WARM_UP if step < WARM_UP else 0.1 + 0.9 * (1 + math.cos(math.pi * part)) / 2
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * rate
        optimizer.zero_grad()
        loss = loss_of(model(rows[:, :-1]), rows[:, 1:])
        loss.backward()
        optimizer.step()
        total += loss.item()
        step += 1
    with torch.no_grad():
        losses = [loss_of(model(rows[:, :-1]), rows[:, 1:]).item() * len(rows) for rows in validation.split(100)]
    held = sum(losses) / len(validation)
    print(f"epoch {epoch + 1}: loss {total * ROWS / len(order):.3f}, held out {held:.3f}, "
          f"{held / math.log(2):.2f} bits a byte", flush=True)
