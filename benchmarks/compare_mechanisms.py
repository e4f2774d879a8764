#!/usr/bin/python3
"""Every mechanism against exact attention and against plain PyTorch, and how it grows with length.

speed    at one length, forward and forward+backward: longspan's mechanism, longspan's `flash` and a
         plain PyTorch version of the mechanism take turns in interleaved rounds; the median ratio is
         printed with the goal beside it.
scaling  time at doubling lengths with the exponent between the last ones, memory of a fresh process,
         and the length from which the mechanism is faster than `flash`.

Timing decides nothing: the exit code is 0 unless a worker fails.
"""

import argparse
import json
import math
import os
import pathlib
import statistics

from compare_peers import machine, median_ratio, show
from worker import BUILD, Worker

# What is compared where the default is not what the papers and peers use.
OPTIONS = {"linformer": "k=256", "performer": "features=256", "bigbird": "block=64,random=3",
           "window": "window=256", "clustered": "clusters=100", "improved-clustered": "clusters=100"}
# Least speed against the PyTorch version.
GOALS = {"linformer": 1.3, "performer": 3.0, "bigbird": 2.3, "reformer": 5.0, "clustered": 5.0,
         "improved-clustered": 5.0}
FASTER_THAN_FLASH = ["linformer", "performer", "linear", "bigbird", "window"]
QUADRATIC = ["full", "flash", "memory", "memory-compressed", "deberta", "transformer-xl"]
LONGEST_QUADRATIC = 8192  # beyond this their time is continued as n²
LONGEST_FULL = 4096


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mechanisms", help="comma-separated; all unless given")
    parser.add_argument("--length", type=int, default=4096, help="of the speed table (%(default)s)")
    parser.add_argument("--lengths", default="1024,2048,4096,8192,16384,32768,65536",
                        help="of the scaling table (%(default)s)")
    parser.add_argument("--parts", default="speed,scaling,memory", help="%(default)s")
    parser.add_argument("--threads", type=int, default=1, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s")
    parser.add_argument("--budget", type=float, default=0.2,
                        help="least seconds per worker and round (%(default)s)")
    parser.add_argument("--out", default=BUILD / "bench" / "mechanisms.json", type=pathlib.Path)
    options = parser.parse_args()
    options.lengths = [int(n) for n in options.lengths.split(",")]
    options.parts = options.parts.split(",")
    return options


def specification(name):
    return f"{name}:{OPTIONS[name]}" if name in OPTIONS else name


def run(worker, kind, variant, n, budget):
    reply = worker.run({"kind": kind, "variant": variant, "n": n, "causal": False}, budget)
    if "error" in reply:
        raise SystemExit(f"\n{worker.name}: {reply['error']} for {variant} at n = {n}")
    return None if "unsupported" in reply else statistics.median(reply["seconds"])


def speed_of(name, kind, options, own, peer):
    """Interleaved: [(seconds of the mechanism, of flash, of PyTorch or None)]."""
    rounds = []
    for number in range(options.rounds):
        show(f"{name} {kind}: round {number + 1} of {options.rounds}")
        n = options.length
        theirs = run(peer, kind, name, n, options.budget) if name in peer.about["mechanisms"] else None
        rounds.append((run(own, kind, specification(name), n, options.budget),
                       run(own, kind, "flash", n, options.budget), theirs))
    show("")
    return rounds


def verdict(ratio, goal):
    if ratio is None:
        return ""
    return f"{ratio:.2f}x" + (f" ≥{goal:g} {'ok' if ratio >= goal else 'NO'}" if goal else "")


def compare_speed(names, options, own, peer):
    print(f"\nspeed at n = {options.length}, 8 heads x 64, {options.threads} thread"
          + "s" * (options.threads > 1))
    print(f"{'':<20}{'':<18}{'ms':>9}  {'vs flash':>15}  {'vs PyTorch':>15}")
    lines = []
    for name in names:
        if name in ("full", "flash"):
            continue
        for kind in ("forward", "backward"):
            rounds = speed_of(name, kind, options, own, peer)
            mine, flash, theirs = zip(*rounds)
            line = {"mechanism": name, "kind": kind, "seconds": statistics.median(mine),
                    "flash": median_ratio(flash, mine),
                    "torch": None if theirs[0] is None else median_ratio(theirs, mine)}
            lines.append(line)
            work = "forward" if kind == "forward" else "forward+backward"
            print(f"{name:<20}{work:<18}{1e3 * line['seconds']:>9.2f}  "
                  f"{verdict(line['flash'], 1 if name in FASTER_THAN_FLASH else None):>15}  "
                  f"{verdict(line['torch'], GOALS.get(name, 2.0)):>15}", flush=True)
    return lines


def longest(name):
    return LONGEST_FULL if name == "full" else LONGEST_QUADRATIC if name in QUADRATIC else math.inf


def exponent(points):
    """Of the last two doublings."""
    measured = sorted(points.items())
    (n0, t0), (n1, t1) = measured[-3 if len(measured) > 2 else 0], measured[-1]
    return math.log(t1 / t0) / math.log(n1 / n0)


def time_at(points, n):
    """Measured, or continued as n² where the mechanism is quadratic."""
    last = max(points)
    return points[n] if n in points else points[last] * (n / last) ** 2


def crossover(points, flash, lengths):
    """The length from which it is faster than flash, between the measured ones on a log-log line."""
    ratios = [(n, math.log(time_at(flash, n) / time_at(points, n))) for n in lengths]
    for (n0, r0), (n1, r1) in zip(ratios, ratios[1:]):
        if r0 <= 0 < r1 and all(r > 0 for n, r in ratios if n >= n1):
            return n0 * (n1 / n0) ** (r0 / (r0 - r1))
    return 0 if all(r > 0 for _, r in ratios) else math.inf


def crossover_text(n, lengths):
    if n == 0:
        return f"< {lengths[0]}"
    return "never" if math.isinf(n) else f"{n:.0f}"


def compare_scaling(names, options, own):
    tables = {}
    for kind in ("forward", "backward"):
        points = {name: {} for name in names}
        for n in options.lengths:
            for name in names:
                if n <= longest(name):
                    show(f"{name} {kind} at n = {n}")
                    points[name][n] = run(own, kind, specification(name), n, options.budget)
        show("")
        print("\nms of " + ("forward" if kind == "forward" else "forward+backward")
              + f" by length, {options.threads} thread" + "s" * (options.threads > 1))
        print(f"{'':<20}" + "".join(f"{n:>9}" for n in options.lengths) + f"{'exponent':>10}{'beats flash':>13}")
        for name in names:
            cells = (f"{1e3 * points[name][n]:>9.1f}" if n in points[name] else f"{'':>9}"
                     for n in options.lengths)
            where = "" if name == "flash" else crossover_text(
                crossover(points[name], points["flash"], options.lengths), options.lengths)
            print(f"{name:<20}" + "".join(cells) + f"{exponent(points[name]):>10.2f}{where:>13}")
        tables[kind] = points
    return tables


def compare_memory(names, options):
    """Above that of a short sequence, forward+backward, a fresh process each."""
    lengths = options.lengths[-3:]
    print("\nMB of forward+backward above its start, a fresh process each")
    print(f"{'':<20}" + "".join(f"{n:>9}" for n in lengths) + f"{'exponent':>10}")
    table = {}
    for name in names:
        points = {}
        for n in [64, *(n for n in lengths if n <= longest(name))]:
            show(f"{name}: memory at n = {n}")
            worker = Worker("longspan", options.threads)
            job = {"kind": "backward", "variant": specification(name), "n": n, "causal": False}
            points[n] = worker.run(job, 0)["resident"]
            worker.close()
        start = points.pop(64)
        table[name] = points = {n: bytes_ - start for n, bytes_ in points.items()}
        show("")
        if points:
            cells = (f"{points[n] / 1e6:>9.1f}" if n in points else f"{'':>9}" for n in lengths)
            growth = f"{exponent(points):>10.2f}" if len(points) > 1 else ""
            print(f"{name:<20}" + "".join(cells) + growth, flush=True)
    return table


def main():
    options = parse_arguments()
    own = Worker("longspan", options.threads)
    known = own.about["mechanisms"]
    names = options.mechanisms.split(",") if options.mechanisms else known
    if "flash" not in names:
        names = ["flash", *names]
    results = {"machine": machine(), "options": {k: str(v) for k, v in vars(options).items()}}
    if "speed" in options.parts:
        peer = Worker("torch", options.threads)
        results["speed"] = compare_speed(names, options, own, peer)
        peer.close()
    if "scaling" in options.parts:
        results["scaling"] = compare_scaling(names, options, own)
    own.close()
    if "memory" in options.parts:
        results["memory"] = compare_memory(names, options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"\nall numbers: {os.path.relpath(options.out)}")


if __name__ == "__main__":
    main()
