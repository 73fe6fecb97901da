"""The script tests/benchmarks/gpu on a machine that has no GPU: its programs are scripts that pass, fail, skip or take
too long. Looked at are its summaries, and that it brings back one file."""

import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
# What some files of tests do; the others pass.
TESTS_DO = """case "$*" in
  *updates*) echo a broken claim; exit 1 ;;
  *copy*) echo skipped: no such device; exit 77 ;;
  *dropout*) sleep 60 ;;
esac
echo "ran $*" """
MACHINE = {"nvidia-smi": 'case "$1" in -L) echo "GPU 0: an imitation" ;; *) echo "an imitation, 580.0, 80 GiB" ;; esac',
           "compute-sanitizer": 'shift 4; exec "$@"', "xz": "exit 1"}


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(folder, part, *arguments, seconds=20):
    environment = {**os.environ, "PATH": f"{folder}/machine:{pathlib.Path(sys.executable).parent}:/usr/bin:/bin",
                   "GPU_HOME": f"{folder}/unpacked", "GPU_SECONDS": str(seconds)}
    done = subprocess.run([HERE / "gpu", part, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment, timeout=100)
    print(done.stdout)
    return done.returncode, done.stdout


def pack(folder, names):
    packed = folder / "packed" / "gpu"
    for name in names:
        script(packed / "bin" / f"test_{name}", TESTS_DO)
    script(packed / "bin" / "meshwork", "echo an imitation, GPU 0 of 1")
    script(packed / "bin" / "step", """echo '{"ms": 0.5}'""")
    script(packed / "bin" / "kernels", "echo matmul 1x1x1 0.5 us")
    script(packed / "openmpi" / "bin" / "mpirun", 'shift 2; exec "$@"')
    (packed / "glibc").mkdir()
    (packed / "glibc" / "version").write_text("ldd (an old one) 2.1\n")
    (packed / "lib").mkdir()
    with tarfile.open(folder / "gpu.tar.xz", "w:xz") as archive:
        archive.add(packed, "gpu")
    return folder / "gpu.tar.xz"


def main():
    status, listed = run(pathlib.Path("/nowhere"), "names")
    named = [line.split() for line in listed.splitlines()]
    assert status == 0 and len(named) > 20, named
    for program, name in named:
        room = program.removesuffix("_ranks").removesuffix("_kernels").replace("_", "/")
        assert list((TESTS / room).rglob(f"{name}.cpp")), f"{program} has no {name}.cpp"
    names = {program for program, _ in named}
    assert run(pathlib.Path("/nowhere"), "everything")[0] == 2

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        script(folder / "machine" / "nvidia-smi", "exit 9")
        archive = pack(folder, names)
        assert run(folder, "tests", archive, folder / "none") == (0, "skipped: no GPU\n")

        for name, text in MACHINE.items():
            script(folder / "machine" / name, text)
        status, said = run(folder, "tests", archive, folder / "tests")
        assert status == 1
        assert "FAILED   updates, status 1\n         | a broken claim\n" in said
        summary = said.splitlines()[-5:]
        assert re.match(r"tests: \d\d passed, 3 not, in \d+ s", summary[0]), summary
        assert set(summary[1:3]) == {"  copy: skipped", "  updates: status 1"}, summary
        assert re.match(r"  dropout: not done in \d+ s", summary[3]), summary
        assert [path.name for path in (folder / "tests").iterdir()] == ["results.tgz"]
        with tarfile.open(folder / "tests" / "results.tgz") as results:
            assert {"gpu-tests/report.txt", "gpu-tests/rows.txt"} <= set(results.getnames())

        for part in ("sanitizer", "speed"):
            status, said = run(folder, part, archive, folder / part)
            assert status == 0 and " 0 not, in " in said
            assert [path.name for path in (folder / part).iterdir()] == ["results.tgz"]
        assert "0.5000 (0.5000..0.5000)" in said and "matmul 1x1x1" in said

        status, said = run(folder, "speed", folder / "no archive", folder / "lost")
        assert status == 1 and "cannot be unpacked" in said and (folder / "lost" / "results.tgz").exists()


main()
