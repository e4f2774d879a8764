#!/usr/bin/python3
"""Is `longspan advise` right? Its pick against exhaustive measurement.

For each length, task and mask every candidate of `advise` is measured by `longspan compare`; then
each question (no constraint, an error, a memory) is answered from the measurements and compared
with the advice. The pick is good if its measured time is within 15 % of the best measured choice
that meets the constraints by its measured error and memory.

Exits 1 unless nine of ten picks are good.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHIN = 1.15
NEEDED = 0.9


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longspan", default=ROOT / "build" / "longspan", type=pathlib.Path)
    parser.add_argument("--lengths", default="256,1024,4096", help="%(default)s")
    parser.add_argument("--threads", default="1", help="%(default)s")
    parser.add_argument("--model", default="--layers 1 --d-model 256 --heads 4 --d-ff 1024",
                        help="%(default)s")
    parser.add_argument("--budget", default="150s", help="of each set of candidates (%(default)s)")
    parser.add_argument("--out", default=ROOT / "build" / "advice", type=pathlib.Path,
                        help="measurements are kept here and used again (%(default)s)")
    return parser.parse_args()


def run(options, *arguments):
    command = [str(options.longspan), *arguments, "--threads", options.threads,
               *options.model.split(), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def advise(options, length, task, causal, extra=()):
    flags = (["--train"] if task == "train" else []) + (["--causal"] if causal else [])
    return json.loads(run(options, "advise", "--length", str(length), "--json", *flags, *extra))


def measure(options, candidates, length, task, causal):
    """The points of every candidate by name."""
    path = options.out / f"{task}-{'causal-' if causal else ''}{length}.json"
    if not path.exists():
        run(options, "compare", task, "--lengths", str(length), "--rounds", "3", "--out", str(path),
            "--budget", options.budget, "--attention", ",".join(candidates),
            *(["--causal"] if causal else []))
    record = json.loads(path.read_text(encoding="utf-8"))
    return {point["mechanism"]: point for point in record["points"]}


def questions(points):
    """Constraints whose limits lie among what was measured."""
    yield {}
    for error in (0.05, 0.3, 0.8):
        yield {"error": error}
    held = sorted(p["memory"]["measured"] for p in points.values() if p["status"] == "ok")
    yield {"memory": int(1.001 * held[len(held) // 3])}


def meets(point, question, limit):
    """By its error at most `limit`: what advise takes for a replacement."""
    if point["status"] != "ok" or point["error"] is None:
        return False
    if point["error"]["output"] > limit:
        return False
    return point["memory"]["measured"] <= question.get("memory", float("inf"))


def judge(options, length, task, causal):
    """One row per question: what was asked, the pick, the best, how much longer the pick takes."""
    everyone = advise(options, length, task, causal)["candidates"]
    points = measure(options, [c["attention"] for c in everyone], length, task, causal)
    for question in questions(points):
        flags = [word for key, value in question.items() for word in (f"--{key}", str(value))]
        advice = advise(options, length, task, causal, flags)
        pick, limit = advice["pick"], advice["error"]
        allowed = {name: p["time"]["measured"] for name, p in points.items()
                   if meets(p, question, limit)}
        if not allowed:
            continue
        best = min(allowed, key=allowed.get)
        ratio = allowed[pick] / allowed[best] if pick in allowed else float("inf")
        yield question, pick, best, ratio


def main():
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    ratios = []
    print(f"{'n':>6} {'task':<8} {'mask':<7} {'constraint':<18} {'advice':<30} {'best measured':<30} ×")
    for length in map(int, options.lengths.split(",")):
        for task in ("forward", "train"):
            for causal in (False, True):
                for question, pick, best, ratio in judge(options, length, task, causal):
                    ratios.append(ratio)
                    asked = ", ".join(f"{k} {v:.4g}" for k, v in question.items()) or "none"
                    print(f"{length:>6} {task:<8} {'causal' if causal else 'none':<7} {asked:<18} "
                          f"{str(pick):<30} {best:<30} {ratio:.2f}", flush=True)
    good = sum(ratio <= WITHIN for ratio in ratios)
    print(f"{good} of {len(ratios)} picks within {100 * WITHIN - 100:.0f} % of the best measured choice "
          f"({100 * good / len(ratios):.0f} %)")
    return 0 if good >= NEEDED * len(ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
