"""Keras's weights files in the program, against h5py and numpy alone.

    keras_weights.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2

A file laid out as Keras writes it is evaluated and predicted with, and gives what numpy works out
from the same numbers; imported, trained on from and exported, every array is where Keras looks for
it. Wrong files each give one message and status 2. Exit status 77: there is no h5py.
"""
import fcntl
import os
import shutil
import subprocess
import sys

try:
    import h5py
    import numpy
except ImportError as problem:
    print(problem)
    sys.exit(77)

meshwork, launcher = sys.argv[1], sys.argv[2:]
failures = 0

CONFIGURATION = """
data:
  train: {kind: hdf5, features: "data.h5:/x", targets: "data.h5:/y"}
  batch_size: 25
model:
  input: [6, 6, 1]
  layers:
    - Conv2D: {name: c, filters: 3, kernel_size: 3}
    - BatchNormalization: {name: n}
    - ReLU:
    - Flatten:
    - Dense: {name: d, units: 8, activation: relu}
    - Sequential: {name: head, layers: [{Dense: {units: 4}}]}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {Adam: {learning_rate: 0.01}}
metrics: [accuracy]
fit: {epochs: 1}
checkpoint: {directory: imported}
"""

# By variable: where Keras has it, its shape, and whether it is trained. In Keras's order.
VARIABLES = {
    "c/kernel": ("layers/conv2d/vars/0", (3, 3, 1, 3), True),
    "c/bias": ("layers/conv2d/vars/1", (3,), True),
    "n/gamma": ("layers/batch_normalization/vars/0", (3,), True),
    "n/beta": ("layers/batch_normalization/vars/1", (3,), True),
    "n/moving_mean": ("layers/batch_normalization/vars/2", (3,), False),
    "n/moving_variance": ("layers/batch_normalization/vars/3", (3,), False),
    "d/kernel": ("layers/dense/vars/0", (48, 8), True),
    "d/bias": ("layers/dense/vars/1", (8,), True),
    "head/dense/kernel": ("layers/sequential/layers/dense/vars/0", (8, 4), True),
    "head/dense/bias": ("layers/sequential/layers/dense/vars/1", (4,), True),
}


def check(condition, what):
    global failures
    if not condition:
        print("WRONG:", what)
        failures += 1


def run(*arguments, status=0, ranks=True):
    """Runs the program and gives what it says; `status` is what it has to end with."""
    command = (launcher if ranks else []) + [meshwork, *arguments]
    # Open MPI's launcher waits two seconds for ranks that have ended, after one that failed.
    environment = dict(os.environ, OMPI_MCA_odls_base_sigkill_timeout="0")
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    said = ended.stdout + ended.stderr
    check(ended.returncode == status,
          f"{' '.join(arguments)}: status {ended.returncode} instead of {status}\n{said}")
    return said


def write_keras(name, values, **changes):
    """A file as Keras writes it; `changes` are arrays by place, None for one to leave out."""
    with h5py.File(name, "w") as file:
        file.create_group("vars").attrs["name"] = "functional"
        for layer in ("input_layer", "conv2d", "batch_normalization", "re_lu", "flatten", "dense"):
            file.create_group(f"layers/{layer}/vars").attrs["name"] = layer
        for variable, (place, _, _) in VARIABLES.items():
            file[place] = values[variable]
        for place, array in changes.items():
            if place in file:
                del file[place]
            if array is not None:
                file[place] = array


def numpy_model(values, x):
    """The outputs of the model, in double precision."""
    rows = len(x)
    v = {name: array.astype("f8") for name, array in values.items()}
    y = numpy.zeros((rows, 4, 4, 3))
    for i in range(3):
        for j in range(3):
            y += x[:, i:i + 4, j:j + 4, :] @ v["c/kernel"][i, j]
    y += v["c/bias"]
    y = (y - v["n/moving_mean"]) / numpy.sqrt(v["n/moving_variance"] + 1e-3)
    y = numpy.maximum(y * v["n/gamma"] + v["n/beta"], 0).reshape(rows, -1)
    y = numpy.maximum(y @ v["d/kernel"] + v["d/bias"], 0)
    return y @ v["head/dense/kernel"] + v["head/dense/bias"]


def numbers_in(said):
    """{"loss": 0.3, "accuracy": 0.9} of "loss: 0.3 - accuracy: 0.9"."""
    line = [text for text in said.splitlines() if text.startswith("loss: ")][-1]
    return {name: float(value) for name, value in (part.split(": ") for part in line.split(" - "))}


random = numpy.random.default_rng(7)
weights = {name: random.normal(scale=0.5, size=shape).astype("f4")
           for name, (_, shape, _) in VARIABLES.items()}
weights["n/moving_variance"] = numpy.abs(weights["n/moving_variance"]) + numpy.float32(0.5)
x = random.normal(size=(100, 6, 6, 1)).astype("f4")
outputs = numpy_model(weights, x)
# Most labels are the model's own, so that the accuracy is neither 0 nor 1.
y = numpy.where(numpy.arange(100) % 4 == 0, random.integers(0, 4, 100), outputs.argmax(1))

for folder in ("imported", "other", "folder"):
    shutil.rmtree(folder, ignore_errors=True)
with open("model.yaml", "w", encoding="utf-8") as file:
    file.write(CONFIGURATION)
with h5py.File("data.h5", "w") as file:
    file["x"] = x
    file["y"] = y.astype("i4")
write_keras("keras.weights.h5", weights)

# ---- what Keras wrote gives what its numbers say --------------------------------------------------

probabilities = numpy.exp(outputs - outputs.max(1, keepdims=True))
probabilities /= probabilities.sum(1, keepdims=True)
loss = -numpy.log(probabilities[numpy.arange(100), y]).mean()
accuracy = (outputs.argmax(1) == y).mean()
check(0.7 < accuracy < 1, f"the accuracy {accuracy} says nothing")
found = numbers_in(run("evaluate", "model.yaml", "--weights", "keras.weights.h5"))
check(abs(found["accuracy"] - accuracy) < 1e-4, f"accuracy {found}, expected {accuracy}")
check(abs(found["loss"] - loss) < 2e-4 * max(1, loss), f"loss {found}, expected {loss}")

said = run("import", "model.yaml", "keras.weights.h5", "--output", "imported")
check("imported/step-000000000.h5: 10 variables of keras.weights.h5" in said, said)
with h5py.File("imported/step-000000000.h5") as file:
    for variable, values in weights.items():
        check(numpy.array_equal(file[f"params/{variable}"][()], values), f"{variable}, imported")
found = numbers_in(run("evaluate", "model.yaml", "--checkpoint", "imported"))
check(abs(found["accuracy"] - accuracy) < 1e-4, f"accuracy {found}, expected {accuracy}")
run("predict", "model.yaml", "--checkpoint", "imported", "--output", "outputs.h5")
with h5py.File("outputs.h5") as file:
    difference = numpy.abs(file["predictions"][()] - outputs).max()
check(difference < 1e-4, f"predictions differ by {difference}")
check("equal: 10 arrays are equal" in
      run("diff", "imported", "keras.weights.h5", ranks=False), "the imported file differs")
# An optimizer that has updated nothing has no slots in Keras.
said = run("export", "imported", "--keras", "begun.weights.h5", ranks=False)
check("10 variables of imported/step-000000000.h5, step 0, without an optimizer" in said, said)
with h5py.File("begun.weights.h5") as file:
    check("optimizer" not in file, f"exported after no update: {list(file)}")
check("has checkpoints of a run, up to step 0" in
      run("import", "model.yaml", "keras.weights.h5", "--output", "imported", status=2), "again")

# ---- training goes on from it, and what it writes is where Keras looks for it --------------------

said = run("train", "model.yaml", "--resume")
check("resumed from imported/step-000000000.h5" in said, said)
run("export", "imported", "--keras", "exported.weights.h5", ranks=False)
trained = [variable for variable, (_, _, is_trained) in VARIABLES.items() if is_trained]
with h5py.File("exported.weights.h5") as exported, \
        h5py.File("imported/step-000000004.h5") as checkpoint:
    expected = {place: checkpoint[f"params/{variable}"]
                for variable, (place, _, _) in VARIABLES.items()}
    for number, variable in enumerate(trained):
        expected[f"optimizer/vars/{2 + 2 * number}"] = checkpoint[f"slots/{variable}/m"]
        expected[f"optimizer/vars/{3 + 2 * number}"] = checkpoint[f"slots/{variable}/v"]
    places = []
    exported.visititems(lambda name, item: places.append(name)
                        if isinstance(item, h5py.Dataset) else None)
    check(sorted(places) ==
          sorted([*expected, "optimizer/vars/0", "optimizer/vars/1"]), f"exported: {places}")
    for place, array in expected.items():
        copy = exported[place]
        check(copy.dtype == numpy.dtype("<f4") and copy.chunks is None, f"{place}: {copy}")
        check(numpy.array_equal(copy[()], array[()]), f"{place} is not the checkpoint's")
        check(copy[()].any(), f"{place} is all zeros")
    iteration = exported["optimizer/vars/0"]
    check(iteration.dtype == numpy.dtype("<i4") and iteration[()] == 4, f"iteration {iteration}")
    check(exported["optimizer/vars/1"][()] == numpy.float32(0.01), "learning rate")
check("equal: 26 arrays are equal" in
      run("diff", "exported.weights.h5", "imported", ranks=False), "the exported file differs")
said = run("diff", "imported/step-000000000.h5", "imported", "--weights-only", ranks=False, status=1)
check("DIFFERENT: 0 arrays are equal, 10 differ" in said, said)
run("import", "model.yaml", "exported.weights.h5", "--output", "other",
    "--set", "checkpoint.writer=plain", "--set", "checkpoint.verify=true")
with h5py.File("other/step-000000004.h5") as file:
    check(numpy.bytes_(file.attrs["writer"]) == b"plain", f"written by {file.attrs['writer']}")
os.makedirs("held", exist_ok=True)
with open("held/.lock", "w", encoding="utf-8") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    check("held belongs to another run" in
          run("import", "model.yaml", "keras.weights.h5", "--output", "held", status=1), "held")

# An output that another run is writing stays that run's, whoever asks for it.
for output, command in (("a.csv", ["predict", "model.yaml", "--data", "train", "--output"]),
                        ("a.h5", ["predict", "model.yaml", "--data", "train", "--output"]),
                        ("b.h5", ["import", "model.yaml", "keras.weights.h5", "--output"]),
                        ("a.svg", ["plan", "model.yaml", "--layout", "d/kernel", "--svg"]),
                        ("a.weights.h5", ["export", "imported", "--keras"])):
    with open(f".{output}.meshwork-lock", "w", encoding="utf-8") as lock:
        lock.write("process 4711 on node3")
        lock.flush()
        fcntl.lockf(lock, fcntl.LOCK_EX)
        said = run(*command, output, status=1, ranks=command[0] != "export")
        check(f"{output}: is being written by another run, process 4711 on node3" in said, said)
        check(not os.path.exists(output + ".meshwork-unfinished"), f"{output} has been begun")
said = run("diff", "other", "imported", ranks=False, status=1)  # of another run, by its history
check("26 arrays are equal, 0 differ" in said and "history: only B has loss" in said, said)

# ---- wrong files: one message, status 2 ----------------------------------------------------------

with open("text.weights.h5", "w", encoding="utf-8") as file:
    file.write("no weights")
with open("keras.weights.h5", "rb") as whole, open("cut.weights.h5", "wb") as cut:
    cut.write(whole.read()[:3000])
os.makedirs("folder", exist_ok=True)
write_keras("missing.weights.h5", weights, **{"layers/dense/vars/1": None})
write_keras("extra.weights.h5", weights, **{"layers/dense_1/vars/0": numpy.zeros((8, 8), "f4")})
write_keras("shape.weights.h5", weights, **{"layers/dense/vars/0": numpy.zeros((48, 9), "f4")})
write_keras("slots.weights.h5", weights, **{"optimizer/vars/0": numpy.int32(5),
                                            "optimizer/vars/1": numpy.float32(0.1),
                                            "optimizer/vars/2": numpy.zeros((3, 3, 1, 3), "f4")})
for name, message in {
        "nowhere.weights.h5": "nowhere.weights.h5: there is no such file",
        "text.weights.h5": "text.weights.h5: is no HDF5 file",
        "cut.weights.h5": "cut.weights.h5: cannot be opened; it is truncated or damaged",
        "folder": "folder: is a directory; a file of Keras's weights is expected",
        "imported/step-000000004.h5": "is a Meshwork checkpoint already",
        "data.h5": "data.h5: is an HDF5 file, but has no weights of Keras",
        "missing.weights.h5": "the model has d/bias (8), the file has no layers/dense/vars/1",
        "extra.weights.h5":
            "the file has layers/dense_1/vars/0 (8, 8), the model has nothing for it",
        "shape.weights.h5":
            "d/kernel has shape (48, 8), in the file layers/dense/vars/0 has (48, 9)",
        "slots.weights.h5": "Adam has 18 arrays of its own (iteration, learning rate, m, v for each "
                            "of 8 trained variables), the file has 3",
}.items():
    said = run("import", "model.yaml", name, "--output", "refused.h5", status=2)
    check(said.count(message) == 1, f"import of {name} says:\n{said}")
    check("MPI_ABORT" not in said and "terminate called" not in said, f"import of {name} says:\n{said}")
for place, value, message in (("optimizer/vars/1", numpy.nan, "edited.weights.h5: optimizer/vars/1: learning rate"),
                              ("optimizer/vars/3", -1, "edited.weights.h5: optimizer/vars/3 has the element -1")):
    shutil.copy("exported.weights.h5", "edited.weights.h5")
    with h5py.File("edited.weights.h5", "r+") as file:
        file[place][...] = value
    said = run("import", "model.yaml", "edited.weights.h5", "--output", "refused.h5", status=2)
    check(said.count(message) == 1, said)
check("--output: expected a PATH" in run("import", "model.yaml", "exported.weights.h5", "--output", "", status=2), "''")
check(not os.path.exists("refused.h5"), "a refused file was imported")
run("import", "model.yaml", "slots.weights.h5", "--output", "alone.h5", "--weights-only")
check("there are no checkpoints in this directory" in
      run("evaluate", "model.yaml", "--checkpoint", "folder", status=2), "an empty directory")
check("names that end with .weights.h5" in
      run("export", "imported", "--keras", "exported.h5", status=2), "a wrong name")

# ---- verify --------------------------------------------------------------------------------------

check(run("verify", "imported", "alone.h5").count(": ok: ") == 3, "verify")
with h5py.File("imported/step-000000004.h5", "r+") as file:
    file["params/d/kernel"][3, 4] += 1
said = run("verify", "imported", status=1)
check("step-000000000.h5: ok" in said and "step-000000004.h5: DAMAGED" in said and
      "params/d/kernel [" in said and said.count("DAMAGED") == 1, said)
check("there is no such file" in run("verify", "nowhere.h5", status=2), "verify of nothing")
check("params/d/kernel: the data differ from those written" in
      run("diff", "imported", "exported.weights.h5", ranks=False, status=2), "diff of damage")
said = run("evaluate", "model.yaml", "--checkpoint", "imported", status=2)
check(said.count("the data differ from those written") == 1, said)

sys.exit(1 if failures else 0)
