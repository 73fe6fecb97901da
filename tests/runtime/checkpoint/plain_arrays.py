"""Reads a checkpoint with h5py alone, as anybody would, and compares it with what must be in it.

python3 plain_arrays.py FILE: exit status 0 if all is right, 77 if there is no h5py.
"""
import sys

try:
    import h5py
    import numpy
except ImportError as problem:
    print(problem)
    sys.exit(77)


def value(name, index):
    """As example_value in example.h: float32 after every addition."""
    total = numpy.float32(index) * numpy.float32(0.5)
    for character in name.encode():
        total = numpy.float32(total + numpy.float32(character) * numpy.float32(1e-3))
    return total


with h5py.File(sys.argv[1], "r") as file:
    assert file.attrs["format"] in (b"meshwork checkpoint", "meshwork checkpoint")
    assert file.attrs["step"] == 1200 and file.attrs["epoch"] == 3
    assert file["state"].attrs["learning_rate"] == 1.0 / 3
    assert file["state/configuration"][()].decode() == "seed: 7\nname: \u00e9t\u00e9\n"
    assert list(file["history/loss"][:2]) == [0.5, 0.25]
    assert file["callbacks/0-EarlyStopping/numbers"].attrs["wait"] == 2.0
    shapes = {"params/d1/kernel": (131, 257), "slots/d1/kernel/momentum": (131, 257),
              "params/conv/kernel": (3, 2, 5, 4), "params/scale": (), "params/nothing": (0, 4),
              "callbacks/0-EarlyStopping/weights/d1/bias": (7,)}
    for name, shape in shapes.items():
        dataset = file[name]
        assert dataset.shape == shape, (name, dataset.shape)
        assert dataset.dtype == numpy.float32 and dataset.chunks is None, name
        flat = numpy.asarray(dataset[()]).ravel()
        for index in list(range(min(5, flat.size))) + list(range(flat.size)[-5:]):
            assert abs(flat[index] - value(name, index)) <= abs(value(name, index)) * 1e-6, name
print("all arrays are as they should be")
