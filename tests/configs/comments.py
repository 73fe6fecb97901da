"""The commands in the comments of configurations can be planned, those of training on as many ranks as they say.

    comments.py MESHWORK
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

program = sys.argv[1]
source = pathlib.Path(os.environ["MESHWORK_SOURCE_DIR"])
command = re.compile(r"^# +(?:mpirun -n (\d+) )?build/meshwork (?:train|plan) (.*?)(?:  .*)?$")
tried = 0
wrong = []
for path in sorted((source / "configs").rglob("*.yaml")):
    text = path.read_text(encoding="utf-8")
    for line in re.sub(r" \\\n# +", " ", text).splitlines():
        if found := command.match(line):
            ranks, arguments = found.groups()
            planned = [program, "plan", *shlex.split(arguments), *(["--ranks", ranks] if ranks else [])]
            ended = subprocess.run(planned, cwd=source, capture_output=True, text=True, check=False)
            tried += 1
            if ended.returncode != 0:
                wrong.append(f"{path.name}: {line}\n{ended.stderr}")
if wrong or tried == 0:
    sys.exit("\n".join(wrong) or "there is no command")
print(f"{tried} commands can be planned")
