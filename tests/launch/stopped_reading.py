"""A signal that comes while data are read ends each command as it does later: with its status, one
message, and nothing half-written.

    stopped_reading.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
"""
import glob
import gzip
import os
import shutil
import signal
import subprocess
import sys
import time

meshwork, launcher = sys.argv[1], sys.argv[2:]
failures = 0

CONFIGURATION = """
data:
  train: {kind: csv, file: table.csv, features: [a, b], targets: y}
  batch_size: 16
model: {input: [2], layers: [{Dense: {units: 1}}]}
loss: mse
optimizer: SGD
fit: {epochs: 1}
"""


def reader(folder):
    """A rank that has the table open."""
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) == os.path.join(folder, "table.csv"):
                return int(link.split("/")[2])
        except OSError:
            pass
    return None


def catching_child(launcher_id):
    """A process that the launcher started, or that itself, which is the program and catches SIGTERM."""
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(folder + "/status", encoding="utf-8") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        except OSError:
            continue
        if launcher_id not in (int(status["PPid"]), int(status["Pid"])) or status["Name"] != "meshwork":
            continue
        if int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1:
            return int(status["Pid"])
    return None


def main():
    global failures
    shutil.rmtree("work", ignore_errors=True)
    os.makedirs("work")
    os.chdir("work")
    folder = os.getcwd()
    with open("run.yaml", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION)
    with gzip.open("table.csv", "wb", compresslevel=1) as file:
        file.write(b"a,b,y\n")
        for _ in range(30):
            file.write(b"1,1,1\n" * 150_000)
    before = sorted(os.listdir())
    for command in (["evaluate", "run.yaml"], ["predict", "run.yaml", "--output", "p.csv"],
                    ["train", "run.yaml", "--predict", "p.h5"],
                    ["train", "run.yaml", "--dry-run"], ["summary", "run.yaml"], ["plan", "run.yaml"]):
        for number, status in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
            with subprocess.Popen([*launcher, meshwork, *command], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
                rank = None
                while rank is None and process.poll() is None:
                    time.sleep(0.01)
                    rank = reader(folder)
                if rank is not None:
                    os.kill(rank, number)
                said = process.communicate(timeout=60)[0]
            lines = [line for line in said.splitlines() if "stopped by" in line]
            at_once = command[0] in ("summary", "plan")  # then mpirun ends the other ranks, by SIGTERM
            if (process.returncode != status or not lines or len(lines) > 1 and not at_once or number.name not in lines[0]
                    or not at_once
                    and "data were opened" not in lines[0] and "table was read" not in lines[0]):
                print("WRONG:", command[0], number.name, "status", process.returncode, said)
                failures += 1
            if sorted(os.listdir()) != before:
                print("WRONG:", command[0], number.name, "leaves", os.listdir())
                failures += 1
    # From the first moment on: before MPI has begun, too.
    for command in (["evaluate", "run.yaml"], ["devices"]):
        for number, status in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
            with subprocess.Popen([*launcher, meshwork, *command], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
                rank = None
                while rank is None and process.poll() is None:
                    rank = catching_child(process.pid)
                if rank is not None:
                    os.kill(rank, number)
                said = process.communicate(timeout=60)[0]
            lines = [line for line in said.splitlines() if "stopped by" in line]
            own = [line for line in lines if number.name in line][:1]
            for line in own:
                lines.remove(line)
            # mpirun ends the other rank by SIGTERM, which may have begun by then and says so.
            if process.returncode != status or not own or lines not in ([], ["stopped by SIGTERM"]):
                print("WRONG: at first", command[0], number.name, "status", process.returncode, said)
                failures += 1
    sys.exit(1 if failures else 0)


main()
