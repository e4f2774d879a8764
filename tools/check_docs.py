#!/usr/bin/env python3
"""Runs the commands shown in the documentation.

A fenced block that opens with ```cpp PATH must be that file of the project. Every line of a fenced
block that opens with ```sh test is run, in order, in a scratch directory per page
that has the bundled data/ in it and the built program on its PATH. A command that fails, fails.

    check_docs.py SOURCE_DIR BUILD_DIR
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def commands(page):
    blocks = re.findall(r"^```sh test\n(.*?)^```", page.read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def check_files(page, source):
    for path, text in re.findall(r"^```cpp (\S+)\n(.*?)^```", page.read_text(), re.M | re.S):
        if text != (source / path).read_text():
            sys.exit(f"{page.name}: shows a {path} that is not the project's")


def run_page(page, source, build):
    check_files(page, source)
    ran = 0
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "data").symlink_to(source / "data")
        environment = dict(os.environ, PATH=f"{build}{os.pathsep}{os.environ['PATH']}")
        for line in commands(page):
            done = subprocess.run(line, shell=True, cwd=scratch, env=environment,
                                  capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{page.name}: `{line}` gave {done.returncode}\n{done.stdout}{done.stderr}")
            ran += 1
    return ran


def main():
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    pages = sorted([source / "README.md", *(source / "docs").rglob("*.md")])
    ran = sum(run_page(page, source, build) for page in pages if page.exists())
    print(f"{ran} commands of the documentation ran")
    if ran == 0:
        sys.exit("no command was found: is the documentation where it should be?")


if __name__ == "__main__":
    main()
