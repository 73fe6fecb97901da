"""`plan --svg` without `--layout`: the parts of a placed model. It is XML, and its arrows have the bytes that `plan`
has of `send`.

    parts_picture.py MESHWORK
"""
import json
import os
import subprocess
import sys
from xml.etree import ElementTree

meshwork = sys.argv[1]

CONFIGURATION = """
mesh: {stage: 3, data: 2}
place: {a: {stage: 0}, b: {stage: 1}, c: {stage: 2}}
pipeline: {axis: stage, schedule: 1f1b}
data:
  train: {kind: synthetic, rows: 4096, features: {kind: normal, shape: [6]}, targets: {kind: classes, classes: 4}}
  batch_size: 2048
model:
  input: [6]
  layers: [{Dense: {name: a, units: 8}}, {Dense: {name: b, units: 16}}, {Dense: {name: c, units: 4}}]
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: SGD
fit: {microbatches: 4}
"""


def run(*arguments, status=0):
    ended = subprocess.run([meshwork, "plan", "run.yaml", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode != status:
        sys.exit(f"{' '.join(arguments)}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout + ended.stderr


def texts(file):
    return [element.text for element in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]


def sent(rank):
    """By what is sent."""
    report = json.loads(run("--json", "--rank", str(rank)))
    total = {}
    for record in report["collectives"]:
        if record["collective"] == "send" and record["bytes_sent"] > 0:
            total[record["what"]] = total.get(record["what"], 0) + record["bytes_sent"]
    return total


with open("run.yaml", "w", encoding="utf-8") as file:
    file.write(CONFIGURATION)
for picture in ("parts.svg", "again.svg"):
    if os.path.exists(picture):
        os.remove(picture)

said = run("--svg", "parts.svg", "--rank", "1")
assert "parts.svg: the parts of the model" in said, said
found = texts("parts.svg")
wanted = ["stage=0", "stage=1", "stage=2", "a", "b", "c"]
for rank in (1, 3, 5):  # at data=1
    for what, count in sent(rank).items():
        assert count % 1024 == 0, (what, count)
        at = found.index(what)
        assert found[at + 1] == f"{count / 1024:.1f} KiB", (what, count, found[at + 1])
        wanted.append(what)
assert len(wanted) == 6 + 4, wanted  # two values, and their gradients
for words in wanted:
    assert words in found, (words, found)
assert any("data=1" in words for words in found), found
boxes = [element for element in ElementTree.parse("parts.svg").iter("{http://www.w3.org/2000/svg}title")]
assert len(boxes) == 3 * 2 * 4, len(boxes)

run("--svg", "again.svg", "--rank", "1")
with open("parts.svg", "rb") as first, open("again.svg", "rb") as second:
    assert first.read() == second.read(), "two pictures of one plan differ"

# A mesh on which nothing is placed, and a picture of a layout instead.
said = run("--svg", "whole.svg", "--mesh", "stage=1,data=2", status=2)
assert "no layer is placed on the mesh stage=1 x data=2" in said and "--layout TENSOR" in said, said
assert not os.path.exists("whole.svg")
run("--svg", "again.svg", "--mesh", "stage=1,data=2", "--layout", "a/kernel")
assert any("a/kernel" in words for words in texts("again.svg"))
