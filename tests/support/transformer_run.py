"""What keras_transformer.py and pytorch_transformer.py share: text, runs of the program, checks.

Their arguments are MESHWORK LAUNCHER..., and each writes to the folder in which it runs.
"""
import os
import subprocess
import sys

import h5py
import numpy

meshwork, launcher = sys.argv[1], sys.argv[2:]
configuration = os.path.join(os.environ["MESHWORK_SOURCE_DIR"], "configs", "gpt_mini.yaml")
LENGTH, WIDTH, HEADS, HIDDEN, BLOCKS, BYTES, BATCH = 64, 128, 4, 512, 4, 256, 12
STEPS = 10
# The batches in order, and the whole text for validation too.
DATA_SETTINGS = [part for setting in
            ("data.train.file=text", "data.validation.file=text", "data.train.to=1",
             "data.validation.from=0", "data.shuffle=false", f"fit.steps_per_epoch={STEPS}")
            for part in ("--set", setting)]
failures = 0


def check(condition, what):
    """Counts a failure unless `condition`, and prints the first ones."""
    global failures
    if not condition:
        failures += 1
        if failures <= 20:
            print("WRONG:", what)


def finish():
    print("ok" if failures == 0 else f"{failures} failures")
    sys.exit(failures != 0)


def run(*arguments, ranks=True):
    """Runs the program and gives what it says."""
    command = (launcher if ranks else []) + [meshwork, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    if ended.returncode != 0:
        print(f"{' '.join(arguments)}: status {ended.returncode}\n{said}")
        sys.exit(1)
    return said


def predictions(weights):
    """The program's outputs for the whole text, (STEPS * BATCH, LENGTH, BYTES)."""
    run("predict", configuration, *DATA_SETTINGS, "--checkpoint", weights, "--data", "validation",
        "--output", "outputs.h5", "--overwrite")
    with h5py.File("outputs.h5") as file:
        return file["predictions"][()]


def checkpoint(directory, step):
    return f"{directory}/step-{step:09}.h5"


def write_text():
    """Writes a text of STEPS batches; gives windows and targets, (STEPS * BATCH, LENGTH) each."""
    random = numpy.random.default_rng(3)
    words = [bytes(random.integers(97, 123, random.integers(2, 9)).tolist()) for _ in range(40)]
    length = LENGTH * BATCH * STEPS + 1
    # A word and the space behind it have at least 3 bytes.
    text = b" ".join(words[i] for i in random.integers(0, 40, length // 3 + 1))[:length]
    with open("text", "wb") as file:
        file.write(text)
    samples = numpy.frombuffer(text, "u1").astype("i4")
    return samples[:-1].reshape(-1, LENGTH), samples[1:].reshape(-1, LENGTH)
