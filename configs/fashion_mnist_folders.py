#!/usr/bin/env python3
"""Writes Fashion-MNIST as folders of PNG files, a folder a class, for configs/image_folder.yaml.

    configs/fashion_mnist_folders.py FOLDER             70,000 images: FOLDER/train, FOLDER/test
    configs/fashion_mnist_folders.py FOLDER --images N  the first N of each only

Reads what the Debian package dataset-fashion-mnist installs, and needs nothing but Python.
"""
import argparse
import gzip
import pathlib
import struct
import zlib

CLASSES = ["t_shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
           "ankle_boot"]
IDX = pathlib.Path("/usr/share/datasets/fashion-mnist")
SIDE = 28


def chunk(kind, content):
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def png(pixels):
    """A grey image. Each row begins with the number of its filter: 0, none."""
    rows = b"".join(b"\0" + pixels[i:i + SIDE] for i in range(0, len(pixels), SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def write_images(part, folder, most):
    for name in CLASSES:
        (folder / name).mkdir(parents=True, exist_ok=True)
    # IDX: a header of 16 bytes before images, of 8 before labels.
    images = gzip.open(IDX / f"{part}-images-idx3-ubyte.gz").read()[16:]
    labels = gzip.open(IDX / f"{part}-labels-idx1-ubyte.gz").read()[8:]
    for number, label in enumerate(labels[:most]):
        pixels = images[number * SIDE * SIDE:(number + 1) * SIDE * SIDE]
        (folder / CLASSES[label] / f"{number:05}.png").write_bytes(png(pixels))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where to write train/ and test/")
    parser.add_argument("--images", type=int, help="images of each; default: all")
    arguments = parser.parse_args()
    write_images("train", arguments.folder / "train", arguments.images)
    write_images("t10k", arguments.folder / "test", arguments.images)


main()
