"""How long a training step of one of the networks of step.cpp takes in JAX, at the better of two settings.

    peer_jax.py NETWORK BATCH STEPS PRECISION [cuda|cpu]

The whole step is one jitted function that takes its buffers over (donated); tried are a call a step, and 20 steps a
call (lax.scan). PRECISION is float32, tf32, or bfloat16: the operands of products and convolutions are bfloat16, sums
and everything else float32. The data lie on the device. Prints one line of JSON: the median of the milliseconds a
step, over runs of about 50 steps, with quartiles. On `cpu` JAX takes all cores.
With a setting behind, as this prints it, no other is tried.
"""

import json
import os
import statistics
import sys
import time

NETWORK, BATCH, STEPS, PRECISION = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
DEVICE = sys.argv[5] if len(sys.argv) > 5 else "cuda"
os.environ.setdefault("JAX_PLATFORMS", DEVICE)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp

jax.config.update("jax_default_matmul_precision", {"float32": "float32", "tf32": "tensorfloat32"}.get(PRECISION))
TOGETHER, RUN = 20, 50  # steps a call; that are timed together
if DEVICE == "cpu":
    RUN = min(RUN, STEPS)


# blocks, heads, width, length of the context, tokens
TRANSFORMER = {"gpt_mini": (4, 4, 128, 64, 256), "gpt_char": (6, 6, 384, 256, 256), "gpt2_64": (12, 12, 768, 64, 50257),
               "gpt2_1024": (12, 12, 768, 1024, 50257)}.get(NETWORK)


def factor(x):
    return x.astype(jnp.bfloat16) if PRECISION == "bfloat16" else x


def product(x, w):
    return jnp.matmul(factor(x), factor(w), preferred_element_type=jnp.float32)


# A convolution whose gradients, too, multiply in PRECISION and give float32.
def convolution(x, w, stride):
    y = jax.lax.conv_general_dilated(factor(x), factor(w), (stride, stride), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y.astype(jnp.float32)


def dense(key, inputs, outputs, bias=True):
    w = jax.random.uniform(key, (inputs, outputs), minval=-1, maxval=1) * (6 / (inputs + outputs)) ** 0.5
    return {"w": w, "b": jnp.zeros(outputs)} if bias else {"w": w}


def apply_dense(p, x):
    y = product(x, p["w"])
    return y + p["b"] if "b" in p else y


def normalized(p, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["gamma"] + p["beta"]


def initial_transformer(key):
    blocks, _, width, length, tokens = TRANSFORMER
    keys = iter(jax.random.split(key, 4 * blocks + 2))
    norm = lambda: {"gamma": jnp.ones(width), "beta": jnp.zeros(width)}
    table = lambda rows: 0.02 * jax.random.normal(next(keys), (rows, width))
    block = lambda: {"norms": (norm(), norm()), "qkv": dense(next(keys), width, 3 * width), "o": dense(next(keys), width, width),
                     "up": dense(next(keys), width, 4 * width), "down": dense(next(keys), 4 * width, width)}
    return {"tokens": table(tokens), "places": table(length), "norm": norm(), "blocks": [block() for _ in range(blocks)]}


def transformer(p, tokens):
    _, heads, width, length, _ = TRANSFORMER
    x = p["tokens"][tokens] + p["places"]
    for b in p["blocks"]:
        qkv = apply_dense(b["qkv"], normalized(b["norms"][0], x)).reshape(*x.shape[:2], 3, heads, width // heads)
        y = jax.nn.dot_product_attention(*(factor(qkv[:, :, i]) for i in range(3)), is_causal=True)
        x = x + apply_dense(b["o"], y.reshape(x.shape).astype(jnp.float32))
        x = x + apply_dense(b["down"], jax.nn.gelu(apply_dense(b["up"], normalized(b["norms"][1], x))))
    return product(normalized(p["norm"], x), p["tokens"].T)


def initial(key):
    if TRANSFORMER:
        return initial_transformer(key)
    keys = jax.random.split(key, 8)
    if NETWORK == "convnet":
        shapes = [(3, 1, 12), (6, 12, 24), (6, 24, 32)]
        images = [{"w": jax.random.normal(k, (n, n, i, o)) * (2 / (n * n * i)) ** 0.5, "beta": jnp.zeros(o),
                   "gamma": jnp.ones(o)} for k, (n, i, o) in zip(keys, shapes)]
        return images + [dense(keys[3], 32, 256), dense(keys[4], 256, 10)]
    widths = {"mlp": (784, 256, 256, 10), "dropout": (784, 200, 10), "wide": (1024, 4096, 4096, 10)}[NETWORK]
    return [dense(k, i, o, NETWORK != "dropout" or o == 10) for k, i, o in zip(keys, widths, widths[1:])]


def forward(parameters, x, key):
    if TRANSFORMER:
        return transformer(parameters, x)
    if NETWORK == "convnet":
        for p, stride in zip(parameters[:3], (1, 2, 2)):
            x = convolution(x, p["w"], stride)
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            x = jax.nn.relu((x - mean) * jax.lax.rsqrt(variance + 1e-3) * p["gamma"] + p["beta"])
        x = jax.nn.relu(apply_dense(parameters[3], x.mean((1, 2))))
        x = x * jax.random.bernoulli(key, 0.5, x.shape) * 2
        return apply_dense(parameters[4], x)
    for p in parameters[:-1]:
        x = jax.nn.relu(apply_dense(p, x))
    if NETWORK == "dropout":
        x = x * jax.random.bernoulli(key, 0.6, x.shape) / 0.6
        return jax.nn.softmax(apply_dense(parameters[-1], x))
    return apply_dense(parameters[-1], x)


def loss_of(parameters, x, t, key):
    y = forward(parameters, x, key)
    if NETWORK == "dropout":
        return ((y - t) ** 2).mean()
    return -jnp.take_along_axis(jax.nn.log_softmax(y), t[..., None], -1).mean()


def updated(parameters, slots, gradients, count):
    tree = jax.tree_util.tree_map
    if NETWORK == "wide":
        return tree(lambda p, g: p - 1e-3 * g, parameters, gradients), slots
    if NETWORK == "dropout":
        slots = tree(lambda v, g: 0.9 * v + 0.1 * g * g, slots, gradients)
        return tree(lambda p, v, g: p - 1e-3 * g / (jnp.sqrt(v) + 1e-7), parameters, slots, gradients), slots
    m = tree(lambda m, g: 0.9 * m + 0.1 * g, slots[0], gradients)
    v = tree(lambda v, g: 0.999 * v + 0.001 * g * g, slots[1], gradients)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    decay = 1e-3 * 0.1 if TRANSFORMER else 0
    return tree(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-7) - decay * p, parameters, m, v), (m, v)


def step(state, batch):
    parameters, slots, count, key = state
    key, own = jax.random.split(key)
    loss, gradients = jax.value_and_grad(loss_of)(parameters, *batch, own)
    count = count + 1
    parameters, slots = updated(parameters, slots, gradients, count)
    return (parameters, slots, count, key), loss


def timed(together, steps):
    parameters = initial(jax.random.PRNGKey(0))
    zeros = lambda: jax.tree_util.tree_map(jnp.zeros_like, parameters)
    slots = {"wide": (), "dropout": zeros()}.get(NETWORK, (zeros(), zeros()))
    state = (parameters, slots, jnp.float32(0), jax.random.PRNGKey(1))
    shape = {"convnet": (28, 28, 1), "wide": (1024,)}.get(NETWORK, (784,))
    xs = jax.random.uniform(jax.random.PRNGKey(2), (20, BATCH) + shape)
    if TRANSFORMER:
        xs = jax.random.randint(jax.random.PRNGKey(2), (20, BATCH, TRANSFORMER[3]), 0, TRANSFORMER[4])
    ts = (jnp.roll(xs, 1, 2) if TRANSFORMER else jax.random.uniform(jax.random.PRNGKey(3), (20, BATCH, 10)) if NETWORK == "dropout"
          else jax.random.randint(jax.random.PRNGKey(3), (20, BATCH), 0, 10))
    if together > 1:
        run = jax.jit(lambda state, data: jax.lax.scan(step, state, data), donate_argnums=0)
        batches = [(xs, ts)]
    else:
        run = jax.jit(step, donate_argnums=0)
        batches = [(xs[i], ts[i]) for i in range(20)]
    calls = max(1, round(RUN / together))
    times = []
    for turn in range(2 + max(1, steps // RUN)):
        begin = time.perf_counter()
        for call in range(calls):
            state, loss = run(state, batches[call % len(batches)])
        jax.block_until_ready(loss)
        times.append((time.perf_counter() - begin) * 1e3 / (calls * together))
    return sorted(times[2:])


def main():
    given = [json.loads(argument)["steps a call"] for argument in sys.argv[6:]]
    ways = given or [together for together in (1, TOGETHER) if together <= RUN]
    together = ways[0] if len(ways) == 1 else min(ways, key=lambda way: statistics.median(timed(way, max(RUN, STEPS // 10))))
    times = timed(together, STEPS)
    print(json.dumps({"network": NETWORK, "batch": BATCH, "precision": PRECISION, "device": DEVICE,
                      "ms": times[len(times) // 2], "lower": times[len(times) // 4],
                      "upper": times[len(times) * 3 // 4], "setting": {"steps a call": together},
                      "jax": jax.__version__}), flush=True)


main()
