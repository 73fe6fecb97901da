"""Ranks that do not train: the numbers of training are those of a run without them.

    roles.py MESHWORK EXTENSION LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2, which then train

EXTENSION is stuck_roles.cpp, compiled, or "none".

Losses have the same digits. What evaluators find differs from fit's own validation by rounding alone.
A run that is cut off and goes on has the log of one that was not.
"""
import csv
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

meshwork, extension, launcher = sys.argv[1], sys.argv[2], sys.argv[3:]
trainers = int(launcher[2])

CONFIGURATION = """
seed: 3
data:
  train:
    kind: synthetic
    rows: 96
    features: {kind: normal, shape: [12]}
    targets: {kind: normal, shape: [4]}
  batch_size: 12
model:
  input: [12]
  layers:
    - Dense: {name: d1, units: 24, activation: relu}
    - BatchNormalization: {name: norm}
    - Dropout: {rate: 0.2}
    - Dense: {name: d2, units: 4}
loss: mse
metrics: [mae]
optimizer: {Adam: {learning_rate: 0.003}}
fit: {epochs: 4, validation_split: 0.25, callbacks: [{CSVLogger: {filename: log.csv}}]}
log: {jsonl: log.jsonl}
"""


def run(others, *settings, status=0, roles="evaluate: {}", environment=None):
    """Runs with so many ranks besides those that train, and gives what it says."""
    command = [*launcher[:2], str(trainers + others), *launcher[3:], meshwork, "train", "run.yaml"]
    if others > 0:
        command += ["--set", f"roles={{train: -1, {roles.format(others)}}}"]
    for setting in settings:
        command += ["--set", setting]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                           env={**os.environ, **(environment or {})})
    said = ended.stdout + ended.stderr
    if ended.returncode != status:
        sys.exit(f"{' '.join(command)}: status {ended.returncode}\n{said}")
    return said


def log():
    """The rows of the log, as they are written."""
    with open("log.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare(found, expected, what):
    """Whether logs are the same, but for rounding in validation."""
    if [row["epoch"] for row in found] != [row["epoch"] for row in expected]:
        sys.exit(f"{what}: epochs {found} instead of {expected}")
    for row, other in zip(found, expected):
        for name, value in row.items():
            far = abs(float(value) - float(other[name])) > 1e-6 * abs(float(other[name]))
            if value != other[name] if not name.startswith("val_") else far:
                sys.exit(f"{what}: epoch {row['epoch']}: {name} is {value} instead of {other[name]}")


def history(file):
    """What a checkpoint knows of the epochs."""
    shown = subprocess.run([meshwork, "inspect", "--json", str(file)], capture_output=True, text=True,
                           check=True)
    return {"loss": [], "val_loss": [], "val_mae": [], **json.loads(shown.stdout)["history"]}


def expect(said, *texts):
    for text in texts:
        if not re.search(text, said):
            sys.exit(f"this does not say {text}:\n{said}")


with open("run.yaml", "w", encoding="utf-8") as file:
    file.write(CONFIGURATION)

shutil.rmtree("checkpoints", ignore_errors=True)  # of a test before
run(0)
plain = log()
for others in (1, 2):
    said = run(others)
    compare(log(), plain, f"{others} evaluators")
    # In order, and while the next epoch is trained.
    expect(said, r"(?s)Epoch 1/4.*Epoch 2/4.*epoch 1/4 evaluated - val_loss: .*- val_mae: .*"
                 r"Epoch 3/4.*epoch 2/4 evaluated.*Epoch 4/4.*epoch 3/4 evaluated.*epoch 4/4 eval")
with open("log.jsonl", encoding="utf-8") as file:
    lines = file.read().splitlines()
if len(lines) != 4 or not all('"val_mae"' in line and line.endswith("}") for line in lines):
    sys.exit(f"the lines of JSON are {lines}")

# Feeders, alone and with an evaluator, before those that train.
for feeders in (1, 2):
    run(feeders, roles="feed: {}")
    if log() != plain:
        sys.exit(f"with {feeders} feeders, the log is {log()} instead of {plain}")
run(3, roles="feed: 2, evaluate: 1")
compare(log(), plain, "feeders and an evaluator")
said = run(2, roles="Feed: 1, Evaluate: 1")
compare(log(), plain, "roles by their classes")
expect(said, r"epoch 4/4 evaluated")

# Every second epoch.
run(0, "fit.validation_freq=2")
other = log()
run(1, "fit.validation_freq=2")
if [row["val_loss"] == "NA" for row in log()] != [row["val_loss"] == "NA" for row in other]:
    sys.exit(f"with validation_freq 2, the log is {log()} instead of {other}")

# Whatever is saved, in the middle of epochs too, has the validation of all epochs before it; and a run
# that goes on from there has the log and the history of one that was not cut off.
checkpoints = "checkpoint={directory: checkpoints, every_steps: 4, keep: 50, resume: auto}"
run(1, checkpoints)
whole, files = log(), sorted(pathlib.Path("checkpoints").glob("*.h5"))
if len(files) != 6:
    sys.exit(f"the checkpoints are {files}")
end = history(files[-1])
for file in files:
    logs = history(file)
    if not len(logs["loss"]) == len(logs["val_loss"]) == len(logs["val_mae"]):
        sys.exit(f"the history of {file} is {logs}")
for file in files[2:]:
    file.unlink()
run(1, checkpoints)
if log() != whole or history(files[-1]) != end:
    sys.exit(f"the run that goes on has the log {log()} instead of {whole}")

# A callback that decides by validation has it at the epoch's end.
stopping = ("fit.callbacks=[{EarlyStopping: {patience: 1, min_delta: 0.2}}, "
            "{CSVLogger: {filename: log.csv}}]")
run(0, stopping, "fit.epochs=30")
stopped = log()
if not 1 < len(stopped) < 30:
    sys.exit(f"EarlyStopping ended the run after {len(stopped)} epochs")
said = run(1, stopping, "fit.epochs=30")
compare(log(), stopped, "EarlyStopping")
if "evaluated" in said:
    sys.exit(f"the validation came after the epoch's end:\n{said}")

# TensorBoard has the values of each epoch once, whether they are waited for or not.
for others in (0, 1):
    for waiting in ("", "EarlyStopping: {patience: 9}"):
        shutil.rmtree("events", ignore_errors=True)
        run(others, f"fit.callbacks=[{{TensorBoard: {{log_dir: events}}}}, {{{waiting}}}]"
            if waiting else "fit.callbacks=[{TensorBoard: {log_dir: events}}]")
        events = b"".join(file.read_bytes() for file in pathlib.Path("events/validation").iterdir())
        for name in (b"evaluation_loss_vs_iterations", b"epoch_loss"):
            if events.count(name) != 4:
                sys.exit(f"{others} evaluators, {waiting}: {events.count(name)} events {name}")
shutil.rmtree("events")

# The mesh is of those that train.
if trainers == 2:
    spread = ("mesh={model: 2}", "layout={d1/kernel: [~, model]}", "batch_axis=~")
    run(0, *spread)
    plain = log()
    run(1, *spread)
    compare(log(), plain, "layouts")

# Mistakes, each said once.
said = run(1, "fit.validation_split=0", status=1)
expect(said, r'roles: "evaluate" needs validation data; name them in data.validation')
if said.count("needs validation data") > trainers:
    sys.exit(f"that there are no validation data is said too often:\n{said}")
said = run(0, "roles={train: 5, evaluate: 1}", status=2)
expect(said, rf"roles: {{train: 5, evaluate: 1}} are for 6 ranks, and the job has {trainers}")
said = run(0, "roles={train: -1, evaluat: 1}", status=2)
expect(said, r'unknown role "evaluat"; did you mean "evaluate"')
said = run(0, "roles={evaluate: -1}", status=2)
expect(said, r'there is no "train" among the roles')

# Where calls have no threads, ranks serve each other between what they do.
run(0)
plain = log()
for progress in ("polls", "none"):
    for roles, others in (("evaluate: {}", 1), ("evaluate: {}", 2), ("feed: {}", 1), ("feed: 1, evaluate: 2", 3)):
        said = run(others, roles=roles, environment={"MESHWORK_PROGRESS": progress})
        compare(log(), plain, f"{roles} with MESHWORK_PROGRESS {progress}")
        expect(said, "the service has no threads: calls between ranks go on only between the instructions")


def lines_of_ranks(said):
    """What ranks say of failures, and not the launcher or the progress."""
    return re.findall(r"^(?:rank \d+ .*|stopped by .*|.*has died or left.*)$", said, re.MULTILINE)


# A failure is said once.
if extension != "none":
    own = f"extensions=[{extension}]"
    said = run(1, own, "fit.epochs=1000000", roles="thrower: {}", status=1)
    lines = lines_of_ranks(said)
    if len(lines) != 1 or "role thrower: it has no hands" not in lines[0]:
        sys.exit(f"a role that throws is said so:\n{said}")
    # A far function that hangs: its call comes before the watchdog.
    said = run(1, own, "watchdog_seconds=5", "fit.callbacks=[AskHanging]", roles="hanging: {}", status=1)
    lines = lines_of_ranks(said)
    if len(lines) > 1 or "watchdog" in said or "has waited" in said:
        sys.exit(f"a function that hangs is said so:\n{said}")
    expect(said, rf'rank {trainers} \(hanging\) has not answered "hang" within 2.5 s')

# A role that does not end ends the job, in a time that its user can set, and is named.
if extension != "none":
    for role, failing in (("deaf", "it answers no calls"), ("endless", "its role has not returned")):
        said = run(1, f"extensions=[{extension}]", "watchdog_seconds=4", status=3, roles=role + ": {}")
        expect(said, rf"roles: rank {trainers} \({role}\) has not ended 4 s after training: {failing}")


def process_of(rank):
    """The process of a rank of the job that runs in this folder."""
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            if os.readlink(folder + "/cwd") != os.getcwd():
                continue
            variables = pathlib.Path(folder + "/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables or f"PMI_RANK={rank}".encode() in variables:
            return int(folder.split("/")[2])
    return None


# A signal that only the last rank gets, which does not train.
for role in ("evaluate", "feed"):
    for number, status in ((signal.SIGUSR1, 75), (signal.SIGTERM, 75), (signal.SIGINT, 130)):
        pathlib.Path("log.csv").unlink(missing_ok=True)
        command = [*launcher[:2], str(trainers + 1), *launcher[3:], meshwork, "train", "run.yaml",
                   "--set", f"roles={{train: -1, {role}: 1}}", "--set", "fit.epochs=1000000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                time.sleep(0.05)
                if pathlib.Path("log.csv").exists() and len(log()) > 1:
                    break
            os.kill(process_of(trainers), number)
            try:
                said = job.communicate(timeout=30)[1]
            except subprocess.TimeoutExpired:
                job.kill()
                sys.exit(f"{number.name} of the rank with the role {role} does not end the job")
        if job.returncode != status:
            sys.exit(f"{number.name} of the rank with the role {role}: status {job.returncode}\n{said}")
        expect(said, rf"stopped by {number.name} after \d+ updates")

# A rank that is killed, which only others can say: one of them does, and names it.
kills = [("{train: -1, evaluate: 2}", trainers + 1, trainers + 2), ("{train: -1, feed: 1}", trainers, trainers + 1)]
if trainers == 2:
    kills.append(("{feed: 1, train: -1}", 2, 3))
for roles, rank, ranks in kills:
    pathlib.Path("log.csv").unlink(missing_ok=True)
    command = [*launcher[:2], str(ranks), *launcher[3:], meshwork, "train", "run.yaml",
               "--set", f"roles={roles}", "--set", "fit.epochs=1000000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(0.05)
            if pathlib.Path("log.csv").exists() and len(log()) > 1:
                break
        os.kill(process_of(rank), signal.SIGKILL)
        try:
            said = job.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            job.kill()
            sys.exit(f"that rank {rank} of {roles} is killed does not end the job")
    lines = lines_of_ranks(said)
    if job.returncode == 0 or len(lines) != 1 or not re.search(rf"rank {rank}\b.* has died or left", lines[0]):
        sys.exit(f"that rank {rank} of {roles} is killed is said so, status {job.returncode}:\n{said}")

# A feeder whose file is another.
for folder, line in (("trains", "1,2\n"), ("feeds", "1,2.5\n")):
    os.makedirs(folder, exist_ok=True)
    pathlib.Path(folder, "table.csv").write_text("x,y\n" + 40 * line, encoding="utf-8")
    pathlib.Path(folder, "run.yaml").write_text("""
data:
  train: {kind: csv, file: table.csv, features: [x], targets: y}
  batch_size: 8
model: {input: [1], layers: [{Dense: {units: 1}}]}
loss: mse
""", encoding="utf-8")
of_rank = [meshwork, "train", "run.yaml", "--set", "roles={train: -1, feed: 1}"]
ended = subprocess.run([*launcher, "--wdir", "trains", *of_rank, ":", launcher[1], "1", "--wdir", "feeds", *of_rank],
                       capture_output=True, text=True, check=False, timeout=60)
if ended.returncode != 2:
    sys.exit(f"a feeder with another file: status {ended.returncode}\n{ended.stderr}")
expect(ended.stderr, rf"roles: the feeding rank {trainers} and the training rank 0 have different training data\n"
       rf"  rank {trainers}: csv; .*table.csv.*\n  rank 0: csv; .*table.csv")
os.remove("run.yaml")
