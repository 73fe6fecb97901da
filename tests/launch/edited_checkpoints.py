"""Checkpoints that somebody edits, or a disk damages: `meshwork verify` finds all of it.

    edited_checkpoints.py MESHWORK

With h5py every attribute of a checkpoint is changed, one at a time: each file is damaged. Then bits
of everything that is not the data of an array are flipped, one at a time: a file that verify calls
whole reads with h5py as the one that was written. MESHWORK_FLIP_STRIDE=1 flips a bit of every byte;
otherwise it is every eleventh byte's. Exit status 77: there is no h5py.
"""
import os
import shutil
import subprocess
import sys

try:
    import h5py
    import numpy
except ImportError as problem:
    print(problem)
    sys.exit(77)

meshwork = sys.argv[1]
stride = int(os.environ.get("MESHWORK_FLIP_STRIDE", "11"))

CONFIGURATION = """
data:
  train:
    kind: synthetic
    rows: 32
    features: {kind: normal, shape: [6]}
    targets: {kind: normal, shape: [3]}
  batch_size: 8
model:
  input: [6]
  layers:
    - Dense: {name: d1, units: 5, activation: relu}
    - BatchNormalization: {name: n1}
    - Dense: {name: d2, units: 3}
loss: mse
optimizer: {Adam: {learning_rate: 0.01}}
fit:
  epochs: 2
  callbacks:
    - CSVLogger: {filename: log.csv}
    - EarlyStopping: {monitor: loss, patience: 5, restore_best_weights: true}
checkpoint: {directory: checkpoints}
"""


def verify(files):
    """By file: whether it is called ok."""
    ended = subprocess.run([meshwork, "verify", *files], capture_output=True, text=True,
                           check=False)
    if ended.returncode not in (0, 1, 2):
        sys.exit(f"verify ended with {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    whole = {file: f"{file}: ok: " in ended.stdout for file in files}
    for file in files:
        said = f"{file}: DAMAGED" in ended.stdout or f"{file}: " in ended.stderr
        assert whole[file] != said, f"{file}: {ended.stdout}{ended.stderr}"
    return whole


def objects(file):
    """The names of the root, of all groups and of all datasets."""
    names = ["/"]
    file.visit(names.append)
    return names


def all_of(name):
    """Everything that h5py shows of a file."""
    with h5py.File(name, "r") as file:
        found = []
        for path in objects(file):
            thing = file[path]
            found.append((path, type(thing).__name__, sorted(thing) if hasattr(thing, "keys") else ()))
            for key in sorted(thing.attrs):
                value = thing.attrs[key]
                found.append((path, key, repr(value), str(thing.attrs.get_id(key).dtype)))
            if isinstance(thing, h5py.Dataset):
                found.append((path, thing.shape, str(thing.dtype), thing.chunks,
                              numpy.asarray(thing[()]).tobytes()))
        return found


def changed(value):
    """Another value of the same type."""
    if isinstance(value, (bytes, numpy.bytes_)):
        return numpy.bytes_(b"x" + bytes(value)[1:] if bytes(value)[:1] != b"x" else b"y")
    if isinstance(value, str):
        return numpy.bytes_((("x" if value[:1] != "x" else "y") + value[1:]).encode())
    if numpy.issubdtype(type(value), numpy.floating):
        return type(value)(1.5 if value != 1.5 else 2.5)
    return value ^ type(value)(1)


def edit_attributes(original):
    with h5py.File(original, "r") as file:
        attributes = [(path, key) for path in objects(file) for key in file[path].attrs]
    edited = {}
    for number, (path, key) in enumerate(attributes):
        copy = f"edited/{number}.h5"
        shutil.copyfile(original, copy)
        with h5py.File(copy, "r+") as file:
            values = file[path].attrs
            before = values[key]
            values.modify(key, numpy.asarray(changed(before), values.get_id(key).dtype))
            assert values[key] != before, f"{path}: {key} is still {before}"
        edited[copy] = f"{path}: {key}"
    whole = verify(list(edited))
    missed = [edited[copy] for copy in edited if whole[copy]]
    assert not missed, f"{len(missed)} of {len(edited)} attributes were edited unseen: {missed}"
    print(f"{len(edited)} attributes were edited, and all were found")


def flip_bits(original):
    with open(original, "rb") as file:
        content = file.read()
    right = all_of(original)
    harmless = 0
    places = list(range(0, len(content), stride))
    for begin in range(0, len(places), 500):
        flipped = {}
        for at in places[begin:begin + 500]:
            name = f"edited/{at}.h5"
            damaged = bytearray(content)
            damaged[at] ^= 1 << (at // stride % 8)
            with open(name, "wb") as file:
                file.write(damaged)
            flipped[name] = at
        whole = verify(list(flipped))
        for name, at in flipped.items():
            if whole[name]:
                harmless += 1
                try:
                    same = all_of(name) == right
                except Exception as problem:  # whatever h5py makes of it
                    sys.exit(f"byte {at}: called ok, and h5py says: {problem}")
                assert same, f"byte {at}: called ok, and h5py reads something else"
            os.remove(name)
    print(f"{len(places)} bits of {len(content)} bytes were flipped; {harmless} did no harm")


for folder in ("checkpoints", "edited"):
    shutil.rmtree(folder, ignore_errors=True)
os.makedirs("edited")
with open("edited.yaml", "w", encoding="utf-8") as configuration:
    configuration.write(CONFIGURATION)
subprocess.run([meshwork, "train", "edited.yaml"], check=True, stdout=subprocess.DEVNULL)
ORIGINAL = "checkpoints/step-000000008.h5"
edit_attributes(ORIGINAL)
flip_bits(ORIGINAL)
shutil.rmtree("edited")
