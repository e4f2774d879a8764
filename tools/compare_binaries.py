#!/usr/bin/env python3
"""Whether two builds of longspan compute the same bits.

    compare_binaries.py BEFORE AFTER [--steps N] [--init-deviation 0.02]

Trains the same small models with both programs, seed by seed: every mechanism, learning rule and
wiring that the command line can train, on bundled text and images. Compares the tensors of the
checkpoints by name, bit by bit. Prints one line for each run and `N passed, N failed` last. AFTER
may be told to draw its first transformers as a BEFORE did that could not be told.
"""
import argparse
import itertools
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = ["--layers", "2", "--batch", "2", "--quiet", "--save-every", "0", "--eval-every", "0"]


def tensors(path):
    """Name -> bytes of every tensor of a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
            for name, t in header.items()}


def runs(program):
    """(name, arguments) of every run, as the registries of the earlier program have them."""
    known = json.loads(subprocess.run([program, "list", "--json"], check=True,
                                      capture_output=True, text=True).stdout)
    rules = [r["name"] for r in known["rules"]] if "rules" in known else ["bp", "pepita", "mempepita"]
    for m, rule, wiring in itertools.product(known["attention"], rules,
                                             ["pre", "post", "reversible"]):
        name = f"{m['name']} {rule} {wiring}"
        common = ["--attention", m["name"], "--rule", rule, "--wiring", wiring, "--d-model", "24",
                  "--heads", "2", "--d-ff", "40", *SMALL]
        if m.get("causal", True):
            yield f"text {name}", ["train", "text", "--data", str(ROOT / "data/tinyshakespeare.txt"),
                                   "--length", "40", *common]
        yield f"images {name}", ["train", "images", "--data", str(ROOT / "data/mnist-small"),
                                 "--model", "encoder", *common]
    for rule in rules:
        yield f"perceptron {rule}", ["train", "images", "--data", str(ROOT / "data/mnist-small"),
                                     "--hidden", "30", "--rule", rule, *SMALL]
    for extra in (["--checkpointing"], ["--frozen-layers", "1"], ["--kv-heads", "1"],
                  ["--dropout", "0.1"], ["--norm", "rms", "--gated", "--activation", "silu"],
                  ["--positions", "learned", "--no-bias"], ["--positions", "sinusoidal", "--untied"]):
        yield "text flash " + " ".join(extra), [
            "train", "text", "--data", str(ROOT / "data/tinyshakespeare.txt"), "--length", "40",
            "--d-model", "24", "--heads", "2", *SMALL, *extra]


def train(program, arguments, out, steps):
    done = subprocess.run([program, *arguments, "--out", str(out), "--steps", str(steps)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    return tensors(out / "model.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--init-deviation", help="for AFTER alone")
    options = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for i, (name, arguments) in enumerate(runs(options.before)):
            drawn = ["--init-deviation", options.init_deviation] \
                if options.init_deviation and "--hidden" not in arguments else []
            a, b = (train(program, arguments + more, pathlib.Path(scratch) / f"{i}{which}",
                          options.steps)
                    for which, program, more in (("a", options.before, []),
                                                 ("b", options.after, drawn)))
            if isinstance(a, str) or isinstance(b, str):
                same, what = a == b, f"refused: {a if isinstance(a, str) else b}"
            else:
                unlike = sorted(n for n in a.keys() | b.keys() if a.get(n) != b.get(n))
                same, what = not unlike, f"{len(a)} tensors" + (f"; unlike: {unlike}" if unlike else "")
            passed, failed = passed + same, failed + (not same)
            print(f"{'same' if same else 'DIFFERENT'}  {name}: {what}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
