"""TensorBoard's event files of a run that is killed (SIGKILL) again and again, and goes on on other meshes: what is
read is that of a run that nobody disturbed, without a gap or a double.

    tensorboard.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n

Files are read here record by record, and, where TensorBoard is installed (pip install tensorboard), by its own reader
too: in this Python, or in the one that MESHWORK_TENSORBOARD_PYTHON names. Exit status 77: the program was built without
protobuf.
"""
import glob
import json
import math
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

CONFIGURATION = """
seed: 7
data:
  train: {kind: synthetic, rows: 1024, features: {kind: normal, shape: [64]}, targets: {kind: classes, classes: 4}}
  validation: {kind: synthetic, seed: 4, rows: 60, features: {kind: normal, shape: [64]},
               targets: {kind: classes, classes: 4}}
  batch_size: 16
model:
  input: [64]
  layers:
    - Dense: {name: d1, units: 512, activation: relu}
    - Dense: {name: d2, units: 512, activation: relu}
    - Dense: {name: d3, units: 4}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {SGD: {learning_rate: {ExponentialDecay: {initial_learning_rate: 0.02, decay_steps: 10, decay_rate: 0.9}}}}
metrics: [SparseCategoricalAccuracy]
fit:
  epochs: 5
  gradient_norm: true
  callbacks: [{TensorBoard: {log_dir: runs, update_freq: 4, histogram_freq: 2}}]
checkpoint: {directory: checkpoints, every_steps: 23, keep: 2, resume: auto}
"""
MESHES = [(2, "data=2,model=1"), (1, "data=1,model=1"), (3, "data=3,model=1"), (2, "data=1,model=2")]
LAYOUT = "layout={d1/kernel: [~, model], d2/kernel: [model, ~]}"
TAGS = {"train": {"epoch_loss", "epoch_sparse_categorical_accuracy", "epoch_gradient_norm", "epoch_learning_rate",
                  "epoch_samples_per_second", "batch_loss", "batch_sparse_categorical_accuracy", "batch_gradient_norm",
                  *(f"d{layer}/{name}/histogram" for layer in (1, 2, 3) for name in ("kernel", "bias"))},
        "validation": {"epoch_loss", "epoch_sparse_categorical_accuracy", "evaluation_loss_vs_iterations",
                       "evaluation_sparse_categorical_accuracy_vs_iterations"}}

# Run by a Python that has TensorBoard: {run: {tag: [[step, [number...]]...]}}.
THEIR_READER = """
import json, sys
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.util.tensor_util import make_ndarray
runs = EventMultiplexer(tensor_size_guidance={"scalars": 0, "histograms": 0}).AddRunsFromDirectory(sys.argv[1])
runs.Reload()
print(json.dumps({run: {tag: [[event.step, [float(v) for v in make_ndarray(event.tensor_proto).flatten()]]
                              for event in runs.GetAccumulator(run).Tensors(tag)]
                        for tag in runs.GetAccumulator(run).Tags()["tensors"]} for run in runs.Runs()}))
"""


def crc_table():
    """Of CRC-32C."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = crc_table()


def masked_crc(data):
    """As records have it."""
    value = 0xffffffff
    for byte in data:
        value = TABLE[(value ^ byte) & 0xff] ^ value >> 8
    value ^= 0xffffffff
    return ((value >> 15 | value << 17) + 0xa282ead8) & 0xffffffff


def fields(data):
    """Of a message of protobuf's: pairs of a number and what the field holds."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            length = varint()
            yield key >> 3, data[at:at + length]
            at += length
        else:
            length = {1: 8, 5: 4}[key & 7]
            yield key >> 3, data[at:at + length]
            at += length


def our_reader(folder):
    """As THEIR_READER. Every record has to be whole."""
    runs = {}
    for run in sorted(os.listdir(folder)):
        tags = runs.setdefault(run, {})
        for name in sorted(glob.glob(os.path.join(folder, run, "*tfevents*"))):
            with open(name, "rb") as file:
                data = file.read()
            at = 0
            while at < len(data):
                length, checksum = struct.unpack_from("<QI", data, at)
                event = data[at + 12:at + 12 + length]
                assert checksum == masked_crc(data[at:at + 8]), name
                assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked_crc(event), name
                at += length + 16
                step = 0
                for number, value in fields(event):
                    if number == 2:
                        step = value
                    if number == 5:
                        for _, summary in fields(value):
                            of = dict(fields(summary))
                            tensor = dict(fields(of[8]))
                            numbers = struct.unpack(f"<{len(tensor[5]) // 4}f", tensor[5]) if 5 in tensor else \
                                struct.unpack(f"<{len(tensor[6]) // 8}d", tensor[6])
                            tags.setdefault(of[1].decode(), []).append([step, list(numbers)])
    return runs


def their_reader(folder):
    """None where TensorBoard is not installed."""
    python = os.environ.get("MESHWORK_TENSORBOARD_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import tensorboard"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return None
    said = subprocess.run([python, "-c", THEIR_READER, folder], capture_output=True, text=True, check=True)
    assert "purg" not in said.stderr.lower() and "DataLoss" not in said.stderr, said.stderr
    return json.loads(said.stdout)


def same(a, b):
    """Two numbers, of runs on different meshes."""
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5)


def compare(found, expected, who):
    """Of two results of readers: tags and steps are the same, and, but for times, the values."""
    assert set(found) == set(expected) == set(TAGS), (who, list(found))
    for run, tags in TAGS.items():
        assert set(found[run]) == set(expected[run]) == tags, (who, run, sorted(found[run]))
        for tag in tags:
            got, wanted = found[run][tag], expected[run][tag]
            assert [step for step, _ in got] == [step for step, _ in wanted], (who, run, tag, got)
            for (step, numbers), (_, others) in zip(got, wanted):
                assert len(numbers) == len(others), (who, run, tag, step)
                if tag.endswith("/histogram"):  # a value at an edge may have crossed it
                    assert sum(numbers[2::3]) == sum(others[2::3]), (who, run, tag, step)
                    moved = sum(abs(a - b) for a, b in zip(numbers[2::3], others[2::3]))
                    assert moved <= 2 + 0.01 * sum(others[2::3]), (who, run, tag, step, moved)
                elif tag != "epoch_samples_per_second":
                    assert all(map(same, numbers, others)), (who, run, tag, step, numbers, others)


def children(process):
    """The processes that it has started, theirs too."""
    parents = {}
    for status in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(status, encoding="ascii", errors="replace") as file:
                text = file.read()
            parents[int(status.split("/")[2])] = int(text.rpartition(")")[2].split()[1])
        except OSError:
            pass
    found, new = [], [process]
    while new:
        parent = new.pop()
        more = [child for child, its in parents.items() if its == parent]
        found += more
        new += more
    return found


def written():
    """Bytes in the event files of training."""
    return sum(os.path.getsize(name) for name in glob.glob("runs/train/*"))


def main():
    meshwork, launcher = sys.argv[1], sys.argv[2:]

    def command(ranks, mesh, *more):
        return [*launcher, str(ranks), meshwork, "train", "run.yaml", "--mesh", mesh, "--set", LAYOUT, *more]

    shutil.rmtree("work", ignore_errors=True)
    os.makedirs("work")
    os.chdir("work")
    with open("run.yaml", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION)
    straight = subprocess.run(command(*MESHES[0]), capture_output=True, text=True, check=False)
    if "built without the protobuf library" in straight.stderr:
        print("SKIPPED: built without protobuf")
        sys.exit(77)
    assert straight.returncode == 0, straight.stdout + straight.stderr
    os.rename("runs", "straight")
    shutil.rmtree("checkpoints")
    expected = our_reader("straight")
    assert [step for step, _ in expected["train"]["epoch_loss"]] == list(range(5))
    assert [step for step, _ in expected["train"]["batch_loss"]] == list(range(4, 5 * 64 + 1, 4))
    assert [step for step, _ in expected["train"]["d1/kernel/histogram"]] == [0, 2, 4]
    assert [step for step, _ in expected["validation"]["evaluation_loss_vs_iterations"]] == list(range(64, 321, 64))
    assert sum(expected["train"]["d1/kernel/histogram"][0][1][2::3]) == 64 * 512
    whole = sum(os.path.getsize(name) for name in glob.glob("straight/train/*"))

    chance = random.Random(5)
    kills = 0
    for attempt in range(40):
        mesh = MESHES[attempt % len(MESHES)]
        # Far enough for a checkpoint; the last attempts are left alone.
        until = written() + chance.uniform(0.12, 0.25) * whole if kills < 5 else math.inf
        with subprocess.Popen(command(*mesh), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            while process.poll() is None and written() < until:
                time.sleep(0.002)
            if process.poll() is None:
                kills += 1
                for child in children(process.pid):
                    try:
                        os.kill(child, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            said = process.stdout.read()
        if process.returncode == 0:
            break
        assert until < math.inf, said
        # As if it had been killed while it wrote one more record.
        if kills % 2 == 1:
            with open(max(glob.glob("runs/train/*")), "r+b") as newest:
                begin = newest.read(40)
                newest.seek(0, os.SEEK_END)
                newest.write(begin)
    assert process.returncode == 0 and kills >= 3, (kills, said)
    found = our_reader("runs")
    compare(found, expected, "our reader")
    theirs = their_reader("runs")
    if theirs is None:
        print("TensorBoard is not installed: its own reader is not asked")
    else:
        compare(theirs, expected, "TensorBoard's reader")
        assert theirs == found
        print("TensorBoard's own reader says the same")
    files = len(glob.glob("runs/train/*"))
    print(f"{kills} kills, {files} files of training")
    # Gone on with when all is done, nothing changes; begun anew, a run replaces its files.
    assert subprocess.run(command(*MESHES[0]), capture_output=True, check=False).returncode == 0
    assert our_reader("runs") == found
    begun = subprocess.run(command(*MESHES[0], "--set", "checkpoint=~", "--set", "fit.epochs=1"),
                           capture_output=True, text=True, check=False)
    assert begun.returncode == 0, begun.stdout + begun.stderr
    assert [step for step, _ in our_reader("runs")["train"]["epoch_loss"]] == [0]


main()
