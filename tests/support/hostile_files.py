"""Files that were made to do harm to whoever reads them, each from a whole one.

    for name, file in hostile_weights(folder, weights): ...

Every function writes its files into `folder` and yields a name and a path for each. What they do:
name other files (external storage, virtual datasets, external links), declare what they do not
hold, nest or lead in circles, are of kinds that a reader waits for.
"""
import os
import shutil
import struct
import zlib

import h5py
import numpy

SECRET = "/etc/hostname"  # which all may read, and no file of ours may hold


def _datasets(file):
    names = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names


def _largest(path):
    """The path of the largest dataset of floats."""
    with h5py.File(path) as file:
        return max((n for n in _datasets(file) if file[n].dtype.kind == "f"), key=lambda n: file[n].size)


def _low_level(file, name, shape, *, chunks=None, filters=(), storage=None, grows=False):
    """A dataset of which nothing is written."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunks:
        creation.set_chunk(chunks)
    for number in filters:
        creation.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (1,))
    if storage:
        creation.set_external(*storage)
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE,
                    h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape) if grows else shape), creation)


def _scaled(bits):
    """How scaleoffset says that it stores so many bits of each number, and the least number."""
    return struct.pack("<IB16x", bits, 8)


# Chunks that store less than their filter reads: the filter, and what is stored of so many bytes.
SHORT_CHUNKS = {
    "short_nbit": (lambda creation: creation.set_filter(h5py.h5z.FILTER_NBIT), lambda _: b"\1"),
    "short_scaleoffset": (lambda creation: creation.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 3), lambda _: b"\1"),
    "short_scaleoffset_header": (lambda creation: creation.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 3),
                                 lambda _: _scaled(31)),
    "short_scaleoffset_all_bits": (lambda creation: creation.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 3),
                                   lambda count: _scaled(32) + bytes(count - 21)),
    "short_scaleoffset_many_bits": (lambda creation: creation.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 3),
                                    lambda _: _scaled((1 << 31) - 1) + bytes(30)),
    "short_szip": (lambda creation: creation.set_szip(h5py.h5z.SZIP_NN_OPTION_MASK, 8),
                   lambda count: struct.pack("<I", count)),
    "short_szip_stream": (lambda creation: creation.set_szip(h5py.h5z.SZIP_NN_OPTION_MASK, 8),
                          lambda count: struct.pack("<I", count) + b"\xff" * 10),
}


def add_short_chunk(file, place, shape, name):
    """A dataset of floats, of one chunk that is one of SHORT_CHUNKS."""
    set_filter, stored = SHORT_CHUNKS[name]
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk(shape)
    set_filter(creation)
    data = h5py.h5d.create(file.id, place.encode(), h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(shape), creation)
    data.write_direct_chunk((0,) * len(shape), stored(4 * int(numpy.prod(shape))))


def _of_zeros(count):
    """A stream of deflate that so many zeros come out of, a multiple of `piece`."""
    piece = 1 << 24
    packer = zlib.compressobj(9)
    first = packer.compress(bytes(piece)) + packer.flush(zlib.Z_FULL_FLUSH)
    # Behind a full flush the same zeros are the same bytes.
    again = packer.compress(bytes(piece)) + packer.flush(zlib.Z_FULL_FLUSH)
    adler32 = (count % 65521) << 16 | 1
    return first + again * (count // piece - 1) + packer.flush()[:-4] + struct.pack(">I", adler32)


_edits = {}


def _edit_later(file, before, after):
    """Bytes of the file to be replaced when it is closed."""
    _edits[file.filename] = (before.tobytes(), after.tobytes())


def _apply_edit(path):
    if path in _edits:
        before, after = _edits.pop(path)
        with open(path, "rb") as file:
            content = file.read()
        assert before in content, path
        with open(path, "wb") as file:
            file.write(content.replace(before, after))


def _lead_around(path, levels=4, kind=0, bytes_of_key=8):
    """Lets the index of the first group (kind 0) lead through its names 64 ** `levels` times, or that of the first
    dataset in chunks (kind 1) through its chunks: nothing in it is covered by a checksum (HDF5's version 1 of
    B-trees)."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    at = content.find(b"TREE" + bytes([kind]))
    fanout, nowhere = 32, b"\xff" * 8
    bytes_of_node = 24 + 2 * fanout * 8 + (2 * fanout + 1) * bytes_of_key
    keys = at + 24
    first_key = content[keys:keys + bytes_of_key]
    last_key = content[keys + bytes_of_key + 8:keys + 2 * bytes_of_key + 8]
    child = len(content)
    content += content[at:at + bytes_of_node]
    for level in range(1, levels + 1):
        node = b"TREE" + bytes([kind, level]) + struct.pack("<H", 2 * fanout) + 2 * nowhere
        node += (first_key + struct.pack("<Q", child)) * (2 * fanout) + last_key
        if level < levels:
            child = len(content)
            content += node
        else:
            content[at:at + bytes_of_node] = node
    end = struct.unpack_from("<Q", content, 40)[0]
    struct.pack_into("<Q", content, 40, max(end, len(content)))
    with open(path, "wb") as file:
        file.write(content)


def _free_space_in_a_circle(path):
    """Lets the free space of the first group's names begin with itself: each time around takes more memory."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    at = content.find(b"HEAP")
    assert at >= 0, path
    _, first, begin = struct.unpack_from("<QQQ", content, at + 8)
    struct.pack_into("<Q", content, begin + first, first)
    with open(path, "wb") as file:
        file.write(content)


def _changes(folder, whole, place):
    """Changes of the dataset `place` of a file: name, and what is done to the open file."""
    with h5py.File(whole) as file:
        shape, values = file[place].shape, file[place][()]
    count = int(numpy.prod(shape))
    source = os.path.join(folder, "source.h5")
    with h5py.File(source, "w") as file:
        file["x"] = values

    def external_storage(file):
        _low_level(file, place, shape, storage=(SECRET.encode(), 0, 4 * count))

    def virtual(file):
        layout = h5py.VirtualLayout(shape, "<f4")
        layout[...] = h5py.VirtualSource(source, "x", shape)
        file.create_virtual_dataset(place, layout)

    def external_link(file):
        file[place] = h5py.ExternalLink(source, "/x")

    def external_link_to_nothing(file):
        file[place] = h5py.ExternalLink("/dev/stdin", "/x")

    def soft_link_in_a_circle(file):
        file[place] = h5py.SoftLink("/" + place)

    def declares_2_40(file):
        _low_level(file, place, (1 << 20, 1 << 20))

    def declares_2_60_in_chunks(file):
        _low_level(file, place, (1 << 30, 1 << 30), chunks=(16, 16))

    def declares_more_than_2_64(file):
        _low_level(file, place, (1 << 50, 1 << 50, 1 << 50), chunks=(16, 16, 16))

    def chunk_of_2_31(file):
        lengths = (1 << 29,) + (1,) * (len(shape) - 1)
        _low_level(file, place, shape, chunks=lengths, filters=(h5py.h5z.FILTER_DEFLATE,), grows=True)
        file[place].id.write_direct_chunk((0,) * len(shape), b"x" * 64)

    def packed(file, filters, stream, chunks=shape):
        _low_level(file, place, shape, chunks=chunks, filters=filters)
        file[place].id.write_direct_chunk((0,) * len(shape), stream)

    def unpacks_to_2_30(file):
        packed(file, (h5py.h5z.FILTER_DEFLATE,), _of_zeros(1 << 30))

    def unpacks_twice_to_2_30(file):
        packed(file, (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_DEFLATE), zlib.compress(_of_zeros(1 << 30), 9))

    def scaled_with_other_settings(file):
        file.create_dataset(place, data=values.astype("<i4"), chunks=shape, scaleoffset=0)
        _edit_later(file, numpy.array([2, 0, values.size], "<u4"), numpy.array([2, 0, 1 << 28], "<u4"))

    def unknown_filter(file):
        _low_level(file, place, shape, chunks=shape, filters=(32015,))

    def texts(file):
        file[place] = numpy.full(shape, b"text")

    def compound(file):
        file[place] = numpy.zeros(shape, [("a", "<f4"), ("b", "<f4")])

    def lists(file):
        file.create_dataset(place, shape, h5py.vlen_dtype(numpy.float32))

    def a_group(file):
        file.create_group(place)

    def nothing(file):
        pass

    yield from ((change.__name__, change) for change in (
        external_storage, virtual, external_link, external_link_to_nothing, soft_link_in_a_circle,
        declares_2_40, declares_2_60_in_chunks, declares_more_than_2_64, chunk_of_2_31, unpacks_to_2_30,
        unpacks_twice_to_2_30, scaled_with_other_settings, unknown_filter, texts, compound,
        lists, a_group, nothing))


def _deep(file, depth=2000):
    group = file
    for _ in range(depth):
        group = group.create_group("g")
    group["vars/0"] = numpy.zeros(3, "f4")


def _circle(file):
    group = file.create_group("circle")
    for number in range(100):
        group[f"again{number}"] = group


def _strange_kinds(folder, suffix, whole):
    """Files that are no HDF5 files, or of no kind that one reads."""
    def place(name):
        return os.path.join(folder, name + suffix)

    os.mkfifo(place("pipe"))
    yield "pipe", place("pipe")
    os.mkdir(place("directory"))
    yield "directory", place("directory")
    os.symlink(place("link_to_itself"), place("link_to_itself"))
    yield "link_to_itself", place("link_to_itself")
    os.symlink("/dev/zero", place("endless_device"))
    yield "endless_device", place("endless_device")
    with open(whole, "rb") as file:
        content = file.read()
    for name, bytes_ in (("empty", b""), ("text", b"no such file\n" * 100), ("signature_alone", content[:8]),
                         ("half", content[:len(content) // 2]), ("without_last_byte", content[:-1])):
        with open(place(name), "wb") as file:
            file.write(bytes_)
        yield name, place(name)


def _changed(folder, suffix, whole):
    place = _largest(whole)
    for name, change in _changes(folder, whole, place):
        path = os.path.join(folder, name + suffix)
        shutil.copy(whole, path)
        with h5py.File(path, "r+") as file:
            del file[place]
            change(file)
        _apply_edit(path)
        yield name, path

    with h5py.File(whole) as file:
        shape = file[place].shape
    for name in SHORT_CHUNKS:
        path = os.path.join(folder, name + suffix)
        shutil.copy(whole, path)
        with h5py.File(path, "r+") as file:
            del file[place]
            add_short_chunk(file, place, shape, name)
        yield name, path

    def names_with_commands(file):
        file["layers/\x1b[31mred/vars/0"] = numpy.zeros(3, "f4")

    def names_written_backwards(file):
        file["layers/\u202ered/vars/0"] = numpy.zeros(3, "f4")

    def names_of_two_lines(file):
        file["layers/a\nb/vars/0"] = numpy.zeros(3, "f4")

    def long_names(file):
        file["n" * 60_000 + "/vars/0"] = numpy.zeros(3, "f4")

    for name, change in (("groups_2000_deep", _deep), ("groups_in_a_circle", _circle), ("long_names", long_names),
                         ("names_with_commands", names_with_commands),
                         ("names_written_backwards", names_written_backwards),
                         ("names_of_two_lines", names_of_two_lines)):
        path = os.path.join(folder, name + suffix)
        shutil.copy(whole, path)
        with h5py.File(path, "r+") as file:
            change(file)
        yield name, path

def hostile_weights(folder, whole):
    yield from _strange_kinds(folder, ".weights.h5", whole)
    yield from _changed(folder, ".weights.h5", whole)
    for name, damage in (("names_again_and_again", _lead_around),
                         ("free_space_in_a_circle", _free_space_in_a_circle)):
        path = os.path.join(folder, name + ".weights.h5")
        shutil.copy(whole, path)
        damage(path)
        yield name, path


def hostile_checkpoints(folder, whole):
    yield from _strange_kinds(folder, ".h5", whole)
    yield from _changed(folder, ".h5", whole)


def hostile_data(folder, whole):
    """Of a file with a dataset "x"."""
    yield from _strange_kinds(folder, ".h5", whole)
    for name, change in _changes(folder, whole, "x"):
        path = os.path.join(folder, name + ".h5")
        shutil.copy(whole, path)
        with h5py.File(path, "r+") as file:
            columns = file["x"].shape[1]
            del file["x"]
            change(file)
        _apply_edit(path)
        yield name, path

    def more_rows(rows):
        def change(file):
            for data in ("x", "y"):
                del file[data]
            _low_level(file, "x", (rows, columns), chunks=(1024, columns))
            _low_level(file, "y", (rows,), chunks=(1024,))
        return change

    def packed_with_lzf(file):
        values = file["x"][()]
        del file["x"]
        file.create_dataset("x", data=values, compression="lzf")

    def misnamed_beside_two_lines(file):
        file["x\nx"] = file["x"]
        del file["x"]

    def deep_and_misnamed(file):
        del file["x"]
        _deep(file)

    def circle_and_misnamed(file):
        del file["x"]
        _circle(file)

    for name, change in (("claims_2_33_rows", more_rows(1 << 33)), ("claims_2_60_rows", more_rows(1 << 60)),
                         ("packed_with_lzf", packed_with_lzf), ("deep_and_misnamed", deep_and_misnamed),
                         ("circle_and_misnamed", circle_and_misnamed),
                         ("misnamed_beside_two_lines", misnamed_beside_two_lines)):
        path = os.path.join(folder, name + ".h5")
        shutil.copy(whole, path)
        with h5py.File(path, "r+") as file:
            change(file)
        yield name, path

    # Indices that lead the library around for ever.
    for name, damage in (("chunks_again_and_again",
                          lambda path: _lead_around(path, levels=5, kind=1, bytes_of_key=8 + 8 * 3)),
                         ("free_space_in_a_circle", _free_space_in_a_circle)):
        path = os.path.join(folder, name + ".h5")
        with h5py.File(path, "w", libver="earliest") as file:
            file["y"] = numpy.zeros(100, "u1")
            file.create_dataset("x", data=numpy.zeros((100, columns), "<f4"), chunks=(50, columns))
        damage(path)
        yield name, path
