"""The numbers of layers, losses, metrics, optimizers, regularizers and constraints, in Keras and in the program.

    keras_numbers.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2

What draws nothing has to give Keras's numbers. For each, Keras builds a small network and saves its
weights; the program takes them up, and both train some steps on the same batches. Loss, metrics and
predictions are compared behind that, so gradients and updates are too. Options have the same names,
so each is written once. Exit status 77: there is no Keras.
"""
import json
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
SAMPLES = 12
# Sums of at most some hundred float32 products in another order, and up to three steps from there.
TOLERANCE = 5e-5
failures = 0
compared = 0
largest = 0
random = numpy.random.default_rng(3)


def keras_name(kind, name):
    """The class of that name in Keras's module."""
    return getattr(getattr(keras, kind), name)


def made(kind, name, options):
    """Keras's object, whose options may be objects too: {"L2": {...}} of a regularizer."""
    given = {}
    for key, value in options.items():
        for part in ("regularizer", "constraint"):
            if key.endswith(part):
                (inner, of), = value.items()
                value = keras_name(part + "s", inner)(**of)
        given[key] = value
    return keras_name(kind, name)(**given)


def run(*arguments):
    """Runs the program; status and what it says."""
    ended = subprocess.run(launcher + [meshwork, *arguments], capture_output=True, text=True,
                           check=False)
    return ended.returncode, ended.stdout + ended.stderr


def compare(what, layers, x, y, loss=("MeanSquaredError", {}), metrics=(),
            optimizer=("SGD", {"learning_rate": 0.1}), steps=1, counted=...):
    """Trains `layers` in both. Each is a name and options, and perhaps which layers it takes, by their
    numbers; else it takes the one before, the first the input. `counted`: the predictions that are
    compared, of all."""
    global failures, compared, largest
    compared += 1

    def wrong(problem):
        global failures
        failures += 1
        print(f"WRONG: {what}: {problem}")

    keras.utils.clear_session()
    keras.utils.set_random_seed(compared)
    inputs = keras.Input(x.shape[1:], dtype=str(x.dtype))
    values, written = [], []
    for name, options, *taken in layers:
        taken = taken[0] if taken else [len(values) - 1]
        given = [values[i] if i >= 0 else inputs for i in taken]
        layer = made("layers", name, options)
        is_list = len(given) > 1 and not name.endswith("Attention")
        values.append(layer(given) if is_list else layer(*given))
        names = [f"layer{i}" if i >= 0 else "input" for i in taken]
        written.append({name: {**options, "name": f"layer{len(values) - 1}", "inputs": names}})
    outputs = values[-1]
    model = keras.Model(inputs, outputs)
    model.compile(loss=keras_name("losses", loss[0])(**loss[1]),
                  optimizer=keras_name("optimizers", optimizer[0])(**optimizer[1]),
                  metrics=[keras_name("metrics", name)(**options) for name, options in metrics])
    model.save_weights("first.weights.h5")
    for folder in ("run", "log.jsonl"):
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.exists(folder):
            os.remove(folder)
    targets = y if y is not None else random.normal(size=(len(x),) + outputs.shape[1:]).astype("f4")
    with h5py.File("data.h5", "w") as file:
        file["x"], file["y"] = x, targets
    data = {"kind": "hdf5", "features": "data.h5:/x", "targets": "data.h5:/y"}
    configuration = {
        "data": {"train": data, "validation": data, "batch_size": len(x), "shuffle": False},
        "model": {"input": {"shape": list(x.shape[1:]), "dtype": str(x.dtype)}, "layers": written},
        "loss": {loss[0]: loss[1]}, "optimizer": {optimizer[0]: optimizer[1]},
        "metrics": [{name: options} for name, options in metrics],
        "fit": {"epochs": steps}, "checkpoint": {"directory": "run"}, "log": {"jsonl": "log.jsonl"}}
    with open("model.yaml", "w", encoding="utf-8") as file:
        json.dump(configuration, file)
    status, said = run("train", "model.yaml", "--weights", "first.weights.h5")
    if status == 0:
        status, said = run("predict", "model.yaml", "--checkpoint", "run", "--data", "train",
                           "--output", "outputs.h5", "--overwrite")
    if status != 0:
        wrong(f"status {status}\n{said}")
        return
    for _ in range(steps):
        model.train_on_batch(x, targets)
    with h5py.File("outputs.h5") as file:
        found = file["predictions"][()]
    expected = model.predict(x, batch_size=len(x), verbose=0)
    difference = numpy.abs(found - expected)[counted].max() if found.size else 0
    difference /= max(1, numpy.abs(expected).max())
    largest = max(largest, difference)
    if not difference <= TOLERANCE:
        wrong(f"predictions differ by {difference} of the largest")
    with open("log.jsonl", encoding="utf-8") as file:
        ours = [line for line in map(json.loads, file) if "val_loss" in line][-1]
    theirs = model.evaluate(x, targets, batch_size=len(x), verbose=0, return_dict=True)
    for name, value in theirs.items():
        values = numpy.atleast_1d(numpy.asarray(value, dtype="f8"))
        for i, one in enumerate(values):
            key = f"val_{name}" if len(values) == 1 else f"val_{name}_{i}"
            if key not in ours:
                wrong(f"no log {key} among {sorted(ours)}")
            elif not abs(ours[key] - one) <= TOLERANCE * max(1, abs(one)):
                wrong(f"{name} is {ours[key]}, in Keras {one}")


def numbers(*shape):
    return random.normal(size=(SAMPLES, *shape)).astype("f4")


FRONT = ("Dense", {"units": 4})  # whose gradient is that of the layer's input

# Layers, by the samples that they take.
LAYERS = {
    (6,): """Dense:units=3,activation=tanh Dense:units=3,use_bias=False Flatten ReLU
        ReLU:max_value=0.7,negative_slope=0.1 LeakyReLU:negative_slope=0.2 ELU PReLU Softmax Identity
        UnitNormalization LayerNormalization LayerNormalization:epsilon=0.1 RMSNormalization
        GroupNormalization:groups=2 Rescaling:scale=0.5,offset=0.1 RepeatVector:n=3 Reshape:target_shape=[2,2]
        ActivityRegularization:l2=0.1""",
    (5, 3): """Conv1D:filters=3,kernel_size=3 Conv1D:filters=3,kernel_size=2,padding=causal,dilation_rate=2
        Conv1DTranspose:filters=3,kernel_size=3,strides=2 SeparableConv1D:filters=3,kernel_size=2
        DepthwiseConv1D:kernel_size=3,padding=same MaxPooling1D:pool_size=2 AveragePooling1D:pool_size=2,padding=same
        GlobalAveragePooling1D GlobalMaxPooling1D UpSampling1D:size=2 ZeroPadding1D:padding=2
        Cropping1D:cropping=1 Permute:dims=[2,1] AdaptiveAveragePooling1D:output_size=2
        AdaptiveMaxPooling1D:output_size=2 EinsumDense:equation=abc@cd->abd,output_shape=[5,2],bias_axes=d
        Flatten Softmax:axis=1 LayerNormalization RMSNormalization""",
    (6, 5, 3): """Conv2D:filters=3,kernel_size=3 Conv2D:filters=4,kernel_size=3,padding=same,strides=2,groups=2
        Conv2DTranspose:filters=3,kernel_size=3,strides=2,padding=same DepthwiseConv2D:kernel_size=3
        SeparableConv2D:filters=3,kernel_size=3 MaxPooling2D:pool_size=2 AveragePooling2D:pool_size=2,padding=same
        GlobalAveragePooling2D:keepdims=True GlobalMaxPooling2D UpSampling2D:size=2
        UpSampling2D:size=2,interpolation=bilinear ZeroPadding2D:padding=1 Cropping2D:cropping=1
        CenterCrop:height=4,width=3 Resizing:height=4,width=4 AdaptiveAveragePooling2D:output_size=[2,3]
        AdaptiveMaxPooling2D:output_size=[2,3] BatchNormalization GroupNormalization:groups=4 PReLU:shared_axes=[1,2]""",
    (4, 4, 4, 2): """Conv3D:filters=2,kernel_size=2 Conv3DTranspose:filters=2,kernel_size=2,strides=2
        MaxPooling3D:pool_size=2 AveragePooling3D:pool_size=2 GlobalAveragePooling3D GlobalMaxPooling3D
        UpSampling3D:size=2 ZeroPadding3D:padding=1 Cropping3D:cropping=1 AdaptiveAveragePooling3D:output_size=2
        AdaptiveMaxPooling3D:output_size=3""",
}
# All that the program has; Keras has log_softmax, sparsemax and threshold beside them.
ACTIVATIONS = """celu elu exponential gelu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear
    log_sigmoid mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign
    sparse_plus squareplus tanh tanh_shrink""".split()
MERGING = "Add Average Concatenate Concatenate:axis=1 Maximum Minimum Multiply Subtract Dot:axes=1".split()
REGULARIZERS = "L1:l1=0.1 L2:l2=0.1 L1L2:l1=0.1,l2=0.1 OrthogonalRegularizer:factor=0.1".split()
CONSTRAINTS = "MaxNorm:max_value=0.5 MinMaxNorm:min_value=0.5,max_value=0.6,rate=0.5 NonNeg UnitNorm".split()
OPTIMIZERS = """Adadelta Adafactor Adagrad Adam Adam:amsgrad=True AdamW Adamax Ftrl Lamb Lion Muon Nadam RMSprop
    RMSprop:centered=True,momentum=0.5 SGD SGD:momentum=0.9 SGD:momentum=0.9,nesterov=True SGD:clipnorm=0.1
    SGD:clipvalue=0.01 SGD:global_clipnorm=0.1 SGD:weight_decay=0.1 ScheduleFreeAdamW""".split()
LOSSES = {
    "numbers": """MeanSquaredError MeanAbsoluteError MeanAbsolutePercentageError Huber:delta=0.5 LogCosh
        CosineSimilarity""",
    "positive": "MeanSquaredLogarithmicError Poisson",
    "yes or no": """BinaryCrossentropy:from_logits=True,label_smoothing=0.1 BinaryCrossentropy
        BinaryFocalCrossentropy BinaryFocalCrossentropy:apply_class_balancing=True Hinge SquaredHinge Dice Tversky""",
    "one-hot": """CategoricalCrossentropy:from_logits=True,label_smoothing=0.1 CategoricalCrossentropy
        CategoricalFocalCrossentropy CategoricalHinge KLDivergence""",
    "classes": """SparseCategoricalCrossentropy:from_logits=True SparseCategoricalCrossentropy
        CategoricalGeneralizedCrossEntropy""",
    "labels": "Circle",
}
METRICS = {
    "numbers": """MeanSquaredError RootMeanSquaredError MeanAbsoluteError MeanAbsolutePercentageError
        CosineSimilarity LogCoshError R2Score PearsonCorrelation ConcordanceCorrelation""",
    "positive": "MeanSquaredLogarithmicError Poisson KLDivergence",
    "yes or no": """BinaryAccuracy BinaryCrossentropy AUC:num_thresholds=50 Precision Recall TruePositives FalsePositives
        TrueNegatives FalseNegatives PrecisionAtRecall:recall=0.5 RecallAtPrecision:precision=0.5
        SensitivityAtSpecificity:specificity=0.5 SpecificityAtSensitivity:sensitivity=0.5 Hinge SquaredHinge
        F1Score:threshold=0.5 FBetaScore:beta=2.0,threshold=0.5 BinaryIoU:target_class_ids=[0,1]""",
    "one-hot": """CategoricalAccuracy CategoricalCrossentropy TopKCategoricalAccuracy:k=2 CategoricalHinge
        F1Score:average=macro OneHotIoU:num_classes=4,target_class_ids=[0,2] OneHotMeanIoU:num_classes=4""",
    "classes": """SparseCategoricalAccuracy SparseCategoricalCrossentropy SparseTopKCategoricalAccuracy:k=2""",
}


def parsed(text):
    """("Conv1D", {"filters": 3}) of "Conv1D:filters=3"."""
    name, _, options = text.partition(":")
    given, depth, start = {}, 0, 0
    for i, letter in enumerate(options + ","):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0 and i > start:
            key, _, value = options[start:i].partition("=")
            try:
                given[key] = json.loads({"True": "true", "False": "false"}.get(value, value))
            except ValueError:
                given[key] = value.replace("@", ",")
            start = i + 1
    return name, given


def targets_of(kind):
    """Targets, and the layers behind which predictions are of their kind."""
    classes = random.integers(0, 4, SAMPLES)
    if kind == "numbers":
        return numbers(4), [FRONT]
    if kind == "positive":
        return numpy.abs(numbers(4)), [("Dense", {"units": 4, "activation": "softplus"})]
    if kind == "yes or no":
        return random.integers(0, 2, (SAMPLES, 4)).astype("f4"), [
            ("Dense", {"units": 4, "activation": "sigmoid"})]
    if kind == "one-hot":
        return numpy.eye(4, dtype="f4")[classes], [("Dense", {"units": 4, "activation": "softmax"})]
    if kind == "classes":
        return classes.astype("i4"), [("Dense", {"units": 4, "activation": "softmax"})]
    return classes.astype("i4"), [FRONT, ("UnitNormalization", {})]


for shape, texts in LAYERS.items():
    for text in texts.split():
        compare(text, [FRONT, parsed(text)], numbers(*shape), None)
for text in MERGING:
    of_input = [("Dense", {"units": 4}, [-1]), ("Dense", {"units": 4}, [-1])]
    compare(text, [*of_input, (*parsed(text), [0, 1])], numbers(5, 3), None)
for name in ACTIVATIONS:
    compare(name, [FRONT, ("Activation", {"activation": name})], numbers(6), None)
for text in REGULARIZERS:
    name, options = parsed(text)
    compare(text, [("Dense", {"units": 4, "kernel_regularizer": {name: options}})], numbers(6), None)
for text in CONSTRAINTS:
    name, options = parsed(text)
    compare(text, [("Dense", {"units": 4, "kernel_constraint": {name: options}})], numbers(6), None)
for text in OPTIMIZERS:
    name, options = parsed(text)
    compare(text, [FRONT, ("Dense", {"units": 3, "activation": "tanh"})], numbers(6), None,
            optimizer=(name, {"learning_rate": 0.01, **options}), steps=3)
for kind, texts in LOSSES.items():
    for text in texts.split():
        y, layers = targets_of(kind)
        compare(text, layers, numbers(6), y, loss=parsed(text))
for kind, texts in METRICS.items():
    y, layers = targets_of(kind)
    loss = "SparseCategoricalCrossentropy" if kind == "classes" else "MeanSquaredError"
    compare(f"metrics of {kind}", layers, numbers(6), y, loss=(loss, {}),
            metrics=[parsed(text) for text in texts.split()])

# Sequences of unequal lengths, padded: by the number 0, and by vectors of -1.
LENGTH = 9
PLACES = numpy.arange(LENGTH) < random.integers(1, LENGTH + 1, SAMPLES)[:, None]
tokens = numpy.where(PLACES, random.integers(1, 11, PLACES.shape), 0).astype("i4")
labels = random.integers(0, 5, PLACES.shape).astype("i4")
# In Keras an attention takes the mask away from its input, so that a norm stands between.
ENCODER = [("Embedding", {"input_dim": 11, "output_dim": 6, "mask_zero": True}),
           ("LayerNormalization", {}),
           ("MultiHeadAttention", {"num_heads": 2, "key_dim": 4}, [1, 1]),
           ("Add", {}, [0, 2]), ("Dense", {"units": 5})]
for ignored in ({}, {"ignore_class": 4}):
    # Keras's metrics count an ignored class of the loss, the program's do not.
    compare(f"padded tokens, {ignored}", ENCODER, tokens, labels, steps=3, counted=PLACES,
            loss=("SparseCategoricalCrossentropy", {"from_logits": True, **ignored}),
            metrics=[] if ignored else [("SparseCategoricalAccuracy", {})])
series = numbers(LENGTH, 3)
series[~PLACES] = -1
for pooling in ([], [("GlobalAveragePooling1D", {})]):
    shape = (SAMPLES, 1) if pooling else (SAMPLES, LENGTH, 1)
    compare(f"padded series {pooling}", [
        ("Masking", {"mask_value": -1.0}), ("Dense", {"units": 6, "activation": "tanh"}), *pooling,
        ("Dense", {"units": 1, "activation": "sigmoid"})],
            series, random.integers(0, 2, shape).astype("f4"), steps=3,
            counted=... if pooling else PLACES,
            metrics=[("MeanAbsoluteError", {}), ("BinaryAccuracy", {})])

print(f"{compared} compared, predictions differ by {largest:.2g} of the largest at most")
print("ok" if failures == 0 else f"{failures} failures")
sys.exit(failures != 0)
