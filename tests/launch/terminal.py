#!/usr/bin/env python3
"""What a person sees: runs commands in a pseudo-terminal and looks at its screen.

usage: terminal.py MESHWORK CONFIGS MPIRUN...
"""
import fcntl, os, pty, re, select, struct, subprocess, sys, tempfile, termios, time

meshwork, configs, mpirun = sys.argv[1], sys.argv[2], sys.argv[3:]

CONFIG = """
seed: 3
data:
  train: {kind: synthetic, rows: 40000, features: {kind: normal, shape: [64]}, targets: {kind: classes, classes: 10}}
  test: {kind: synthetic, rows: 64, features: {kind: normal, shape: [64]}, targets: {kind: classes, classes: 10}}
  batch_size: 64
model:
  input: [64]
  layers:
LAYERS
    - Dense: {name: out, units: 10}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {Adam: {learning_rate: 0.01}}
metrics: [{SparseCategoricalAccuracy: {}}, {SparseTopKCategoricalAccuracy: {}}]
fit: {epochs: 2, validation_split: 0.2}
"""


def set_columns(descriptor, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))


def on_terminal(command, columns, environment=(), narrow_to=None):
    """The status and all that came; `narrow_to` columns after the first half second of bars."""
    main, side = pty.openpty()
    set_columns(side, columns)
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    env.update({"TERM": "xterm-256color"}, **dict(environment))
    process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=env)
    os.close(side)
    out, narrowed = b"", None
    while True:
        ready = select.select([main], [], [], 60)[0]
        try:
            piece = os.read(main, 65536) if ready else b""
        except OSError:
            piece = b""
        if not piece:
            break
        out += piece
        if narrow_to and narrowed is None and out.count("━".encode()) > 20:
            set_columns(main, narrow_to)
            narrowed = len(out)
    status = process.wait()
    os.close(main)
    return status, out.decode(), narrowed


def widths(text):
    """The columns of every piece that is drawn from the left edge on."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return [(len(piece.rstrip(" ")), piece) for piece in re.split(r"[\r\n]+", text)]


def check(condition, what, shown=""):
    if not condition:
        print(f"FAILED: {what}\n{shown}")
        sys.exit(1)


def fits(text, columns, what):
    for width, piece in widths(text):
        check(width <= columns, f"{what}: {width} columns", piece)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)

    def config(layers):
        with open("run.yaml", "w") as file:
            file.write(CONFIG.replace("LAYERS", "\n".join(
                f"    - Dense: {{name: hidden_{i}, units: 64, activation: relu}}" for i in range(layers))))

    config(3)
    for launcher, what in (([], "alone"), ([*mpirun, "2"], "on two ranks")):
        status, text, _ = on_terminal([*launcher, meshwork, "train", "run.yaml"], 80)
        check(status == 0, what, text)
        fits(text, 80, what)
        for part in ("layer (class)", "hidden_1 (Dense)", "4,160", "13,130 parameters", "mesh ", "seed ",
                     "precision ", "32000 samples to train on", "8000 samples for validation",
                     "batches of 64, 500 steps an epoch, 2 epochs", "version ", "\x1b[32m",
                     "no checkpoints: this run cannot be resumed"):
            check(part in text, f"{what}: {part}", text)
        check(text.index("layer (class)") < text.index("Epoch 1/2"), f"{what}: the order", text)
        # Whole names at the end of an epoch, on as many lines as it takes.
        last = text[text.index("Epoch 2/2"):]
        for name in ("sparse_categorical_accuracy", "val_sparse_top_k_categorical_accuracy", "val_loss"):
            check(f"{name}: 0." in last or f"{name}: 2." in last, f"{what}: {name}", last)
        check(len(last.split("\n")) < 12, f"{what}: lines of an epoch", last)

    status, text, _ = on_terminal([meshwork, "train", "run.yaml"], 80, {"NO_COLOR": "1"})
    check(status == 0 and not re.search(r"\x1b\[[0-9;]*m", text), "NO_COLOR", text)
    status, text, _ = on_terminal([meshwork, "train", "nowhere.yaml"], 80)
    check(status == 2 and "\x1b[31m" in text, "an error in red", text)

    status, text, narrowed = on_terminal([meshwork, "train", "run.yaml", "--set", "data.train.rows=300000"], 100,
                                        narrow_to=60)
    check(status == 0 and narrowed, "a narrower terminal", text)
    # What was on its way when the terminal became narrower may still be as wide as before.
    rest = text[len(text.encode()[:narrowed].decode(errors="ignore")) + 200:]
    fits(rest[rest.index("\r"):], 60, "a narrower terminal")
    check(rest.count("\n") < 24, "a narrower terminal: lines", rest)

    # Tables of the other commands fit as well, and status has a colour on a terminal alone.
    config(3)
    long = [meshwork, "train", "run.yaml", "--set", "fit.epochs=2", "--set", "fit.steps_per_epoch=60",
            "--set", "optimizer={RMSprop: {momentum: 0.9, centered: true}}"]
    status, text, _ = on_terminal([*long, "--set", "fit.profile=true", "--set", "checkpoint.directory=one"], 80)
    check(status == 0 and "rank 0 by instruction" in text and "matmul" in text, "a profile", text)
    fits(text, 80, "a profile")
    status, text, _ = on_terminal([*long, "--set", "checkpoint.directory=two", "--seed", "4"], 80)
    check(status == 0, "another run", text)
    green, red = "\x1b[32m", "\x1b[31m"
    for command, expected, wanted, colour in (
            (["inspect", "one"], 0, ("hidden_1", "val_sparse_top_k_categorical_accuracy", "configuration"), ""),
            (["verify", "one"], 0, (f"{green}ok",), green),
            (["diff", "one", "one"], 0, (f"{green}equal",), green),
            (["diff", "one", "two"], 1, (f"{red}DIFFERENT", "largest difference", "\x1b[33m  seed"), red),
            (["devices", "--mesh", "data=1"], 0, ("processor",), "")):
        what = " ".join(command)
        status, text, _ = on_terminal([meshwork, *command], 80)
        check(status == expected, what, text)
        fits(text, 80, what)
        for part in wanted:
            check(part in text, f"{what}: {part}", text)
        check(bool(re.search(r"\x1b\[[0-9;]*m", text)) == bool(colour), f"{what}: colours", text)
        plain = subprocess.run([meshwork, *command], capture_output=True, text=True).stdout
        check(plain and "\x1b" not in plain, f"{what}: a file has no colours", plain)
        status, text, _ = on_terminal([meshwork, *command], 80, {"NO_COLOR": "1"})
        check("\x1b[" not in text, f"{what}: NO_COLOR", text)
    with open(os.path.join("two", sorted(os.listdir("two"))[-1]), "r+b") as file:
        file.seek(os.path.getsize(file.name) // 2)
        file.write(b"\xff" * 256)
    status, text, _ = on_terminal([meshwork, "verify", "two"], 80)
    check(status == 1 and f"{red}DAMAGED" in text, "a damaged checkpoint", text)

    # A model of many layers is cut; `summary` shows all.
    config(40)
    status, text, _ = on_terminal([meshwork, "train", "run.yaml", "--set", "fit.steps_per_epoch=2"], 80)
    fits(text, 80, "a long model")
    check("... 21 more layers; `meshwork summary` shows them all" in text and "hidden_9 " in text
          and "hidden_10 " not in text and "hidden_31 " in text, "a long model", text)
    status, text, _ = on_terminal([meshwork, "summary", "run.yaml", "--mesh", "data=2,model=2"], 80)
    check(status == 0 and "hidden_10 " in text and "data=2 x model=2, 4 ranks" in text, "summary", text)

    guide = os.path.join(configs, "keras_guide_mlp.yaml")
    split = ["--mesh", "data=2,model=4", "--set", "layout={d1/kernel: [~, model], d2/kernel: [model, ~]}"]
    for command, columns in (("plan", 80), ("summary", 80), ("plan", 120)):
        status, text, _ = on_terminal([meshwork, command, guide, *split], columns)
        check(status == 0 and "[~, model]" in text, command, text)
        fits(text, columns, f"{command} on {columns} columns")

    # A file has neither.
    config(3)
    done = subprocess.run([meshwork, "train", "run.yaml"], capture_output=True, text=True)
    check(done.returncode == 0 and not re.search("[\x1b\r━]", done.stdout + done.stderr), "a file", done.stdout)
    check(re.search(r"^500/500 - \d+s - .*val_sparse_top_k_categorical_accuracy: .* samples/s$", done.stdout,
                    re.M), "a file", done.stdout)
print("passed")
