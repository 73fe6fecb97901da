#!/usr/bin/env python3
"""The recipes for Spack and Apptainer, neither of which runs here, against the tree: their syntax, and that the
files, options, packages and versions that they name are those of CMake and launch/setup.

    recipes.py PROGRAM
"""
import ast
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ.get("MESHWORK_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
setup = (SOURCE / "launch/setup").read_text()
cmake = "\n".join((SOURCE / name).read_text() for name in
                  ("CMakeLists.txt", "runtime/device/cuda/cuda.cmake", "collectives/nccl/nccl.cmake"))
wrong = []


def expect(condition, message):
    if not condition:
        wrong.append(message)


def spack():
    """The recipe's calls are read, not run: Spack gives them their meaning."""
    root = SOURCE / "launch/spack/spack_repo/meshwork"
    expect("  namespace: meshwork\n" in (root / "repo.yaml").read_text(),
           "launch/spack: the namespace of repo.yaml is not that of its folder")
    recipe = root / "packages/meshwork/package.py"
    tree = ast.parse(recipe.read_text(), str(recipe))
    expect([node.name for node in tree.body if isinstance(node, ast.ClassDef)] == ["Meshwork"],
           "package.py does not define the class Meshwork, which its folder asks for")
    calls = [(node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""), node)
             for node in ast.walk(tree) if isinstance(node, ast.Call)]
    options = [node.args[0].value for name, node in calls if name == "define"]
    expect(len(options) >= 5, f"package.py defines only {options}")
    for option in options:
        known = re.search(rf"\b(option|set|meshwork_optional_part)\({option}\b", cmake)
        expect(known, f"package.py: CMake has no option {option}")
    parents = [int(node.slice.value) for node in ast.walk(tree)
               if isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "parents"]
    expect([recipe.parents[i] for i in parents] == [SOURCE], "package.py does not find the source tree that it lies in")
    specs = [node.args[0].value for name, node in calls if name == "depends_on"]
    needed = {"MPI": "mpi", "dnnl": "onednn", "yaml-cpp": "yaml-cpp", "CLI11": "cli11", "fmt": "fmt",
              "ZLIB": "zlib-api", "PNG": "libpng", "JPEG": "jpeg", "Protobuf": "protobuf", "HDF5": "hdf5", "OpenMP": None,
              "Threads": None, "CUDAToolkit": "cuda",
              "Catch2": None}  # the recipe builds no tests
    for package in re.findall(r"^\s*find_package\((\S+)", cmake, re.MULTILINE):
        expect(package in needed, f"CMake looks for {package}, of which this test and perhaps package.py know nothing")
        name = needed.get(package)
        expect(name is None or any(re.match(rf"{name}\b", spec) for spec in specs),
               f"package.py does not depend on {name}, which CMake looks for as {package}")
    for name, words in {"cmake": "CMake", "hdf5": "HDF5", "onednn": "oneDNN"}.items():
        version = re.search(rf"\b{words} (\d+\.\d+)", setup)[1]
        expect(any(spec.startswith(f"{name}@{version}:") for spec in specs),
               f"package.py does not ask for {name} {version} or later, as launch/setup does")


def apptainer():
    text = (SOURCE / "launch/meshwork.def").read_text()
    stages = re.split(r"^Bootstrap: ", text, flags=re.MULTILINE)[1:]
    expect(len(stages) == 2, f"meshwork.def has {len(stages)} stages")
    made = set()
    for stage in stages:
        header, *sections = re.split(r"^%", stage, flags=re.MULTILINE)
        expect(re.fullmatch(r"docker\nFrom: debian:\d+\nStage: \w+\n+", header), f"meshwork.def: the header {header}")
        for section in sections:
            title, *lines = [line.strip() for line in section.splitlines() if line.strip()]
            kind = title.split()[0]
            expect(kind in ("files", "post", "test", "runscript", "help"), f"meshwork.def: the section %{title}")
            if title == "files":
                for line in lines:
                    source, target = line.split()
                    expect((SOURCE / source).exists(), f"meshwork.def: there is no {source}")
                    expect(target == f"/source/{source}", f"meshwork.def: {source} goes to {target}")
                copied = {line.split()[0] for line in lines}
                top = {"CMakeLists.txt", "README.md"} | {path.parent.name for path in SOURCE.glob("*/README.md")}
                expect(top <= copied, f"meshwork.def does not copy {sorted(top - copied)}")
            elif kind == "files":
                for line in lines:
                    expect(line.split()[0] in made, f"meshwork.def: no stage makes {line.split()[0]}")
            elif kind == "post":
                made |= {line.split()[-1] for line in lines if line.startswith("cp ")}
                for line in lines:
                    words = line.split()
                    if words[0].startswith("launch/"):
                        script = SOURCE / words[0]
                        expect(os.access(script, os.X_OK), f"meshwork.def: {words[0]} is no script")
                        for word in words[1:]:
                            expect(re.search(rf"^ *(\w+ \| )*{word}\)|\| {word}\)", script.read_text(), re.MULTILINE),
                                   f"meshwork.def: {words[0]} knows no {word}")
                    elif words[:2] == ["apt-get", "install"]:
                        for package in words[2:]:
                            expect(package.startswith(("-", "/")) or re.search(rf"[( ]{package}[) ]", setup),
                                   f"meshwork.def: launch/setup has no {package}")


spack()
apptainer()
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
