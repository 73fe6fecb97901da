"""Masks in the program and in Keras: padding of tokens, and Masking.

    keras_masks.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2

Keras builds the same networks and loads what the program exports before a step. Both then train:
losses, metrics and predictions have to be equal, after three steps too. Exit status 77: there is
no Keras.
"""
import os
import shutil
import subprocess
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
try:
    import h5py
    import keras
    import numpy
except ImportError as problem:
    print(problem)
    sys.exit(77)

meshwork, launcher = sys.argv[1], sys.argv[2:]
SAMPLES, LENGTH, BATCH = 24, 9, 8
TOLERANCE = 2e-5  # of predictions around 1
PRINTED = 6e-5  # four digits are printed
failures = 0

HEAD = """
data:
  train: {kind: hdf5, features: "data.h5:/x", targets: "data.h5:/y"}
  batch_size: 8
  shuffle: false
optimizer: {SGD: {learning_rate: 0.1}}
checkpoint: {directory: run}
"""

TOKENS = HEAD + """
model:
  input: {shape: [9], dtype: int32}
  layers:
    - Embedding: {name: tokens, input_dim: 11, output_dim: 6, mask_zero: true}
    - LayerNormalization: {name: norm}
    - MultiHeadAttention: {name: attention, num_heads: 2, key_dim: 4}
    - Add: {name: sum, inputs: [tokens, attention]}
    - Dense: {name: classes, units: 5}
loss: {SparseCategoricalCrossentropy: {from_logits: true%s}}
metrics: [SparseCategoricalAccuracy]
"""

SERIES = HEAD + """
model:
  input: [9, 3]
  layers:
    - Masking: {name: masking, mask_value: -1}
    - Dense: {name: hidden, units: 6, activation: tanh}
    - %s
    - Dense: {name: value, units: 1, activation: sigmoid}
loss: MeanSquaredError
metrics: [MeanAbsoluteError, BinaryAccuracy]
"""


def check(condition, what):
    global failures
    if not condition:
        print("WRONG:", what)
        failures += 1


def run(*arguments, ranks=True):
    """Runs the program and gives what it says."""
    command = (launcher if ranks else []) + [meshwork, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    if ended.returncode != 0:
        print(f"{' '.join(arguments)}: status {ended.returncode}\n{said}")
        sys.exit(1)
    return said


def numbers_in(said):
    """{"loss": 0.3, "accuracy": 0.9} of "loss: 0.3 - accuracy: 0.9"."""
    line = [text for text in said.splitlines() if text.startswith("loss: ")][-1]
    return {name: float(value) for name, value in (part.split(": ") for part in line.split(" - "))}


def compare(name, configuration, model, x, y, counted):
    """Trains in both, from the program's weights; `counted`: the predictions that are compared."""
    shutil.rmtree("run", ignore_errors=True)
    with open("model.yaml", "w", encoding="utf-8") as file:
        file.write(configuration)
    with h5py.File("data.h5", "w") as file:
        file["x"], file["y"] = x, y
    # A checkpoint of the first weights: of a run whose steps move nothing.
    run("train", "model.yaml", "--set", "fit.epochs=1", "--set", "optimizer.SGD.learning_rate=1e-30")
    run("export", "run", "--keras", "first.weights.h5", ranks=False)
    model.load_weights("first.weights.h5")
    model.optimizer.learning_rate = 0.1  # the file has that of the run
    shutil.rmtree("run")
    run("train", "model.yaml", "--set", "fit.epochs=1")
    for at in range(0, SAMPLES, BATCH):
        model.train_on_batch(x[at:at + BATCH], y[at:at + BATCH])
    ours = numbers_in(run("evaluate", "model.yaml", "--checkpoint", "run", "--data", "train"))
    theirs = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    for log, value in theirs.items():
        check(abs(ours[log] - value) <= PRINTED, f"{name}: {log} is {ours[log]}, in Keras {value}")
    run("predict", "model.yaml", "--checkpoint", "run", "--data", "train", "--output", "outputs.h5",
        "--overwrite")
    with h5py.File("outputs.h5") as file:
        found = file["predictions"][()]
    difference = numpy.abs(found - model.predict(x, batch_size=BATCH, verbose=0))[counted].max()
    check(difference <= TOLERANCE, f"{name}: predictions differ by {difference}")
    print(f"{name}: ours {ours}, Keras {theirs}, predictions differ by {difference}")


random = numpy.random.default_rng(3)
lengths = random.integers(1, LENGTH + 1, SAMPLES)
places = numpy.arange(LENGTH) < lengths[:, None]
tokens = numpy.where(places, random.integers(1, 11, (SAMPLES, LENGTH)), 0).astype("i4")
labels = random.integers(0, 5, (SAMPLES, LENGTH)).astype("i4")
labels[:, 2] = 4

for ignored in (None, 4):
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(11, 6, mask_zero=True)(inputs)
    # The attention takes the mask away from its input.
    y = keras.layers.LayerNormalization()(x)
    x = keras.layers.Add()([x, keras.layers.MultiHeadAttention(2, 4)(y, y)])
    network = keras.Model(inputs, keras.layers.Dense(5)(x))
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True,
                                                                    ignore_class=ignored),
                    optimizer=keras.optimizers.SGD(0.1),
                    # Keras's metrics count an ignored class of the loss, the program's do not.
                    metrics=[] if ignored else [keras.metrics.SparseCategoricalAccuracy()])
    compare(f"tokens, ignoring {ignored}", TOKENS % (", ignore_class: 4" if ignored else ""), network,
            tokens, labels, places)

series = random.normal(size=(SAMPLES, LENGTH, 3)).astype("f4")
series[~places] = -1
for pooled in (False, True):
    inputs = keras.Input((LENGTH, 3))
    x = keras.layers.Masking(mask_value=-1.0)(inputs)
    x = keras.layers.Dense(6, activation="tanh")(x)
    if pooled:
        x = keras.layers.GlobalAveragePooling1D()(x)
    network = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    network.compile(loss="mse", optimizer=keras.optimizers.SGD(0.1),
                    metrics=[keras.metrics.MeanAbsoluteError(), keras.metrics.BinaryAccuracy()])
    values = random.integers(0, 2, (SAMPLES, 1) if pooled else (SAMPLES, LENGTH, 1)).astype("f4")
    compare("series, pooled" if pooled else "series",
            SERIES % ("GlobalAveragePooling1D:" if pooled else "Identity:"), network, series, values,
            numpy.ones(SAMPLES, bool) if pooled else places)

print("ok" if failures == 0 else f"{failures} failures")
sys.exit(failures != 0)
