#!/usr/bin/env python3
"""Holds the READMEs to the program.

    documents.py PROGRAM check      the generated parts, pictures, links, and where commands stand
    documents.py PROGRAM write      writes the generated parts and pictures anew
    documents.py PROGRAM run        runs the commands in the current folder

A generated part stands between "<!-- meshwork COMMAND -->" and "<!-- end -->". Commands are the
lines of blocks that begin with ```sh. A block of another language whose first line is a comment
with a file name is written to that file first. `train` gets few steps; everything else runs as it
is written.
"""
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("MESHWORK_SOURCE_DIR", pathlib.Path(__file__).parents[2]))

# Commands that are not run, by how they begin, and why.
NOT_RUN = {
    "launch/setup": "installs packages",
    "launch/build": "builds everything",
    "launch/quickstart": "installs packages and builds everything",
    "launch/check": "checks the whole tree",
    "tests/run": "builds everything and runs all tests",
    "tests/benchmarks/run": "takes hours on a machine that does nothing else",
    "tests/benchmarks/gpu": "needs a GPU",
    "tests/benchmarks/hosts": "needs network namespaces",
    "mpirun -n 2 build/benchmarks/": "takes minutes on a machine that does nothing else",
    "ctest": "runs tests",
    "ASAN_OPTIONS=detect_leaks=0 ctest": "runs tests",
    "mpirun -n 2 xterm": "needs a display, and somebody who debugs",
    "cmake --install build --prefix ": "installs: tests/launch/install.cmake does that",
    "cmake -B build -DCMAKE_PREFIX_PATH=PREFIX": "builds with what is installed: tests/launch/install.cmake does that",
    "meshwork reference Swish": "needs an extension that is built: tests/launch/install.cmake",
    "mpirun -n 2 meshwork train mine": "the same",
    "mpirun -n 3 meshwork train mine": "the same",
    "mpirun -n 4 meshwork train sampler": "the same",
    "mpirun -n 4 meshwork test-layer": "the same",
    "srun": "needs a Slurm cluster",
    "spack": "needs Spack: tests/launch/recipes.py reads the recipe",
    "apptainer": "needs Apptainer: tests/launch/recipes.py reads the definition",
    "apt ": "installs a package",
    "sbatch": "needs a Slurm cluster: tests/launch/slurm has one",
}

# What `plan` draws.
MLP = ["configs/fashion_mnist_mlp.yaml", "--mesh", "data=2,model=4", "--layout"]
PICTURES = {
    "runtime/mesh/kernel.svg": [*MLP, "hidden_1/kernel"],
    "runtime/mesh/output.svg": [*MLP, "hidden_1/output"],
    "runtime/mesh/sharded.svg": [*MLP, "hidden_1/kernel", "--set", "layout={hidden_1/kernel: [data, ~]}"],
    "runtime/graph/parts.svg": ["configs/pipeline_mlp.yaml", "--mesh", "stage=4,data=1"],
}

GENERATED = re.compile(r"<!-- meshwork (.+?) -->\n(.*?)<!-- end -->\n", re.DOTALL)
INDENTED = re.compile(r"^ {4}((?:build|launch|tests)/\S.*|(?:mpirun|ctest|cmake) .*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def readmes():
    skipped = ("build", ".")
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = sorted(name for name in folders if not name.startswith(skipped))
        if "README.md" in files:
            yield pathlib.Path(folder) / "README.md"


def output_of(program, arguments):
    done = subprocess.run([program, *arguments], cwd=SOURCE, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"meshwork {shlex.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def with_generated(program, text):
    def anew(part):
        content = output_of(program, shlex.split(part[1]))
        return f"<!-- meshwork {part[1]} -->\n{content}<!-- end -->\n"

    return GENERATED.sub(anew, text)


def pictures(program, folder):
    for name, arguments in PICTURES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        output_of(program, ["plan", *arguments, "--svg", str(folder / name)])


def write(program):
    for readme in readmes():
        text = readme.read_text()
        readme.write_text(with_generated(program, text))
    pictures(program, SOURCE)


def check(program):
    wrong, commands = [], []
    for readme in readmes():
        text = readme.read_text()
        name = readme.relative_to(SOURCE)
        if with_generated(program, text) != text:
            wrong.append(f"{name}: a generated part is not what the program prints; "
                         f"run tests/launch/documents.py {program} write")
        for link in LINK.findall(BLOCK.sub("", text)):
            if "://" not in link and not (readme.parent / link).exists():
                wrong.append(f"{name}: the link {link} leads nowhere")
        for command in INDENTED.findall(BLOCK.sub("", text)):
            wrong.append(f"{name}: {command}: a command stands in a block that begins with ```sh, so that it is run")
        commands += [command for language, block in BLOCK.findall(text) if language == "sh"
                     for command in commands_of(block)]
    for start in NOT_RUN:
        if not any(command.startswith(start) for command in commands):
            wrong.append(f"documents.py: no README has a command that begins with \"{start}\"; NOT_RUN need not have it")
    drawn = pathlib.Path.cwd() / "pictures"
    pictures(program, drawn)
    for name in PICTURES:
        if (drawn / name).read_text() != (SOURCE / name).read_text():
            wrong.append(f"{name} is not what the program draws; "
                         f"run tests/launch/documents.py {program} write")
    return wrong


def commands_of(block):
    return [line.split(" #")[0].strip()
            for line in block.replace("\\\n", " ").splitlines()
            if line.strip() and not line.startswith("#")]


def shortened(command):
    if re.search(r"\btrain \S", command):
        return command + " --set fit.epochs=1 --set fit.steps_per_epoch=3"
    return command


def run(program):
    """Runs each README's commands in a folder of its own that looks like the repository."""
    wrong = []
    # `python3` is the one that runs this.
    os.environ["PATH"] = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
    for readme in readmes():
        name = readme.relative_to(SOURCE)
        folder = pathlib.Path(str(name.parent).replace("/", "_").replace(".", "top"))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for entry in SOURCE.iterdir():
            if not entry.name.startswith(("build", ".")):
                (folder / entry.name).symlink_to(entry)
        (folder / "build").symlink_to(pathlib.Path(program).parent)
        for language, block in BLOCK.findall(readme.read_text()):
            file = re.match(r"# (\w+\.\w+)\n", block)
            if language != "sh" and file:
                (folder / file[1]).write_text(block)
            for command in commands_of(block) if language == "sh" else []:
                if command.startswith(tuple(NOT_RUN)):
                    continue
                print(f"{name}: {command}", flush=True)
                done = subprocess.run(["bash", "-c", shortened(command)], cwd=folder, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                if done.returncode != 0:
                    wrong.append(f"{name}: {command}\nended with {done.returncode}:\n{done.stdout}")
    return wrong


def main():
    program, action = os.path.abspath(sys.argv[1]), sys.argv[2]
    if action == "write":
        write(program)
        return
    if not os.path.isdir("/usr/share/datasets/fashion-mnist"):
        print("skipped: Fashion-MNIST is not installed (launch/setup --data)")
        sys.exit(77)
    if action == "run" and importlib.util.find_spec("h5py") is None:
        print("skipped: Python has no h5py (launch/setup --tests)")
        sys.exit(77)
    wrong = {"check": check, "run": run}[action](program)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
