"""What `meshwork new` prints learns what the data of its kind teach, as it stands.

    new_configurations.py MESHWORK LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
"""
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib

meshwork, launcher = sys.argv[1], sys.argv[2:]
failures = 0


def fail(text):
    global failures
    failures += 1
    print(text)


def run(*arguments):
    return subprocess.run([*launcher, meshwork, *arguments], capture_output=True, text=True)


def write_table():
    chance = random.Random(2)
    with open("table.csv", "w") as table:
        table.write("a,b,c,price,kind\n")
        for _ in range(400):
            a, b, c = (chance.gauss(0, 1) for _ in range(3))
            table.write(f"{a:.4f},{b:.4f},{10 * c:.4f},{a * b:.4f},{'up' if a + b > 0 else 'down'}\n")


def chunk(kind, content):
    return (struct.pack(">I", len(content)) + kind + content
            + struct.pack(">I", zlib.crc32(kind + content)))


def write_images(folder, count):
    """Cats are brighter above, dogs below."""
    chance = random.Random(3)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            rows = b""
            for row in range(64):
                light = 160 if (row < 32) == (name == "cat") else 60
                rows += b"\0" + bytes(light + chance.randrange(60) for _ in range(64 * 3))
            (folder / name / f"{i}.png").write_bytes(
                b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_array(name, type, shape, values):
    """As NumPy does (numpy.lib.format, version 1.0)."""
    header = f"{{'descr': '{type}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    content = struct.pack(f"<{len(values)}{'i' if type == '<i4' else 'q'}", *values)
    pathlib.Path(name).write_bytes(
        b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + content)


def write_texts():
    """Of the one class most tokens are even, of the other odd."""
    chance = random.Random(4)
    labels = [chance.randrange(2) for _ in range(500)]
    tokens = [2 * chance.randrange(500) + (label if chance.random() < 0.8 else 1 - label)
              for label in labels for _ in range(32)]
    write_array("tokens.npy", "<i4", (500, 32), tokens)
    write_array("labels.npy", "<i8", (500,), labels)


# The kind, what shortens it, the log that is looked at, and whether it is good.
CASES = [
    ("regression", [], "val_mae", lambda value: value < 0.35),  # the mean of |a b| is 0.64
    ("classification", [], "val_accuracy", lambda value: value > 0.9),
    ("images", ["--set", "fit.epochs=4"], "val_accuracy", lambda value: value > 0.9),
    ("text", [], "val_accuracy", lambda value: value > 0.9),
]

kinds = re.findall(r"KIND :\{(.*?)\}", subprocess.run(
    [meshwork, "new", "--help"], capture_output=True, text=True).stdout)
if kinds != [",".join(sorted(case[0] for case in CASES))]:
    fail(f"the kinds are {kinds}")

write_table()
write_texts()
shutil.rmtree("photos", ignore_errors=True)
write_images(pathlib.Path("photos/train"), 60)
write_images(pathlib.Path("photos/test"), 10)
for kind, shorter, log, good in CASES:
    shutil.rmtree("checkpoints", ignore_errors=True)
    printed = subprocess.run([meshwork, "new", kind], capture_output=True, text=True)
    pathlib.Path(f"{kind}.yaml").write_text(printed.stdout)
    dry = run("train", f"{kind}.yaml", "--dry-run")
    if dry.returncode != 0:
        fail(f"{kind}: --dry-run ends with {dry.returncode}:\n{dry.stderr}")
    done = run("train", f"{kind}.yaml", *shorter)
    values = [float(value) for value in re.findall(rf"- {log}: ([0-9.e-]+)", done.stdout)]
    if done.returncode != 0 or not values or not good(min(values, key=lambda v: (not good(v), v))):
        fail(f"{kind}: status {done.returncode}, {log} {values}\n{done.stdout[-2000:]}{done.stderr}")
    # No line is without an explanation that a newcomer could need: most have one.
    lines = [line for line in printed.stdout.splitlines() if line.strip()]
    if sum("#" in line for line in lines) < len(lines) / 3 or max(map(len, lines)) > 110:
        fail(f"{kind}: few comments, or long lines")
sys.exit(1 if failures else 0)
