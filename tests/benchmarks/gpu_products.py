"""Matrix products of PyTorch on a GPU in float32, for tests/benchmarks/gpu to stand beside ours."""

import torch
torch.backends.cuda.matmul.allow_tf32 = False
print("PyTorch", torch.__version__, "float32, TF32 off: milliseconds a product and TFLOP/s")
for m, n, k in [(64, 256, 784), (64, 256, 256), (784, 256, 64), (256, 4096, 1024), (256, 4096, 4096)]:
    a, b = torch.rand(m, k, device="cuda"), torch.rand(k, n, device="cuda")
    for _ in range(20):
        a @ b
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(200):
        a @ b
    end.record()
    torch.cuda.synchronize()
    milliseconds = begin.elapsed_time(end) / 200
    print(f"matmul {m}x{n}x{k:<6} {milliseconds:8.4f} {2e-9 * m * n * k / milliseconds:8.2f}")
