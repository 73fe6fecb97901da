"""The networks of step.cpp in PyTorch, with their optimizers, for the peers beside us."""

import torch
from torch import nn
from torch.nn import functional


class Convnet(nn.Module):
    """Keras's "same" padding of 6x6 windows with stride 2 is 2 before and 2 after, for even sizes."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(inplace=True),
            nn.Conv2d(12, 24, 6, stride=2, padding=2, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True),
            nn.Conv2d(24, 32, 6, stride=2, padding=2, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True))
        self.head = nn.Sequential(nn.Linear(32, 256), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(256, 10))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Volumes(nn.Module):
    """Keras's "same" padding of 2x2x2 windows is one place behind, and padded by itself faster than by Conv3d."""

    def __init__(self):
        super().__init__()
        channels = (4, 32, 64, 128, 256, 512)
        self.convolutions = nn.ModuleList(nn.Conv3d(x, y, 2) for x, y in zip(channels, channels[1:]))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4096, 128), nn.LeakyReLU(0.3, inplace=True), nn.Dropout(0.5),
                                  nn.Linear(128, 64), nn.LeakyReLU(0.3, inplace=True), nn.Dropout(0.5),
                                  nn.Linear(64, 4), nn.Tanh())

    def forward(self, x):
        for convolution in self.convolutions:
            x = functional.leaky_relu(convolution(functional.pad(x, (0, 1) * 3)), 0.3, inplace=True)
            x = functional.max_pool3d(x, 2)
        return self.head(x) * 1.2


# blocks, heads, width, length of the context, tokens
TRANSFORMERS = {"gpt_mini": (4, 4, 128, 64, 256), "gpt_char": (6, 6, 384, 256, 256),
                "gpt2_64": (12, 12, 768, 64, 50257), "gpt2_1024": (12, 12, 768, 1024, 50257)}


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.attention(self.norm_1(x)).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.back(functional.gelu(self.hidden(self.norm_2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """GPT-2, with a tied table."""

    def __init__(self, blocks, heads, width, length, tokens):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(heads, width) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def network(name):
    if name in TRANSFORMERS:
        return Transformer(*TRANSFORMERS[name])
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 256), nn.ReLU(inplace=True), nn.Linear(256, 256),
                             nn.ReLU(inplace=True), nn.Linear(256, 10))
    if name == "dropout":
        return nn.Sequential(nn.Linear(784, 200, bias=False), nn.ReLU(inplace=True), nn.Dropout(0.4),
                             nn.Linear(200, 10), nn.Softmax(1))
    if name == "convnet":
        return Convnet()
    if name == "volumes":
        return Volumes()
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 4096),
                         nn.ReLU(inplace=True), nn.Linear(4096, 10))


def optimizer(name, model, **how):
    if name in TRANSFORMERS:
        return torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1, **how)
    if name in ("mlp", "convnet"):
        return torch.optim.Adam(model.parameters(), 1e-3, **how)
    if name == "dropout":
        return torch.optim.RMSprop(model.parameters(), 1e-3, alpha=0.9, **how)
    return torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9 if name == "volumes" else 0, **how)


def inputs(name, rows, device="cpu"):
    if name in TRANSFORMERS:
        _, _, _, length, tokens = TRANSFORMERS[name]
        return torch.randint(tokens, (rows, length), device=device)
    shape = {"convnet": (1, 28, 28), "volumes": (4, 64, 64, 64), "wide": (1024,)}.get(name, (784,))
    return torch.rand(rows, *shape, device=device)


def channels_last(name):
    """The memory format that images have with channels last; none for a network without images."""
    return {"convnet": torch.channels_last, "volumes": torch.channels_last_3d}.get(name)


def loss_of(name):
    if name in TRANSFORMERS:
        return lambda logits, targets: functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return functional.mse_loss if name in ("dropout", "volumes") else functional.cross_entropy


def targets(name, rows, device="cpu"):
    if name in TRANSFORMERS:
        return inputs(name, rows, device)
    numbers = {"dropout": 10, "volumes": 4}.get(name)
    return torch.rand(rows, numbers, device=device) if numbers else torch.randint(10, (rows,), device=device)
