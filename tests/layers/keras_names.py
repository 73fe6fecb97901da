"""Holds what a configuration can name against Keras's own modules.

    keras_names.py MESHWORK

Every class of Keras, and every argument of the classes that both have, is there, or is refused with
what to write instead (runtime/config/absent.cpp). Of what counts there, so much is there as
REACHED says. Exit status 77: there is no Keras.
"""
import inspect
import os
import re
import subprocess
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")
try:
    import keras
except ImportError as problem:
    print(problem)
    sys.exit(77)

meshwork = sys.argv[1]
failures = []

# Of each group: Keras's module, and the share of what counts that is there at least.
REACHED = {
    "losses": (keras.losses, 1),
    "metrics": (keras.metrics, 0.9),
    "optimizers": (keras.optimizers, 1),
    "schedules": (keras.optimizers.schedules, 0.9),
    "callbacks": (keras.callbacks, 1),
    "initializers": (keras.initializers, 0.95),
    "regularizers": (keras.regularizers, 1),
    "constraints": (keras.constraints, 1),
    "layers": (keras.layers, 0.95),
}
NOT_NAMED = [inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL]


def reference(*arguments):
    return subprocess.run([meshwork, "reference", "--markdown", *arguments], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def classes_of(module):
    """By class, the name that it was made under; other names of one class follow it."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        if inspect.isclass(value) and not name[0].islower():
            found.setdefault(value, []).append(name)
    return found


def described(group):
    """By name, the options; short names too."""
    options, names = {}, []
    for line in reference(group).splitlines():
        if line.startswith("#### "):
            names = line[5:].split(", ")
            options.update({name: [] for name in names})
        elif match := re.match(r"\| `(\w+)` \|", line):
            for name in names:
                options[name].append(match[1])
    return options


def absent(group):
    """By name, whether it counts."""
    counts = {}
    for line in reference("--absent", group).splitlines():
        if match := re.match(r"\| (`.+`) \| (.+) \| (yes|) \|$", line):
            for name in re.findall(r"`([^`]+)`", match[1]):
                counts[name] = match[3] == "yes"
    return counts


def check(group, module, least):
    ours, others = described(group), absent(group)
    if group == "layers":
        ours.update(described("augmentations"))
        others.update(absent("augmentations"))
    if group == "metrics":
        ours.update(described("losses"))
        others.update(absent("losses"))
    there = counted = 0
    for value, names in classes_of(module).items():
        if any(name in ours for name in names):
            there, counted = there + 1, counted + 1
            continue
        if not any(name in others for name in names):
            failures.append(f"{group}: {names} are neither there nor refused")
        counted += any(others.get(name, False) for name in names)
    print(f"{group}: {there} of {counted} that count")
    if there < least * counted:
        failures.append(f"{group}: {there} of {counted} are there, expected {least:.0%}")
    for value, names in classes_of(module).items():
        for name in (name for name in names if name in ours):
            for argument in list(inspect.signature(value.__init__).parameters.values())[1:]:
                if argument.kind in NOT_NAMED or argument.name in ours[name]:
                    continue
                if not {f"{name}.{argument.name}", f".{argument.name}"} & others.keys():
                    failures.append(f"{group}: {name} has no argument {argument.name}")


for group, (module, least) in REACHED.items():
    check(group, module, least)
for failure in failures:
    print(failure)
sys.exit(bool(failures))
