"""How long causal attention alone takes in PyTorch, at the shapes of `benchmarks/kernels attention`.

    OMP_NUM_THREADS=1 attention_torch.py

A line for each shape: the median of forward, and of backward, in microseconds, of 21 samples. The
kernel is the flash one; with dropout there is none on processors, and PyTorch takes its math path.
Operands stay where they are.
"""

import os
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def seconds(run):
    runs, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < 0.004:
        run()
        runs += 1
    return (time.perf_counter() - begin) / runs


def median(run):
    run()
    return statistics.median(seconds(run) for _ in range(21)) * 1e6


print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
SHAPES = [(12, 64, 4, 32, 0), (4, 64, 12, 64, 0), (1, 1024, 12, 64, 0), (1, 1024, 12, 64, 0.1), (1, 4096, 12, 64, 0)]
for batch, length, heads, elements, dropout in SHAPES:
    query, key, value = (torch.randn(batch, heads, length, elements, requires_grad=True) for _ in range(3))
    with sdpa_kernel(SDPBackend.MATH if dropout else SDPBackend.FLASH_ATTENTION):
        result = scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=dropout)
        gradient = torch.randn_like(result)

        def forward():
            with torch.no_grad():
                scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=dropout)

        def backward():
            torch.autograd.grad(result, (query, key, value), gradient, retain_graph=True)

        print(f"{batch} x {length} x {heads} x {elements}, dropout {dropout}: forward {median(forward):.0f} us, "
              f"backward {median(backward):.0f} us")
