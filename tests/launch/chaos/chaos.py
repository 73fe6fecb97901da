#!/usr/bin/env python3
"""Kills training runs with SIGKILL at random moments, starts the same command again each time, and
compares what comes out with a run that nobody killed.

    chaos.py MESHWORK [--kills N] [--seed S] [--case NAME]... [-- LAUNCHER...]

A case is a model (mlp.yaml, convnet.yaml, stages.yaml) on 1, 2 or 4 ranks, or one whose number of ranks and mesh
change at every start. The kills are dealt to the cases in turn. Each has a victim, a random rank or
mpirun itself, and a moment:

    start     while the program starts, after a random time
    train     a random time after it has saved a new checkpoint
    write     while the file of a checkpoint is being written, seen by its temporary name. A kill counts
              as such only if it leaves that file behind; else another one is made
    finish    as soon as a checkpoint has its final name: others are removed then

After the last kill the run is left to end. On a fixed mesh the last checkpoint must then be that of the
straight run, every array bit for bit, and so must the log file; on changing meshes weights and slots
must be equal to rounding. After every kill all processes must end, and the checkpoints that have their
names must all be whole: the next start must not find a damaged one. Nothing is ever left of temporary
files once a run has ended in order.

One mpirun need not end by itself: that of PMIx 4.2 whose rank was killed while it connected, as it
starts. It says UNREACHABLE, and then waits in its own end (PMIx_server_finalize) for a lock that is
never released. It is killed, all ranks having ended, and counted; it happens in one of 100 such kills.

The seed is printed; the same one gives the same victims, moments and meshes, as far as a machine does
the same twice. MESHWORK_CHAOS_KILLS and MESHWORK_CHAOS_SEED stand for the options. The long version:

    MESHWORK_CHAOS_KILLS=50 ctest --test-dir build -R launch/chaos --verbose

Exit status 77, skipped, if there is no h5py.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

try:
    import h5py
    import numpy
except ImportError as problem:
    print("skipped:", problem)
    sys.exit(77)

HERE = Path(__file__).resolve().parent
MOMENTS = ["write", "train", "start", "write", "finish"]
# By number of ranks.
SPREAD = {1: ["data=1,model=1"], 2: ["data=2,model=1", "data=1,model=2"],
          4: ["data=4,model=1", "data=2,model=2"]}
STAGED = {1: ["stage=1,data=1,model=1"], 2: ["stage=1,data=2,model=1", "stage=2,data=1,model=1"],
          4: ["stage=2,data=2,model=1", "stage=2,data=1,model=2", "stage=4,data=1,model=1"]}
MESHES = {"convnet": SPREAD, "mlp": SPREAD, "stages": STAGED}
CASES = {"stages_4": ("stages", 4), "convnet_2": ("convnet", 2), "mlp_4": ("mlp", 4),
         "stages_changing": ("stages", None), "mlp_changing": ("mlp", None), "mlp_1": ("mlp", 1),
         "convnet_changing": ("convnet", None), "mlp_2": ("mlp", 2),
         "convnet_4": ("convnet", 4), "convnet_1": ("convnet", 1)}
# A run that has not done what it must in so many seconds hangs. No test of speed.
PATIENCE = 120


class Failed(Exception):
    """What the test was to find out."""


def processes_of(program, folder):
    """The processes that run `program` in `folder`: {pid: rank in the job}."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.readlink(entry / "exe") != program or os.readlink(entry / "cwd") != folder:
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is somebody else's
        for variable in variables:
            if variable.startswith(b"OMPI_COMM_WORLD_RANK=") or variable.startswith(b"PMIX_RANK="):
                found[int(entry.name)] = int(variable.split(b"=")[1])
                break
    return found


def wait_for(what, condition):
    """The first result of `condition` that is not false."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.0005)
    raise Failed(f"{what}: nothing in {PATIENCE} s")


class Run:
    """One start of the command in a folder."""

    def __init__(self, test, folder, ranks, mesh):
        self.test, self.folder, self.ranks = test, folder, ranks
        self.output = folder / "said.txt"
        self.locked_up = False
        with open(self.output, "ab") as said:
            self.begin = said.tell()
            self.mpirun = subprocess.Popen(
                [*test.launcher, str(ranks), test.program, "train", str(test.config),
                 "--mesh", mesh, "--resume"],
                cwd=folder, stdout=said, stderr=said, stdin=subprocess.DEVNULL)

    def checkpoints(self, pattern):
        return {path.name for path in self.folder.glob("checkpoints/" + pattern)}

    def all_processes(self):
        return processes_of(self.test.program, str(self.folder))

    def ended(self):
        return self.mpirun.poll() is not None

    def end_in_order(self):
        try:
            status = self.mpirun.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.stop()
            raise Failed("the run does not end") from None
        if status != 0:
            raise Failed(f"status {status} of a run that nobody killed")
        left = self.checkpoints("*.meshwork-unfinished")
        if left:
            raise Failed(f"left behind by a run that ended in order: {left}")

    def stop(self):
        for pid in [self.mpirun.pid, *self.all_processes()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.mpirun.wait()

    def kill(self, moment, victim, delay):
        """Kills `victim` ("mpirun" or a rank) at `moment`, `delay` (from 0 to 1) later than possible.
        Returns whether it came to that, and how many seconds later all had ended."""
        before = self.checkpoints("step-*.h5")
        ranks = wait_for("the ranks to start", lambda: self.ended() or len(
            found := self.all_processes()) == self.ranks and found)
        if ranks is True:
            return False, 0
        pid = self.mpirun.pid
        for process, rank in ranks.items():
            if rank == victim:
                pid = process
        if moment == "start":
            time.sleep(delay * 0.6)
        elif moment == "write":
            skip = set() if delay < 0.5 else wait_for(
                "a checkpoint", lambda: self.ended() or self.checkpoints("*.h5") - before) or set()
            if skip is not True:
                wait_for("a checkpoint being written",
                         lambda: self.ended() or self.checkpoints("*.h5.meshwork-unfinished"))
                time.sleep(delay * 0.004)
        else:
            wait_for("a new checkpoint", lambda: self.ended() or self.checkpoints("step-*.h5") - before)
            if moment == "train":
                time.sleep(delay * 0.3)
        if self.ended():
            return False, 0
        killed = time.monotonic()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False, 0
        wait_for("all ranks to end", lambda: not self.all_processes())
        seconds = time.monotonic() - killed
        try:
            wait_for("the job to end", self.ended)
            seconds = time.monotonic() - killed
        except Failed:
            said = self.output.read_bytes()[self.begin:]
            if moment != "start" or victim == "mpirun" or b"PMIX ERROR: UNREACHABLE" not in said:
                raise
            self.locked_up = True
            self.stop()
        return True, seconds


def arrays_of(file):
    """All datasets that make up where a run stands: {name: array}."""
    found = {}

    def take(name, thing):
        if isinstance(thing, h5py.Dataset) and name.split("/")[0] in (
                "params", "slots", "history", "callbacks"):
            found[name] = thing[()]
        if name.startswith("callbacks/") and isinstance(thing, h5py.Group):
            for key, value in thing.attrs.items():
                found[f"{name}@{key}"] = numpy.asarray(value)

    with h5py.File(file, "r") as opened:
        opened.visititems(take)
        for key in ("step", "epoch"):
            found["@" + key] = numpy.asarray(opened.attrs[key])
        found["@learning_rate"] = numpy.asarray(opened["state"].attrs["learning_rate"])
    return found


def newest(folder):
    files = sorted(folder.glob("checkpoints/step-*.h5"))
    if not files:
        raise Failed(f"{folder}: no checkpoint")
    return files[-1]


def compare(straight, killed, bitwise):
    """The largest difference; fails if there is one that must not be."""
    theirs, mine = arrays_of(newest(straight)), arrays_of(newest(killed))
    if theirs.keys() != mine.keys():
        raise Failed(f"other datasets: {sorted(theirs.keys() ^ mine.keys())}")
    largest = 0.0
    for name, expected in theirs.items():
        found = mine[name]
        if bitwise:
            if expected.shape != found.shape or expected.tobytes() != found.tobytes():
                raise Failed(f"{name} differs")
        elif expected.dtype.kind == "f":
            # Sums over other partitions round differently, in the last of 24 bits, and hundreds of
            # updates carry that on. A lost update, or one made twice, changes the first digits.
            scale = max(1e-2, float(numpy.abs(expected).max(initial=0)))
            difference = float(numpy.abs(expected - found).max(initial=0)) / scale
            largest = max(largest, difference)
            if not difference < 1e-3:
                raise Failed(f"{name} differs by {difference:.2g} of its largest value")
    if bitwise and (straight / "log.csv").read_bytes() != (killed / "log.csv").read_bytes():
        raise Failed("log.csv differs")
    return largest


class Case:
    def __init__(self, name, program, launcher, seed):
        self.name, self.program, self.launcher = name, program, launcher
        self.model, self.ranks = CASES[name]
        self.config = HERE / f"{self.model}.yaml"
        self.random = random.Random(f"{seed} {name}")
        self.kills, self.inside, self.locked_up, self.longest = 0, 0, 0, 0.0

    def mesh(self):
        meshes = MESHES[self.model]
        ranks = self.ranks or self.random.choice(list(meshes))
        return ranks, meshes[ranks][-1] if self.ranks else self.random.choice(meshes[ranks])

    def prepare(self):
        """The straight run, in a folder of its own, and an empty one for that which is killed."""
        self.folder = Path.cwd() / self.name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.straight, self.killed = self.folder / "straight", self.folder / "killed"
        self.straight.mkdir(parents=True)
        self.killed.mkdir()
        ranks = self.ranks or 1
        Run(self, self.straight, ranks, MESHES[self.model][ranks][-1]).end_in_order()

    def anew(self):
        """What a run has reached, and its killed one, is put away: there is nothing left to kill."""
        self.check()
        shutil.rmtree(self.killed)
        self.killed.mkdir()

    def kill(self, moment):
        """One kill that comes to what `moment` says."""
        for _ in range(20):
            ranks, mesh = self.mesh()
            victim = self.random.choice(["mpirun", *range(ranks)])
            delay = self.random.random()
            run = Run(self, self.killed, ranks, mesh)
            try:
                came, seconds = run.kill(moment, victim, delay)
            except BaseException:
                run.stop()
                raise
            if not came:
                if run.mpirun.returncode not in (0, None):
                    raise Failed(f"status {run.mpirun.returncode} of a run that nobody killed")
                print(f"  {self.name}: the run has ended; another one begins", flush=True)
                self.anew()
                continue
            self.kills += 1
            self.longest = max(self.longest, seconds)
            self.locked_up += run.locked_up
            left = run.checkpoints("*.meshwork-unfinished")
            self.inside += bool(left)
            steps = sorted(run.checkpoints("step-*.h5"))
            print(f"  {self.name}: mesh {mesh}, {moment}: killed "
                  f"{victim if victim == 'mpirun' else f'rank {victim}'}; ended {seconds:.1f} s later"
                  f"{', but for mpirun, locked up' if run.locked_up else ''};"
                  f" {steps[-1] if steps else 'no checkpoint'}"
                  f"{', ' + ', '.join(sorted(left)) if left else ''}", flush=True)
            if moment != "write" or left:
                return
        raise Failed("the moment was not met in 20 runs")

    def check(self):
        ranks, mesh = self.mesh()
        Run(self, self.killed, ranks, mesh).end_in_order()
        said = (self.killed / "said.txt").read_text()
        if "damaged" in said or "WARNING" in said:
            raise Failed("a checkpoint was damaged, or could not be read")
        difference = compare(self.straight, self.killed, self.ranks is not None)
        print(f"  {self.name}: equal to the straight run"
              f"{' bit for bit' if self.ranks else f' to rounding: {difference:.2g}'}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("meshwork")
    parser.add_argument("--kills", type=int, default=int(os.environ.get("MESHWORK_CHAOS_KILLS", 5)))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MESHWORK_CHAOS_SEED", 0)))
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("launcher", nargs="*", default=["mpirun", "-n"])
    options = parser.parse_intermixed_args()
    # Without the memory that outlives killed ranks of other transports, and without limits of ctest's.
    os.environ.pop("MPIEXEC_TIMEOUT", None)
    program = os.path.realpath(options.meshwork)
    names = options.case or list(CASES)
    if options.kills < len(names):
        names = names[:max(1, options.kills)]
    print(f"seed {options.seed}, {options.kills} kills", flush=True)
    begin = time.monotonic()
    total, inside, locked_up, longest = 0, 0, 0, 0.0
    for index, name in enumerate(names):
        case = Case(name, program, options.launcher, options.seed)
        try:
            case.prepare()
            for number in range(index, options.kills, len(names)):
                # Every case begins at another moment.
                case.kill(MOMENTS[(number // len(names) + index) % len(MOMENTS)])
            case.check()
            total, inside = total + case.kills, inside + case.inside
            locked_up, longest = locked_up + case.locked_up, max(longest, case.longest)
            if locked_up > 1 + total / 20:
                raise Failed(f"{locked_up} of {total} times mpirun did not end")
        except Failed as failure:
            print(f"FAILED: {name}: {failure}")
            for said in sorted(case.folder.glob("*/said.txt")):
                print(f"--- the end of {said}\n{said.read_text()[-3000:]}")
            return 1
        shutil.rmtree(case.folder)
    print(f"{total} kills, {inside} of them inside the writing of a checkpoint; the last process ended "
          f"{longest:.1f} s after a kill at most{f', but for {locked_up} mpirun locked up' if locked_up else ''}; "
          f"{time.monotonic() - begin:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
