"""A transformer in the program and in Keras: configs/gpt_mini.yaml.

    keras_transformer.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2

Keras builds the same network, and loads what the program exports after some steps, with the state
of AdamW. It gives the program's outputs, and its next steps the program's. What it saves then gives
its outputs in the program, which trains on from there. Exit status 77: there is no Keras.
"""
import os
import shutil
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.dont_write_bytecode = True  # the folder of the sources stays as it is
try:
    import h5py  # transformer_run.py needs it
    import keras
    import numpy
except ImportError as problem:
    print(problem)
    sys.exit(77)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from transformer_run import (BATCH, BLOCKS, BYTES, DATA_SETTINGS, HEADS, HIDDEN, LENGTH, STEPS,
                             WIDTH, check, checkpoint, configuration, finish, predictions, run,
                             write_text)  # noqa: E402
if not hasattr(keras.layers, "ReversibleEmbedding"):
    print(f"Keras {keras.__version__} has no ReversibleEmbedding")
    sys.exit(77)

# A rate that stays.
SETTINGS = DATA_SETTINGS + ["--set", "optimizer.AdamW.learning_rate=0.001"]
# Of logits around 1 behind four blocks of products of up to 512 terms. Ten steps round each weight
# apart by some 3e-7, which a logit of 128 products multiplies by 11.
TOLERANCE = 1e-5
differences = []


class PositionEmbedding(keras.layers.Layer):
    """keras_hub.layers.PositionEmbedding."""

    def build(self, shape):
        self.position_embeddings = self.add_weight(name="embeddings", shape=shape[1:])

    def call(self, inputs):
        return keras.ops.broadcast_to(self.position_embeddings, keras.ops.shape(inputs))


def normalization():
    return keras.layers.LayerNormalization(epsilon=1e-5)


class Block(keras.layers.Layer):
    """What the configuration repeats, its members by the names that they have there."""

    def __init__(self, **options):
        super().__init__(**options)
        self.layer_normalization = normalization()
        self.attention = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.layer_normalization_1 = normalization()
        self.hidden = keras.layers.Dense(
            HIDDEN, activation=lambda x: keras.activations.gelu(x, approximate=True))
        self.back = keras.layers.Dense(WIDTH)

    def build(self, shape):
        self.layer_normalization.build(shape)
        self.attention.build(shape, shape)
        self.layer_normalization_1.build(shape)
        self.hidden.build(shape)
        self.back.build((*shape[:-1], HIDDEN))

    def call(self, x):
        y = self.layer_normalization(x)
        x = x + self.attention(y, y, use_causal_mask=True)
        return x + self.back(self.hidden(self.layer_normalization_1(x)))


def keras_model():
    inputs = keras.Input((LENGTH,), dtype="int32")
    tokens = keras.layers.ReversibleEmbedding(BYTES, WIDTH)
    x = tokens(inputs)
    x = keras.layers.Add()([x, PositionEmbedding()(x)])
    for _ in range(BLOCKS):
        x = Block()(x)
    model = keras.Model(inputs, tokens(normalization()(x), reverse=True))
    optimizer = keras.optimizers.AdamW(learning_rate=1e-3, beta_2=0.99, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "scale"])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  optimizer=optimizer)
    optimizer.build(model.trainable_variables)  # else its state is not loaded
    return model


def compare(model, weights, what):
    difference = numpy.abs(model.predict(x, verbose=0) - predictions(weights)).max()
    differences.append(float(difference))
    check(difference <= TOLERANCE, f"{what}: outputs differ by {difference}")


def steps_of(model):
    for at in range(0, len(x), BATCH):
        model.train_on_batch(x[at:at + BATCH], y[at:at + BATCH])


x, y = write_text()
for folder in ("ours", "longer", "back"):
    shutil.rmtree(folder, ignore_errors=True)

# ---- Keras goes on from what the program exports -------------------------------------------------

run("train", configuration, *SETTINGS, "--set", "fit.epochs=1", "--set", "checkpoint.directory=ours")
run("export", "ours", "--keras", "ours.weights.h5", ranks=False)
model = keras_model()
model.load_weights("ours.weights.h5")
check(int(model.optimizer.iterations) == STEPS, f"iterations {model.optimizer.iterations}")
compare(model, checkpoint("ours", STEPS), "what was exported")

run("train", configuration, *SETTINGS, "--set", "fit.epochs=2", "--set",
    "checkpoint.directory=longer")
steps_of(model)
moved = numpy.abs(predictions(checkpoint("longer", 2 * STEPS)) -
                  predictions(checkpoint("longer", STEPS))).max()
check(moved > 0.1, f"{STEPS} steps move outputs by {moved} alone")
compare(model, checkpoint("longer", 2 * STEPS), f"{STEPS} steps after the export")

# ---- the program goes on from what Keras saves ---------------------------------------------------

model.save_weights("theirs.weights.h5")
compare(model, "theirs.weights.h5", "what Keras saved")
run("import", configuration, "theirs.weights.h5", *SETTINGS, "--output", "back")
# Keras's files know of steps, not of epochs.
said = run("train", configuration, *SETTINGS, "--set", "fit.epochs=1", "--set",
           "checkpoint.directory=back", "--resume")
check(f"resumed from {checkpoint('back', 2 * STEPS)}" in said, said)
steps_of(model)
compare(model, "back", f"{STEPS} steps after the import")

print(f"differences: {differences}")
finish()
