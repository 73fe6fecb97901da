#!/usr/bin/env python3
"""The GPU code in a library is that for the architectures asked for, and none is in one built without.

    architectures.py LIBRARY [80-real 90-real 100 ...]

An architecture as CMake writes it: 90-real is machine code, 90-virtual PTX, 90 both. Without any, the library
may hold no GPU code and name no library of CUDA. nvcc puts its output into "fat binaries": a header, then
entries of a header each, which says whether it is PTX (1) or machine code (2), its length and architecture.
"""

import pathlib
import struct
import sys

MAGIC = struct.pack("<I", 0xBA55ED50)
KINDS = {1: "virtual", 2: "real"}


def entries(data):
    """The kinds and architectures of all entries of all fat binaries."""
    at = data.find(MAGIC)
    while at >= 0:
        version, header, size = struct.unpack_from("<HHQ", data, at + 4)
        position, end = at + header, at + header + size
        if version != 1 or end > len(data):
            sys.exit(f"the fat binary at {at} is of version {version} and {size} bytes: not understood")
        while position < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, position)
            (architecture,) = struct.unpack_from("<I", data, position + 28)
            if kind not in KINDS or entry_header < 32:
                sys.exit(f"the entry at {position} is of kind {kind}: not understood")
            yield f"{architecture}-{KINDS[kind]}"
            position += entry_header + entry_size
        at = data.find(MAGIC, end)


def main():
    library, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    data = library.read_bytes()
    if not wanted:
        traces = [word for word in (b"libcuda", b"libcublas", b"libcudnn", b"libnccl", b"cudaMalloc", b".nv_fatbin", MAGIC)
                  if word in data]
        sys.exit(f"{library} was built without CUDA and holds {traces}" if traces else 0)
    expected = set()
    for word in wanted:
        number, _, kind = word.partition("-")
        expected |= {f"{number}-{kind}"} if kind else {f"{number}-real", f"{number}-virtual"}
    found = set(entries(data))
    if found != expected:
        sys.exit(f"{library} holds code for {sorted(found)}, and should for {sorted(expected)}")
    print(f"{library}: {', '.join(sorted(found))}")


main()
