"""The public headers are whole: launch/public_headers.txt names all of them.

    public_headers.py SOURCE BUILD          # each includes public headers alone
    public_headers.py SOURCE BUILD compile  # each compiles by itself against what is installed

The second reads CMAKE and MESHWORK_CXX, the compiler.
Programs of the examples and of the README include no other header either.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
generated = build / "include"
include = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def listed():
    """The headers of the list, from the root of the source tree."""
    found = set()
    for line in (source / "launch/public_headers.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            headers = {str(path.relative_to(source)) for path in source.glob(line)}
            if not headers:
                sys.exit(f"launch/public_headers.txt: there is no {line}")
            if headers & found:
                sys.exit(f"launch/public_headers.txt names {sorted(headers & found)} twice")
            found |= headers
    return found


def is_ours(header):
    return header.startswith("meshwork/") or (source / header).exists()


public = listed()
front = sorted(path for path in generated.rglob("*.h"))
if not front:
    sys.exit(f"{generated} has no headers")
public_names = public | {str(path.relative_to(generated)) for path in front}
users = [source / "README.md", source / "tests/launch/consumer.cpp",
         *sorted((source / "launch/examples").rglob("*.cpp"))]
wrong = []
for path in [source / header for header in sorted(public)] + front + users:
    for header in include.findall(path.read_text(encoding="utf-8")):
        if is_ours(header) and header not in public_names:
            wrong.append(f"{path}: includes {header}, which is no public header")
if wrong:
    sys.exit("\n".join(wrong))
if len(sys.argv) < 4:
    sys.exit(0)

prefix = pathlib.Path("prefix").resolve()
shutil.rmtree(prefix, ignore_errors=True)
subprocess.run([os.environ["CMAKE"], "--install", str(build), "--prefix", str(prefix)], check=True,
               stdout=subprocess.DEVNULL)
installed = prefix / "include/meshwork"
found = {str(path.relative_to(installed)) for path in installed.rglob("*.h")}
expected = public | {str(path.relative_to(generated / "meshwork")) for path in front}
if found != expected:
    sys.exit(f"installed and not public: {sorted(found - expected)}\n"
             f"public and not installed: {sorted(expected - found)}")
module = next(prefix.rglob("meshwork.pc")).parent
flags = subprocess.run(["pkg-config", "--cflags", "meshwork"], check=True, capture_output=True, text=True,
                       env={**os.environ, "PKG_CONFIG_PATH": str(module)}).stdout.split()


compile_only = [os.environ["MESHWORK_CXX"], "-std=c++20", *flags, "-x", "c++-header"]
programs = pathlib.Path("programs").resolve()
shutil.rmtree(programs, ignore_errors=True)
programs.mkdir()
included = {}


def included_by(header):
    """Our headers that it includes, and that those include."""
    if header not in included:
        included[header] = set()
        for name in include.findall((installed / header).read_text(encoding="utf-8")):
            name = name.removeprefix("meshwork/")
            if name in found:
                included[header] |= {name} | included_by(name)
    return included[header]


# What a header includes may be compiled before it: that adds nothing to what it sees. So each is compiled behind the
# largest of those that many include, which are compiled once.
users_of = collections.Counter(name for header in found for name in included_by(header))
many = [header for header in found if users_of[header] >= 20]
behind = {header: max(included_by(header).intersection(many), key=lambda one: (len(included_by(one)), one), default=None)
          for header in found}
often = {one for one, users in collections.Counter(behind.values()).items() if one and users >= 5}


def compiled(header, *options):
    """What the compiler says of `header`, by itself."""
    program = programs / (header.replace("/", "_") + ".h")
    program.write_text(f'#include "{header}"\n', encoding="utf-8")
    ended = subprocess.run([*compile_only, *options, str(program)], capture_output=True, text=True, check=False)
    return f"{header} does not compile by itself:\n{ended.stderr}" if ended.returncode != 0 else ""


def precompiled(header):
    return compiled(header, "-o", str(programs / (header.replace("/", "_") + ".h.gch")))


def checked(header):
    if behind[header] not in often:
        return compiled(header, "-fsyntax-only")
    return compiled(header, "-fsyntax-only", "-include", str(programs / (behind[header].replace("/", "_") + ".h")))


with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("MESHWORK_COMPILERS", "2"))) as pool:
    complaints = [text for text in pool.map(precompiled, sorted(often)) if text]
    complaints += [text for text in pool.map(checked, sorted(found - often)) if text]
if complaints:
    sys.exit("\n".join(complaints))
print(f"{len(found)} headers compile")
