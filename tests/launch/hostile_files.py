"""The program on files that were made to do harm: tests/support/hostile_files.py.

    hostile_files.py MESHWORK

Whatever the command, it says one message of its own, ends with status 1 or 2 as its --help says,
within 2 seconds and 256 MB, and nothing that it writes holds what is in other files. Exit status
77: there is no h5py.
"""
import filecmp
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time
import zlib

try:
    import h5py
    import numpy
except ImportError as problem:
    print(problem)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hostile_files  # noqa: E402

meshwork = sys.argv[1]
failures = 0

SECONDS = 2.0
KILOBYTES = 256 << 10

# Control characters of ASCII and Latin 1, and those that turn the direction of writing.
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

CONFIGURATION = """
data:
  train: {kind: hdf5, features: "data.h5:/x", targets: "data.h5:/y"}
  batch_size: 25
model:
  input: [6]
  layers:
    - Dense: {name: d1, units: 24, activation: relu}
    - Dense: {name: d2, units: 4}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {Adam: {learning_rate: 0.01}}
fit: {epochs: 1}
checkpoint: {directory: checkpoints}
"""


def check(condition, what):
    global failures
    if not condition:
        print("WRONG:", what)
        failures += 1


class Ended:
    def __init__(self, arguments):
        start = time.monotonic()
        with open("said", "wb") as said:
            process = subprocess.Popen([meshwork, *arguments], stdin=subprocess.DEVNULL, stdout=said,
                                       stderr=subprocess.STDOUT)
            deadline = start + 30
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    process.kill()
                    _, status, usage = os.wait4(process.pid, 0)
                    break
                time.sleep(0.005)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.status = process.returncode
        self.seconds = time.monotonic() - start
        # Of work done, since other tests take the cores as well.
        self.work = usage.ru_utime + usage.ru_stime
        self.kilobytes = usage.ru_maxrss
        with open("said", encoding="utf-8", errors="replace") as said:
            self.said = said.read()


def refused(what, arguments, statuses=(1, 2)):
    ended = Ended(arguments)
    line = f"{what}: {' '.join(arguments)}"
    check(ended.status in statuses, f"{line}: status {ended.status}\n{ended.said}")
    check(len(ended.said.strip()) > 0, f"{line}: says nothing")
    check(not COMMANDS.search(ended.said), f"{line}: writes commands to the terminal")
    # `verify` and `diff` list what they find, others below their message; what weights were taken is said before.
    said = [text for text in ended.said.splitlines() if not text.startswith(("weights: ", "  "))]
    check(ended.status == 0 or arguments[0] in ("verify", "diff") or len(said) == 1,
          f"{line}: not one line:\n{ended.said}")
    check("bad_alloc" not in ended.said and "*** Process received signal" not in ended.said,
          f"{line}: {ended.said}")
    check(ended.work < SECONDS and ended.seconds < 10 * SECONDS,
          f"{line}: {ended.work:.1f} s of work, {ended.seconds:.1f} s\n{ended.said}")
    check(ended.kilobytes < KILOBYTES, f"{line}: {ended.kilobytes >> 10} MB\n{ended.said}")
    return ended


def whole(arguments):
    ended = Ended(arguments)
    check(ended.status == 0, f"{' '.join(arguments)}: status {ended.status}\n{ended.said}")
    return ended


def write_data(name):
    random = numpy.random.default_rng(1)
    with h5py.File(name, "w") as file:
        file["x"] = random.random((100, 6), "f4")
        file["y"] = random.integers(0, 4, 100, "u1")


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def main():
    fresh("work")
    os.chdir("work")
    with open("run.yaml", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION)
    write_data("data.h5")
    whole(["train", "run.yaml"])
    checkpoint = os.path.join("checkpoints", sorted(os.listdir("checkpoints"))[-1])
    whole(["export", checkpoint, "--keras", "model.weights.h5"])

    os.mkdir("weights")
    for name, file in hostile_files.hostile_weights("weights", "model.weights.h5"):
        for arguments in (["import", "run.yaml", file, "--output", "imported"],
                          ["inspect", file],
                          ["diff", file, "model.weights.h5"],
                          ["evaluate", "run.yaml", "--checkpoint", file],
                          ["train", "run.yaml", "--weights", file, "--set", "checkpoint.directory=other"]):
            # The other arrays can be listed where one is missing or a group stands in its place.
            lists = arguments[0] == "inspect" and (name in ("nothing", "a_group") or name in hostile_files.SHORT_CHUNKS)
            refused(name, arguments, (0,) if lists else (1, 2))
        check(not os.path.exists("imported"), f"{name}: import left something")
        shutil.rmtree("imported", ignore_errors=True)

    os.mkdir("bad")
    for name, file in hostile_files.hostile_checkpoints("bad", checkpoint):
        for arguments in (["verify", file],
                          ["inspect", file],
                          ["diff", file, checkpoint],
                          ["export", file, "--keras", "exported.weights.h5"],
                          ["evaluate", "run.yaml", "--checkpoint", file],
                          ["train", "run.yaml", "--weights", file, "--set", "checkpoint.directory=other"]):
            refused(name, arguments)
        check(not os.path.exists("exported.weights.h5"), f"{name}: export left something")
        # A run that goes on takes the next older checkpoint, and says why.
        if os.path.isfile(file):
            fresh("resumed")
            shutil.copy(checkpoint, "resumed/step-000000004.h5")
            shutil.copy(file, "resumed/step-000000008.h5")
            ended = Ended(["train", "run.yaml", "--resume", "--set", "checkpoint.directory=resumed"])
            check(ended.status == 0 and "step-000000008.h5" in ended.said,
                  f"{name}: resume: status {ended.status}\n{ended.said}")
            check(ended.kilobytes < KILOBYTES, f"{name}: resume: {ended.kilobytes >> 10} MB")
            check(not COMMANDS.search(ended.said), f"{name}: resume: writes commands to the terminal")

    os.mkdir("data")
    for name, file in hostile_files.hostile_data("data", "data.h5"):
        data = f"data.train={{kind: hdf5, features: \"{file}:/x\", targets: \"{file}:/y\"}}"
        for arguments in (["plan", "run.yaml", "--set", data],
                          ["train", "run.yaml", "--dry-run", "--set", data],
                          ["train", "run.yaml", "--set", data, "--set", "checkpoint.directory=none"]):
            # Not every plan needs the data.
            refused(name, arguments, (0, 2) if arguments[0] == "plan" else (2,))

    # A text that is read once is kept once, however often it is named.
    with open("aliases.yaml", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION + "a: &a \"" + "x" * 150_000 + "\"\nb:\n" + "  - *a\n" * 6000)
    refused("aliases", ["plan", "aliases.yaml"], (2,))
    refused("aliases", ["train", "aliases.yaml"], (2,))

    # Virtual data is read where that was asked for, from sources at its side.
    with h5py.File("source.h5", "w") as file:
        with h5py.File("data.h5") as data:
            file["x"] = data["x"][()]
            y = data["y"][()]
    for name, source in (("virtual.h5", "source.h5"), ("upwards.h5", os.path.join("..", "work", "..", "..", "source.h5")),
                         ("absolute.h5", "/etc/hostname"), ("absent.h5", "absent_source.h5")):
        with h5py.File(name, "w") as file:
            layout = h5py.VirtualLayout((100, 6), "<f4")
            layout[...] = h5py.VirtualSource(source, "x", (100, 6))
            file.create_virtual_dataset("x", layout)
            file["y"] = y
    def data_of(name, more=""):
        return f"data.train={{kind: hdf5, features: \"{name}:/x\", targets: \"{name}:/y\"{more}}}"
    loss = whole(["evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "train"]).said.split("loss")[-1]
    refused("virtual", ["train", "run.yaml", "--set", data_of("virtual.h5")], (2,))
    ended = whole(["evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "train", "--set",
                   data_of("virtual.h5", ", virtual: true")])
    check(ended.said.split("loss")[-1] == loss, "virtual data gives other numbers")
    for name in ("upwards.h5", "absolute.h5", "absent.h5"):
        refused(name, ["train", "run.yaml", "--set", data_of(name, ", virtual: true")], (2,))

    # What is looked at is what is read: through a link to the file, and whatever the library is told.
    for folder in ("home", "real"):
        os.mkdir(folder)
        shutil.copy("source.h5", f"{folder}/source.h5")
    with h5py.File("home/source.h5", "w") as file:
        file.create_dataset("x", (100, 6), "<f4", external=[("/etc/passwd", 0, 2400)])
    shutil.copy("virtual.h5", "real/virtual.h5")
    os.symlink("../real/virtual.h5", "home/virtual.h5")
    ended = whole(["evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "train", "--set",
                   data_of("home/virtual.h5", ", virtual: true")])
    check(ended.said.split("loss")[-1] == loss, "virtual data behind a link gives other numbers")
    os.environ["HDF5_VDS_PREFIX"] = os.path.abspath("home")
    ended = refused("prefix", ["train", "run.yaml", "--set", data_of("virtual.h5", ", virtual: true")], (2,))
    check("HDF5_VDS_PREFIX" in ended.said, "the folder that the library is told of is not named")
    del os.environ["HDF5_VDS_PREFIX"]

    # Sources are files of the run, and so is what a file is called before it is whole.
    predict = ["predict", "run.yaml", "--checkpoint", checkpoint, "--data", "train"]
    shutil.copy("source.h5", "before.h5")
    refused("a source", [*predict, "--set", data_of("virtual.h5", ", virtual: true"), "--output", "source.h5",
                         "--overwrite"], (2,))
    check(filecmp.cmp("source.h5", "before.h5", shallow=False), "a source was written over")
    shutil.copy(checkpoint, "out.h5.meshwork-unfinished")
    refused("a temporary name", ["predict", "run.yaml", "--checkpoint", "out.h5.meshwork-unfinished", "--data", "train",
                                 "--output", "out.h5"], (2,))
    check(filecmp.cmp("out.h5.meshwork-unfinished", checkpoint, shallow=False), "a checkpoint was written over")
    with open("victim.txt", "w", encoding="utf-8") as file:
        file.write("mine")
    for output in ("linked.csv", "linked.h5"):
        os.symlink("victim.txt", output + ".meshwork-unfinished")
        ended = refused("a link", [*predict, "--output", output], (2,))
        check("is in the way" in ended.said and os.path.islink(output + ".meshwork-unfinished"), ended.said)
    with open("victim.txt", encoding="utf-8") as file:
        check(file.read() == "mine", "predictions went through a link")

    # The library makes names out of patterns, in names of files and of what is in them.
    with h5py.File("harmless.h5", "w") as file:
        file["a%%"] = y.astype("f4").reshape(100, 1).repeat(6, 1)
        file.create_dataset("a%", (100, 6), "<f4", external=[("/etc/passwd", 0, 2400)])
    with h5py.File("pattern.h5", "w") as file:
        layout = h5py.VirtualLayout((100, 6), "<f4")
        layout[...] = h5py.VirtualSource("harmless.h5", "a%%", (100, 6))
        file.create_virtual_dataset("x", layout)
        file["y"] = y
    ended = refused("pattern", ["train", "run.yaml", "--set", data_of("pattern.h5", ", virtual: true")], (2,))
    check("pattern of names" in ended.said, ended.said)

    # Sizes whose bytes are no number.
    for units in ((1048571, 4398046511098), (3_000_000_000, 3_000_000_000)):
        layers = f"model.layers=[{{Dense: {{units: {units[0]}}}}},{{Dense: {{units: {units[1]}}}}}]"
        for command in ("plan", "train"):
            ended = refused("too large", [command, "run.yaml", "--set", layers, "--set", "checkpoint.directory=none"],
                            (2,))
            check("mistake in Meshwork" not in ended.said, ended.said)

    # What others have there under our names stays theirs, and nothing goes to a pipe.
    for arguments, output in (([*predict, "--output", "p.csv"], "p.csv"), ([*predict, "--output", "p.h5"], "p.h5"),
                              (["export", checkpoint, "--keras", "k.weights.h5"], "k.weights.h5")):
        lock, taken = f".{output}.meshwork-lock", output + ".meshwork-unfinished"
        with open(lock, "w", encoding="utf-8") as file:
            file.write("precious")
        ended = refused("taken", arguments)
        check("is in the way" in ended.said, ended.said)
        with open(lock, encoding="utf-8") as file:
            check(file.read() == "precious", f"{lock} is gone")
        os.remove(lock)
        # What a killed run has left there is in nobody's way.
        with open(taken, "wb") as file:
            file.write(b"half")
        whole(arguments)
    os.mkfifo("pipe.csv")
    ended = refused("pipe", [*predict, "--output", "pipe.csv"], (2,))
    check("is a pipe" in ended.said and os.path.exists("pipe.csv"), ended.said)
    refused("pipe", ["train", "run.yaml", "--set", "fit.callbacks=[{CSVLogger: {filename: pipe.csv}}]", "--set",
                     "checkpoint.directory=none"], (2,))

    # A configuration out of a pipe that nobody opens to write is refused at once; one that somebody has open and
    # writes nothing to is waited for until somebody asks to stop.
    os.mkfifo("run.pipe")
    for command in ("plan", "train"):
        check("without a writer" in refused("pipe", [command, "run.pipe"], (2,)).said, "pipe: says something else")
    process = subprocess.Popen([meshwork, "train", "run.pipe"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    writer = os.open("run.pipe", os.O_WRONLY)
    time.sleep(3)
    check(process.poll() is None, "a silent pipe is not waited for")
    process.terminate()
    said = process.communicate(timeout=30)[1].decode()
    os.close(writer)
    check(process.returncode != 0 and ("SIGTERM" in said or process.returncode == -15),
          f"pipe: status {process.returncode}: {said}")
    # And one to which somebody writes is read.
    with open("run.yaml", encoding="utf-8") as file:
        ended = subprocess.run(["bash", "-c", 'exec "$0" plan <(cat run.yaml)', meshwork], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    check(ended.returncode == 0, f"a configuration out of a pipe: {ended.stdout.decode()}")

    # Of many chunks one stores what all may, and unpacks to a gigabyte. Those that are not stored are fill values.
    for name, stream in (("one_chunk.h5", hostile_files._of_zeros(1 << 30)), ("few_chunks.h5", zlib.compress(bytes(2400)))):
        with h5py.File(name, "w") as file:
            hostile_files._low_level(file, "x", (400_000, 6), chunks=(100, 6), filters=(h5py.h5z.FILTER_DEFLATE,))
            file["x"].id.write_direct_chunk((0, 0), stream)
            file["y"] = numpy.zeros(400_000, "u1")
    evaluate = ["evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "train", "--set", "data.batch_size=100000"]
    ended = refused("one chunk", [*evaluate, "--set", data_of("one_chunk.h5")], (2,))
    check("a chunk stores" in ended.said, ended.said)
    whole([*evaluate, "--set", data_of("few_chunks.h5")])

    # A chunk that holds less than its elements: the library would go on in the memory behind its buffer.
    def short_stream(file):
        file.create_dataset("x", (100, 6), "f4", chunks=(100, 6), compression="gzip").id.write_direct_chunk(
            (0, 0), zlib.compress(b"abcd"))

    def filters_skipped(file):
        file.create_dataset("x", (100, 6), "f4", chunks=(100, 6), compression="gzip").id.write_direct_chunk(
            (0, 0), b"abcdefgh", filter_mask=1)

    def less_stored(file):
        file.create_dataset("x", data=numpy.ones((100, 6), "f4"), chunks=(100, 6))

    # Numbers that reach beyond their elements, and what is no number.
    def bits_beyond(file):
        kind = h5py.h5t.STD_I32LE.copy()
        kind.set_precision(16)
        kind.set_offset(7)
        h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((100, 6)))

    def animals(file):
        file.create_dataset("x", data=numpy.full((100, 6), 7, "u1"), dtype=h5py.enum_dtype({"CAT": 3, "DOG": 7}, "u1"))

    def nothing(file):
        file["x"] = h5py.Empty("f4")

    for change, said in ((short_stream, "stores 4 bytes of the 2400"), (filters_skipped, "stores 8 bytes of the 2400"),
                         (less_stored, "store 16 bytes together"), (bits_beyond, "bits lie beyond their 4 bytes"),
                         (animals, "an enumeration"), (nothing, "null dataspace")):
        name = f"{change.__name__}.h5"
        with h5py.File(name, "w") as file:
            file["y"] = numpy.zeros(100, "u1")
            change(file)
        with open(name, "rb") as file:
            content = bytearray(file.read())
        if change is less_stored:  # the length in the index of chunks
            place = content.index((2400).to_bytes(4, "little"), content.index(b"TREE\x01"))
            content[place:place + 4] = (16).to_bytes(4, "little")
        if change is bits_beyond:  # the offset, before the precision
            place = content.index(bytes([7, 0, 16, 0]))
            content[place:place + 2] = (200).to_bytes(2, "little")
        with open(name, "wb") as file:
            file.write(content)
        ended = refused(change.__name__, ["evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "train", "--set",
                                          data_of(name)])
        check(said in ended.said, ended.said)
    for short in hostile_files.SHORT_CHUNKS:
        with h5py.File("short.h5", "w") as file:
            file["y"] = numpy.zeros(100, "u1")
            hostile_files.add_short_chunk(file, "x", (100, 6), short)
        ended = refused(short, ["evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "train", "--set",
                                data_of("short.h5")])
        check("short.h5:/x, elements from (0, 0) on: a chunk" in ended.said, ended.said)
    with h5py.File("model.weights.h5") as file:
        arrays = []
        file.visititems(lambda path, item: arrays.append(path) if isinstance(item, h5py.Dataset) and item.ndim == 2 else None)
    shutil.copy("model.weights.h5", "short.weights.h5")
    with h5py.File("short.weights.h5", "r+") as file:
        shape = file[arrays[0]].shape
        del file[arrays[0]]
        file.create_dataset(arrays[0], shape, "f4", chunks=shape, compression="gzip").id.write_direct_chunk(
            (0, 0), zlib.compress(b"abcd"))
    refused("short weights", ["import", "run.yaml", "short.weights.h5", "--output", "imported"])
    check(not os.path.exists("imported"), "import of short weights left something")

    # Weights that were declared and never written, whole or in part, or that float32 cannot hold.
    for name, values, said in (("never written", None, "has no data: it was declared and never written"),
                               ("some written", None, "has no data in"),
                               ("large", 1e300, "is 1e+300, which float32 cannot hold")):
        shutil.copy("model.weights.h5", "strange.weights.h5")
        with h5py.File("strange.weights.h5", "r+") as file:
            del file[arrays[0]]
            if values is not None:
                file[arrays[0]] = numpy.full(shape, values)
            else:
                data = file.create_dataset(arrays[0], shape, "f4", chunks=(1, shape[1]) if "some" in name else None)
                if data.chunks:
                    data[0] = 1
        for arguments in (["import", "run.yaml", "strange.weights.h5", "--output", "imported"],
                          ["train", "run.yaml", "--weights", "strange.weights.h5", "--set", "checkpoint.directory=none"]):
            ended = refused(name, arguments)
            check(said in ended.said and arrays[0] in ended.said, ended.said)
        check(not os.path.exists("imported"), f"{name}: import left something")

    # Of very many chunks one says that it is shorter than it is, and another longer: none is read beyond its end.
    with h5py.File("very_many.h5", "w", libver="earliest") as file:
        values = numpy.random.default_rng(2).random((5000, 6), "f4")
        file["y"] = numpy.zeros(5000, "u1")
        file.create_dataset("x", data=values, chunks=(1, 6))
    very_many = ["predict", "run.yaml", "--checkpoint", checkpoint, "--data", "train", "--set",
                 data_of("very_many.h5"), "--set", "data.batch_size=1000", "--output"]
    whole([*very_many, "whole.csv"])
    with open("very_many.h5", "rb") as file:
        content = bytearray(file.read())
    leaf = content.index(b"TREE\x01\x00")
    for child, length in ((0, 4), (1, 44)):  # a key of four bytes of length, four of filters, three numbers
        struct.pack_into("<I", content, leaf + 24 + child * (8 + 8 * 3 + 8), length)
    with open("very_many.h5", "wb") as file:
        file.write(content)
    whole([*very_many, "short.csv"])
    check(filecmp.cmp("whole.csv", "short.csv", shallow=False), "chunks were read beyond their end")

    # A chunk of virtual data's source that unpacks to a gigabyte.
    shutil.copy("one_chunk.h5", "source_of_gigabyte.h5")
    with h5py.File("virtual_chunk.h5", "w") as file:
        layout = h5py.VirtualLayout((400_000, 6), "<f4")
        layout[...] = h5py.VirtualSource("source_of_gigabyte.h5", "x", (400_000, 6))
        file.create_virtual_dataset("x", layout)
        file["y"] = numpy.zeros(400_000, "u1")
    refused("virtual chunk", [*evaluate, "--set", data_of("virtual_chunk.h5", ", virtual: true")], (2,))

    # An image that ends too early is found when it is read, and starting again would not help.
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    image = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
             + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + os.urandom(24) for _ in range(8)))) + chunk(b"IEND", b""))
    for name in ("a/0", "a/1\n\x1b[31m", "b/0", "b/1"):
        os.makedirs("pictures/" + name[0], exist_ok=True)
        with open(f"pictures/{name}.png", "wb") as file:
            file.write(image[:90] if "\n" in name else image)
    with open("images.yaml", "w", encoding="utf-8") as file:
        file.write("data: {train: {kind: images, directory: pictures}, batch_size: 4}\n"
                   "model: {input: [8, 8, 3], layers: [Flatten, {Dense: {units: 2}}]}\n"
                   "loss: {SparseCategoricalCrossentropy: {from_logits: true}}\noptimizer: SGD\nfit: {verbose: silent}\n")
    ended = refused("image", ["train", "images.yaml"], (2,))
    check("pictures/a/1\\n\\x1b[31m.png" in ended.said, ended.said)

    # Names with line feeds stay in one line.
    for arguments in (["inspect", "a\nb"], ["verify", "a\nb"], ["export", "a\nb", "--keras", "k\nl.weights.h5"],
                      ["diff", "a\nb", checkpoint], ["import", "run.yaml", "a\nb.weights.h5", "--output", "c\nd"],
                      ["train", "a\nb.yaml"], ["predict", "run.yaml", "--checkpoint", "a\nb", "--output", "p.csv"],
                      ["predict", "run.yaml", "--checkpoint", checkpoint, "--output", "a\nb/p.csv"],
                      ["train", "run.yaml", "--weights", "a\nb", "--set", "checkpoint.directory=none"]):
        ended = refused("a line feed", arguments, (1, 2))
        said = [line for line in ended.said.splitlines() if not line.startswith(("`meshwork", "weights: "))]
        check(len(said) == 1 and "\\n" in said[0], f"{arguments}: {ended.said}")

    # Many small chunks are looked at once each, in little time.
    with h5py.File("many_chunks.h5", "w") as file:
        file.create_dataset("x", data=numpy.ones((20_000, 6), "f4"), chunks=(1, 6), compression="gzip")
        file["y"] = numpy.zeros(20_000, "u1")
    ended = whole([*evaluate, "--set", data_of("many_chunks.h5"), "--set", "data.batch_size=1000"])
    check(ended.work < 3 * SECONDS, f"many chunks: {ended.work:.1f} s")

    # A hole stores nothing, whatever its length.
    with h5py.File("hole.h5", "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((1 << 28, 6)), plist)
        file["y"] = numpy.zeros(1, "u1")
    refused("hole", ["train", "run.yaml", "--dry-run", "--set", data_of("hole.h5")], (2,))

    # What the run keeps its checkpoints under is nobody else's, asked for or not.
    shutil.copytree("checkpoints", "kept")
    kept = os.path.join("kept", os.path.basename(checkpoint))
    for taken in (kept, os.path.join("kept", ".lock"), os.path.join("kept", "step-000000999.h5")):
        refused("checkpoint as log", ["train", "run.yaml", "--resume", "--set", "checkpoint.directory=kept", "--set",
                                      "fit.epochs=2", "--overwrite", "--set",
                                      f"fit.callbacks=[{{CSVLogger: {{filename: {taken}}}}}]"], (2,))
    check(filecmp.cmp(kept, checkpoint, shallow=False), "a checkpoint was written over by a log")

    # A name with a slash would lead through the link beside it, and wait for a writer to the pipe.
    os.mkfifo("pipe")
    with h5py.File("slash.h5", "w") as file:
        file["extAx"] = numpy.zeros(3)
        file["ext"] = h5py.ExternalLink("pipe", "/")
    with open("slash.h5", "rb") as file:
        content = file.read()
    with open("slash.h5", "wb") as file:
        file.write(content.replace(b"extAx", b"ext/x"))
    refused("slash", ["train", "run.yaml", "--dry-run", "--set", data_of("slash.h5")], (2,))
    refused("slash", ["import", "run.yaml", "slash.h5", "--output", "imported"])
    refused("slash", ["verify", "slash.h5"])

    # Names that a terminal would obey, or that no checkpoint can have.
    for name, said in (("a\u202eb", "control character"), ("a\u2066b", "control character"),
                       ("a\x85b", "control character"), ("n" * 1025, "1024 are the most")):
        layers = f"model.layers=[{{Dense: {{name: \"{name}\", units: 4}}}}]"
        for command in ("plan", "train"):
            ended = refused("name", [command, "run.yaml", "--set", layers, "--set", "checkpoint.directory=none"], (2,))
            check(said in ended.said, ended.said)

    # Directories that cannot be made, whatever one may.
    for directory in ("/proc/x", "/sys/x"):
        ended = refused("directory", ["train", "run.yaml", "--set", f"checkpoint.directory={directory}"], (2,))
        check("cannot be made" in ended.said, ended.said)

    # A directory under a checkpoint's name keeps that checkpoint from being saved, and no other.
    os.makedirs("taken/step-000000004.h5/x")
    on_error = ["train", "run.yaml", "--set", "checkpoint.directory=taken", "--set", "fit.epochs=2", "--set",
                "fit.verbose=silent", "--set"]
    ended = whole([*on_error, "checkpoint.on_error=continue"])
    check(ended.said.count("could not be written") == 1, ended.said)
    check(sorted(os.listdir("taken")) == [".lock", "step-000000004.h5", "step-000000008.h5"], os.listdir("taken"))
    os.remove("taken/step-000000008.h5")
    ended = Ended([*on_error, "checkpoint.on_error=stop"])
    check(ended.status == 1 and ended.said.count("could not be written") == 1, ended.said)

    # Fill values.
    with h5py.File("sparse.h5", "w") as file:
        hostile_files._low_level(file, "x", (1 << 28, 6), chunks=(1024, 6))
        hostile_files._low_level(file, "y", (1 << 28,), chunks=(1024,))
    refused("sparse", ["train", "run.yaml", "--set", data_of("sparse.h5")], (2,))
    whole(["plan", "run.yaml", "--set", data_of("sparse.h5", ", sparse: true")])
    print("failures:", failures)
    sys.exit(1 if failures else 0)


main()
