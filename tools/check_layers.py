#!/usr/bin/env python3
"""Which folder may include which: enforces the layers of the project.

usage: check_layers.py [ROOT]

Prints one line per forbidden include and exits 1 when there is any.
"""

import pathlib
import re
import sys

# Folder of longspan/ → the folders it may include besides itself.
LAYERS = {
    "base": [],
    "kernels": ["base"],
    "attention": ["base", "kernels"],
    "layers": ["base", "kernels", "attention"],
    "io": ["base"],
    "models": ["base", "kernels", "attention", "layers", "io"],
    "cost": ["base", "attention", "layers", "io", "models", "learning"],
    "tasks": ["base", "io"],
    "learning": ["base", "kernels", "models"],
    "training": ["base", "io", "models", "tasks", "learning"],
    "predict": ["base", "kernels", "attention", "io", "models", "cost", "learning"],
    "compare": ["base", "attention", "models", "predict"],
    "report": ["base", "io", "compare"],
}
# These include any folder above, and nothing includes them. `testing` is for tests alone.
OUTER = ["apps", "benchmarks", "tests"]

# Libraries that only some folders may include. "*_test" stands for every *_test.cc.
LIBRARIES = [
    (r"hwy/|dnnl|oneapi/dnnl|cblas", ["kernels", "testing"]),
    (r"nlohmann/", ["io", "models", "tasks", "training", "predict", "report", "testing", "*_test", *OUTER]),
    (r"CLI/", ["apps"]),
    (r"toml\+\+/", ["cost"]),
    (r"gtest/|gmock/", ["testing", "*_test", "tests"]),
    (r"mpi\.h", ["distributed"]),
    (r"png\.h|zlib\.h", ["io", "apps"]),  # apps/cli has a png.h of its own, which writes
]

# What proves the counts must not use what it is held against. By how the path begins.
INDEPENDENT = {
    "longspan/testing/executed_": r"longspan/(base|attention)/|longspan/models/config\.h|"
                                  r"longspan/kernels/fourier/fourier\.h|"
                                  r"longspan/learning/feedback\.h|"
                                  r"longspan/testing/executed_",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def place(path):
    """The layer of a path below the root: a folder of longspan/, an outer folder, or None."""
    parts = path.parts
    if parts[0] in OUTER:
        return parts[0]
    if parts[0] == "longspan":
        return parts[1] if len(parts) > 2 else "longspan"
    return None


def folder_problem(layer, is_test, target):
    """Why a file of `layer` may not include the folder `target`, or None."""
    if target == layer:
        return None
    if target == "testing":
        allowed = is_test or layer == "tests"
        return None if allowed else "only tests include longspan/testing"
    if target in OUTER:
        return f"nothing includes {target}/"
    if layer in OUTER or layer in ("testing", "longspan"):
        return None
    if layer not in LAYERS:
        return f"longspan/{layer} is not in the table of layers"
    if target not in LAYERS[layer]:
        return f"{layer} may include {', '.join(LAYERS[layer]) or 'nothing else'}"
    return None


def library_problem(layer, is_test, name, quoted):
    for pattern, allowed in LIBRARIES:
        if not re.match(pattern, name):
            continue
        if layer in allowed or (is_test and "*_test" in allowed):
            return None
        return f"only {', '.join(allowed)} may include it"
    return 'name it from the root: "longspan/…"' if quoted and layer in LAYERS else None


def problems_of(root, path):
    relative = path.relative_to(root)
    layer = place(relative)
    is_test = relative.name.endswith("_test.cc")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        stem = relative.with_suffix("").as_posix()
        proves = [allowed for beginning, allowed in INDEPENDENT.items() if stem.startswith(beginning)]
        if quote == '"' and not all(re.match(allowed, name) for allowed in proves):
            yield f"{relative}:{number}: includes {name}: it must be independent of what it proves"
        target = place(pathlib.PurePosixPath(name))
        if target:
            problem = folder_problem(layer, is_test, target)
        else:
            problem = library_problem(layer, is_test, name, quote == '"')
        if problem:
            yield f"{relative}:{number}: includes {name}: {problem}"


def check(root):
    """All problems below `root`, and the number of files read."""
    root = pathlib.Path(root)
    files = [
        path
        for top in ["longspan", *OUTER]
        for suffix in ("*.h", "*.cc")
        for path in sorted((root / top).rglob(suffix))
        if "node_modules" not in path.parts
    ]
    return [problem for path in files for problem in problems_of(root, path)], len(files)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    problems, files = check(root)
    print("\n".join(problems + [f"{files} files, {len(problems)} forbidden includes"]))
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
