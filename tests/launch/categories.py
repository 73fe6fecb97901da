"""Texts of tables keep their numbers: in test data that lack some, and from a checkpoint.

    categories.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
"""
import os
import re
import shutil
import subprocess
import sys

meshwork, launcher = sys.argv[1], sys.argv[2:]
failures = 0

# Where each city is; numbers that are off by one give another loss.
PLACES = {"Athens": (1, 1), "Berlin": (-1, 1), "Cairo": (1, -1), "Dublin": (-1, -1)}

CONFIGURATION = """
seed: 3
data:
  train: {kind: csv, file: train.csv, features: [east, north], targets: city}
  test: {kind: csv, file: test.csv, features: [east, north], targets: city}
  batch_size: 16
model:
  input: [2]
  layers:
    - Dense: {units: 8}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {Adam: {learning_rate: 0.2}}
fit: {epochs: 40}
checkpoint: {directory: checkpoints, every_epochs: 20, resume: auto}
"""


def run(*arguments, status=0):
    """Runs the program and gives what it says."""
    ended = subprocess.run([*launcher, meshwork, *arguments], capture_output=True, text=True,
                           check=False)
    said = ended.stdout + ended.stderr
    if ended.returncode != status:
        sys.exit(f"{' '.join(arguments)}: status {ended.returncode}\n{said}")
    return said


def check(condition, what):
    global failures
    if not condition:
        print("WRONG:", what)
        failures += 1


def write(name, cities):
    with open(name, "w", encoding="utf-8") as file:
        file.write("city,east,north\n")
        for city in cities:
            east, north = PLACES.get(city, (0, 0))
            file.write(f"{city},{east},{north}\n")


def loss_of(said):
    return float(re.findall(r"loss: ([0-9.e+-]+)", said)[-1])


def main():
    shutil.rmtree("work", ignore_errors=True)
    os.makedirs("work")
    os.chdir("work")
    with open("run.yaml", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION)
    write("train.csv", list(PLACES) * 16)
    # By themselves these would be 0 and 1.
    write("test.csv", ["Dublin", "Cairo"] * 8)
    check(loss_of(run("train", "run.yaml")) < 0.01, "test data have the numbers of training data")
    once = ("--set", "fit.epochs=1", "--set", "checkpoint=~", "--set", "optimizer.Adam.learning_rate=0")
    plain = loss_of(run("train", "run.yaml", *once).partition("test -")[0])
    named = loss_of(run("train", "run.yaml", *once, "--set", "fit.class_weight.Cairo=0")
                    .partition("test -")[0])
    numbered = loss_of(run("train", "run.yaml", *once, "--set", "fit.class_weight.2=0")
                       .partition("test -")[0])
    check(named == numbered < plain, f"a class weighs by its text as by its number: {plain}, "
                                     f"{named}, {numbered}")
    said = run("train", "run.yaml", *once, "--set", "fit.class_weight.Cario=0", status=2)
    check('there is no class "Cario"; did you mean "Cairo"?' in said, said)
    os.rename("train.csv", "other.csv")
    check(loss_of(run("evaluate", "run.yaml", "--checkpoint", "checkpoints")) < 0.01,
          "evaluate has the numbers of the checkpoint, without the training data")
    write("test.csv", ["Cairo", "Dubai"])
    said = run("evaluate", "run.yaml", "--checkpoint", "checkpoints", status=2)
    check('test.csv:3:1: "Dubai" in column "city" is not among its 4 categories' in said, said)
    write("test.csv", ["Dublin", "Cairo"])
    # A fifth city between the others.
    write("train.csv", [*PLACES, "Bergen"] * 16)
    said = run("train", "run.yaml", "--set", "fit.epochs=60", status=2)
    check('the number 1 stands for "Bergen" in "city" of the training data, and for "Berlin" in the '
          "checkpoint" in said, said)
    sys.exit(1 if failures else 0)


main()
