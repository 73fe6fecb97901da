"""A run that restores its best weights: `evaluate` finds them in the newest checkpoint.

    early_stopping.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2

The run overfits and is ended by EarlyStopping; the best epoch's own checkpoint is gone by then.
"""
import csv
import re
import shutil
import subprocess
import sys

meshwork, launcher = sys.argv[1], sys.argv[2:]

# Labels by chance: what is learnt of them says nothing of others.
CONFIGURATION = """
seed: 3
data:
  train:
    kind: synthetic
    rows: 64
    features: {kind: normal, shape: [12]}
    targets: {kind: normal, shape: [1]}
  validation: &others
    kind: synthetic
    seed: 4
    rows: 48
    features: {kind: normal, shape: [12]}
    targets: {kind: normal, shape: [1]}
  test: *others
  batch_size: 16
model:
  input: [12]
  layers:
    - Dense: {name: d1, units: 64, activation: relu}
    - Dense: {name: d2, units: 1}
loss: mse
optimizer: {Adam: {learning_rate: 0.003}}
fit:
  epochs: 60
  callbacks:
    - CSVLogger: {filename: log.csv}
    - EarlyStopping: {patience: 4, restore_best_weights: true}
checkpoint: {directory: checkpoints, keep: 2, resume: auto}
"""


def run(*arguments):
    """Runs the program and gives what it says."""
    ended = subprocess.run([*launcher, meshwork, *arguments], capture_output=True, text=True,
                           check=False)
    said = ended.stdout + ended.stderr
    if ended.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: status {ended.returncode}\n{said}")
    return said


def losses():
    """On the validation data, by epoch."""
    with open("log.csv", encoding="utf-8", newline="") as log:
        return [float(row["val_loss"]) for row in csv.DictReader(log)]


def evaluated():
    """The loss of the newest checkpoint's weights."""
    said = run("evaluate", "best.yaml", "--checkpoint", "checkpoints")
    return float(re.search(r"loss: ([0-9.]+)", said).group(1))


shutil.rmtree("checkpoints", ignore_errors=True)
with open("best.yaml", "w", encoding="utf-8") as configuration:
    configuration.write(CONFIGURATION)
run("train", "best.yaml")
before = losses()
best = min(before)
assert len(before) < 60 and len(before) == before.index(best) + 5, before
assert before[-1] > 1.01 * best, before  # the two can be told apart
for _ in range(2):
    loss = evaluated()
    # As many digits as are printed.
    assert abs(loss - best) < 1e-3 * best, f"evaluate says {loss}; by epoch it was {before}"
    resumed = run("train", "best.yaml")
    assert "the run had been ended by a callback; there is nothing left to train" in resumed, resumed
    assert losses() == before, "the resumed run trained on"
alone = run("train", "best.yaml", "--set", "fit.callbacks=[]")
assert "was there, is not now; the weights stay those that it restored" in alone, alone
print(f"evaluate gives the {best} of epoch {before.index(best) + 1} of {len(before)}")
