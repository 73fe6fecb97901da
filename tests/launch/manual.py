#!/usr/bin/env python3
"""Compares the manual pages with the help and the reference, and has groff read them, where it is there.

    manual.py PROGRAM
"""
import re
import shutil
import subprocess
import sys

program = sys.argv[1]


def output_of(*arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def plain(page):
    """The text of a page, without escapes."""
    for escape, character in {r"\fB": "", r"\fI": "", r"\fR": "", r"\-": "-", r"\&": "", r"\(aq": "'",
                              r"\(ga": "`", r"\e": "\\"}.items():
        page = page.replace(escape, character)
    return page


def one_line(text):
    return " ".join(text.split())


wrong = []
page = plain(output_of("man"))
sections = dict(re.findall(r'^\.SS "meshwork ([\w-]+)"\n(.*?)(?=^\.S[SH])', page, re.DOTALL | re.MULTILINE))
help_text = output_of("--help")
commands = re.findall(r"^  ([a-z-]+) ", help_text.split("Subcommands:")[1].split("\n\n")[0], re.MULTILINE)
if len(commands) < 12 or list(sections) != commands:
    wrong.append(f"meshwork(1) has {list(sections)}, the help {commands}")
for command in commands:
    command_help = output_of(command, "--help")
    options, examples = command_help.split("Options:")[1].split("\n\n", 1)
    for names, _ in re.findall(r"^  (-\S+)( |$)", options, re.MULTILINE):
        term = names.replace(",", ", ")
        if not re.search(rf"^\.TP\n{re.escape(term)}( |$)", sections.get(command, ""), re.MULTILINE):
            wrong.append(f"meshwork(1) lacks {command} {names}")
    for line in re.findall(r"^  (.*meshwork .*)$", examples, re.MULTILINE):
        if line not in sections.get(command, ""):
            wrong.append(f"meshwork(1) lacks the example {line}")
for heading in ("NAME", "SYNOPSIS", '"EXAMPLES"', '"EXIT STATUS"', "SEE ALSO"):
    if f"\n.SH {heading}\n" not in page:
        wrong.append(f"meshwork(1) has no {heading}")

reference = plain(output_of("reference", "--man"))
groups = re.findall(r"^(\w+):((?: .*\n)+)", output_of("reference"), re.MULTILINE)
for group, names in groups:
    if f'.SH "{group}"' not in reference:
        wrong.append(f"meshwork(5) lacks {group}")
    for name in one_line(names).split(", "):
        if not re.search(rf'^\.SS "{re.escape(name)}[,"]', reference, re.MULTILINE):
            wrong.append(f"meshwork(5) lacks {name}")
adam = reference.split('.SS "Adam,')[1].split(".SS")[0] if '.SS "Adam,' in reference else ""
if not re.search(r"^\.TP\nbeta_1\n.*\n\.br\n.*default 0\.9$", adam, re.MULTILINE):
    wrong.append("meshwork(5) does not say that beta_1 of Adam is 0.9")
if len(groups) < 10:
    wrong.append(f"the reference has only {groups}")

if shutil.which("groff"):
    for arguments in (["man"], ["reference", "--man"], ["reference", "Adam", "--man"]):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=output_of(*arguments),
                              capture_output=True, text=True)
        if done.returncode != 0 or done.stderr:
            wrong.append(f"groff about {arguments}: {done.stderr[:500]}")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
