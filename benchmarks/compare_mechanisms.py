#!/usr/bin/python3
"""Every mechanism against exact attention and against its peers, and how it grows with length.

speed    at one length, forward and forward+backward: longspan's mechanism, longspan's `flash`, a
         plain PyTorch version of the mechanism and, forward, the same as a graph of ONNX Runtime
         take turns in interleaved rounds; the median ratio to the faster peer is printed with the
         goal beside it.
scaling  time at doubling lengths, forward and forward+backward; the exponent from 16384 on beside
         that of the operations counted; the length from which it is faster than `flash`.
memory   of a fresh process, likewise.

What is measured is added to the file of results, so that mechanisms may be measured one by one;
--report prints what the file holds. Timing decides nothing: the exit code is 0 unless a worker
fails or computes something else.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

from compare_peers import machine, median_ratio, show
from worker import BUILD, HERE, MODELS, Worker

# What is compared where the default is not what the papers and peers use.
OPTIONS = {
    "linformer": "k=256",
    "performer": "features=256,orthogonal=hadamard",
    "performer-qr": "features=256,orthogonal=qr",
    "bigbird": "block=64,random=3",
    "window": "window=256",
    "clustered": "clusters=100,bits=31",
    "improved-clustered": "clusters=100,bits=31",
}
# Least speed against the faster peer.
GOALS = {"linformer": 1.3, "performer": 3.0, "performer-qr": 3.0, "bigbird": 2.3, "reformer": 5.0,
         "clustered": 5.0, "improved-clustered": 5.0}
OTHER_GOAL = 2.0
FASTER_THAN_FLASH = ["linformer", "performer", "performer-qr", "linear", "bigbird", "window"]
QUADRATIC = ["full", "flash", "memory", "memory-compressed", "deberta", "transformer-xl",
             "funnel", "relative-key"]
LONGEST_QUADRATIC = 8192  # beyond this their time is continued as n²
LONGEST_FULL = 4096
STEEP_FROM = 16384  # exponents are those from this length on, or of the last two doublings
MOST_EXPONENT_ABOVE = 0.1  # the operations' own
# Compute the same without random numbers: results are compared.
DETERMINISTIC = ["linear", "local", "window"]
NO_GRAPH = ["deberta"]  # its table of indices does not fit into a graph
WORK = {"forward": "forward", "backward": "forward+backward"}


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
    parser.add_argument("--report", action="store_true", help="only print what was measured before")
    parser.add_argument("--out", default=BUILD / "bench" / "mechanisms.json", type=pathlib.Path)
    options = parser.parse_args()
    options.lengths = [int(n) for n in options.lengths.split(",")]
    options.parts = options.parts.split(",")
    return options


def specification(name):
    return f"{mechanism_of(name)}:{OPTIONS[name]}" if name in OPTIONS else name


def mechanism_of(name):
    return name.removesuffix("-qr")


def ask(worker, kind, variant, n, budget):
    reply = worker.run({"kind": kind, "variant": variant, "n": n, "causal": False}, budget)
    if "error" in reply:
        raise SystemExit(f"\n{worker.name}: {reply['error']} for {variant} at n = {n}")
    return None if "unsupported" in reply else reply


class Peers:
    """The workers that a mechanism is compared with; `flash` has one of its own, to stay prepared."""

    def __init__(self, names, options):
        self.flash = Worker("longspan", options.threads)
        self.torch = Worker("torch", options.threads)
        self.graphs = [n for n in self.torch.about["mechanisms"] if n not in NO_GRAPH]
        wanted = {mechanism_of(name) for name in names}
        missing = [n for n in self.graphs if n in wanted and not self.is_made(n, options.length)]
        if missing:
            show("graphs for ONNX Runtime")
            subprocess.run([sys.executable, HERE / "peers" / "make_onnx_mechanisms.py", MODELS,
                            str(options.length), *missing], check=True, stdout=subprocess.DEVNULL)
        self.ort = Worker("ort", options.threads)

    @staticmethod
    def is_made(name, n):
        graph = MODELS / f"{name}-{n}.onnx"
        source = HERE / "peers" / "torch_mechanisms.py"
        return graph.exists() and graph.stat().st_mtime > source.stat().st_mtime

    def of(self, name, kind):
        if mechanism_of(name) in self.torch.about["mechanisms"]:
            yield "torch", self.torch
            if kind == "forward" and mechanism_of(name) in self.graphs:
                yield "ort", self.ort

    def close(self):
        for worker in (self.flash, self.torch, self.ort):
            worker.close()


def check_probe(name, kind, replies):
    """The peers share their constants; longspan agrees with them where nothing is random."""
    same = [who for who in ("longspan", "torch", "ort")
            if who in replies and (who != "longspan" or name in DETERMINISTIC)]
    if len(same) < 2 or (kind == "backward" and name == "reformer"):
        return
    expected = replies[same[0]]["probe"]
    for who in same[1:]:
        worst = max(abs(a - b) for a, b in zip(replies[who]["probe"], expected, strict=True))
        if not worst <= 1e-3 * max(1, *map(abs, expected)):
            raise SystemExit(f"\n{who} computes something else for {name} {kind}: off by {worst:.2g}")


def measure_speed(name, kind, options, own, peers):
    """Interleaved rounds; seconds of everyone, and of longspan the operations and the FMA peak."""
    seconds, peaks, maccs = {}, [], 0
    n = options.length
    for number in range(options.rounds):
        show(f"{name} {kind}: round {number + 1} of {options.rounds}")
        turns = [(who, w, mechanism_of(name)) for who, w in peers.of(name, kind)]
        turns += [("longspan", own, specification(name)), ("flash", peers.flash, "flash")]
        replies = {who: ask(w, kind, variant, n, options.budget) for who, w, variant in turns}
        replies = {who: reply for who, reply in replies.items() if reply}
        check_probe(name, kind, replies)
        for who, reply in replies.items():
            seconds.setdefault(who, []).append(statistics.median(reply["seconds"]))
        peaks.append(replies["longspan"]["peak_flops"])
        maccs = replies["longspan"]["maccs"]
    show("")
    return {"n": n, "seconds": seconds, "maccs": maccs, "peak_flops": statistics.median(peaks)}


def summary(line):
    """Ratios to flash and to the peers, and the share of the FMA peak."""
    seconds = line["seconds"]
    mine = seconds["longspan"]
    ratios = {who: median_ratio(s, mine) for who, s in seconds.items() if who != "longspan"}
    return ratios | {"ms": 1e3 * statistics.median(mine),
                     "peak": 2 * line["maccs"] / statistics.median(mine) / line["peak_flops"]}


def verdict(ratio, goal, share=0.0):
    """† where the goal would need more than the FMA peak."""
    if ratio is None:
        return ""
    beyond = share * goal / ratio > 1 if goal else False
    met = "ok" if goal and ratio >= goal else "†" if beyond else "NO"
    return f"{ratio:.2f}x" + (f" ≥{goal:g} {met}" if goal else "")


def print_speed(table, threads):
    n = next(iter(table.values()))["forward"]["n"]
    print(f"\nspeed at n = {n}, 8 heads x 64, {threads} thread" + "s" * (threads > 1))
    print(f"{'':<20}{'':<17}{'ms':>8} {'of peak':>8} {'vs flash':>14} {'vs PyTorch':>11} {'vs ORT':>8}"
          f"   vs the faster")
    for name, kinds in table.items():
        for kind, line in kinds.items():
            s = summary(line)
            peers = {who: s[who] for who in ("torch", "ort") if who in s}
            cells = [f"{peers[who]:.2f}x" if who in peers else "" for who in ("torch", "ort")]
            goal = GOALS.get(name, OTHER_GOAL)
            print(f"{name:<20}{WORK[kind]:<17}{s['ms']:>8.1f} {100 * s['peak']:>6.0f} % "
                  f"{verdict(s['flash'], 1 if name in FASTER_THAN_FLASH else None):>14} "
                  f"{cells[0]:>11} {cells[1]:>8}   "
                  f"{verdict(min(peers.values(), default=None), goal, s['peak'])}")


def longest(name):
    return LONGEST_FULL if name == "full" else LONGEST_QUADRATIC if name in QUADRATIC else math.inf


def exponent(points):
    measured = sorted(points.items())
    start = next((p for p in measured if p[0] >= STEEP_FROM and p[0] < measured[-1][0]),
                 measured[-3 if len(measured) > 2 else 0])
    (n0, t0), (n1, t1) = start, measured[-1]
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


def measure_scaling(name, kind, options, own):
    """Median seconds and operations by length; the long ones, from which the exponent is taken, are
    run three times."""
    seconds, flops = {}, {}
    for n in options.lengths:
        if n > longest(name):
            continue
        show(f"{name} {kind} at n = {n}")
        replies = [ask(own, kind, specification(name), n, options.budget)
                   for _ in range(3 if n >= STEEP_FROM else 1)]
        seconds[n] = statistics.median(s for reply in replies for s in reply["seconds"])
        flops[n] = replies[0]["flops"]
    show("")
    return {"seconds": seconds, "flops": flops}


def by_length(points):
    """JSON has names only."""
    return {int(n): value for n, value in points.items()}


def steepness(found, counted):
    met = "ok" if found <= counted + MOST_EXPONENT_ABOVE else "NO"
    return f"{found:.2f} ≤{counted + MOST_EXPONENT_ABOVE:.2f} {met}"


def print_scaling(table, threads):
    for kind in ("forward", "backward"):
        points = {name: by_length(kinds[kind]["seconds"]) for name, kinds in table.items()}
        lengths = sorted({n for p in points.values() for n in p})
        print(f"\nms of {WORK[kind]} by length, {threads} thread" + "s" * (threads > 1))
        print(f"{'':<20}" + "".join(f"{n:>9}" for n in lengths)
              + f"{'exponent':>16}{'beats flash':>13}")
        for name, times in points.items():
            cells = (f"{1e3 * times[n]:>9.1f}" if n in times else f"{'':>9}" for n in lengths)
            counted = exponent(by_length(table[name][kind]["flops"]))
            where = "" if name == "flash" or "flash" not in points else crossover_text(
                crossover(times, points["flash"], lengths), lengths)
            print(f"{name:<20}" + "".join(cells)
                  + f"{steepness(exponent(times), counted):>16}{where:>13}")


def measure_memory(name, options):
    """Largest resident bytes of forward+backward above those of a short sequence, a fresh process
    each."""
    points = {}
    for n in [64, *(n for n in options.lengths[-3:] if n <= longest(name))]:
        show(f"{name}: memory at n = {n}")
        worker = Worker("longspan", options.threads)
        points[n] = ask(worker, "backward", specification(name), n, 0)["resident"]
        worker.close()
    show("")
    start = points.pop(64)
    return {n: resident - start for n, resident in points.items()}


def print_memory(table):
    tables = {name: by_length(points) for name, points in table.items()}
    lengths = sorted({n for points in tables.values() for n in points})
    print("\nMB of forward+backward above its start, a fresh process each")
    print(f"{'':<20}" + "".join(f"{n:>9}" for n in lengths) + f"{'exponent':>16}")
    for name, points in tables.items():
        if len(points) < 2:
            continue
        cells = (f"{points[n] / 1e6:>9.1f}" if n in points else f"{'':>9}" for n in lengths)
        print(f"{name:<20}" + "".join(cells) + f"{steepness(exponent(points), 1):>16}")


def names_of(options, known):
    everything = [*known, *(name for name in OPTIONS if name not in known)]
    names = options.mechanisms.split(",") if options.mechanisms else everything
    unknown = [name for name in names if name not in everything]
    if unknown:
        raise SystemExit(f"no mechanism {', '.join(unknown)}; there are {', '.join(everything)}")
    return names


def save(results, options):
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def measure(results, options):
    own = Worker("longspan", options.threads)
    names = names_of(options, own.about["mechanisms"])
    peers = Peers(names, options) if "speed" in options.parts else None
    for name in names:
        if "speed" in options.parts and name not in ("full", "flash"):
            results["speed"][name] = {
                kind: measure_speed(name, kind, options, own, peers) for kind in WORK}
        if "scaling" in options.parts:
            results["scaling"][name] = {
                kind: measure_scaling(name, kind, options, own) for kind in WORK}
        if "memory" in options.parts:
            results["memory"][name] = measure_memory(name, options)
        save(results, options)
    own.close()
    if peers:
        peers.close()


def main():
    options = parse_arguments()
    results = {"threads": options.threads, "speed": {}, "scaling": {}, "memory": {}}
    if options.out.exists():
        before = json.loads(options.out.read_text(encoding="utf-8"))
        if before.get("threads") == options.threads:
            results |= before
    if not options.report:
        results["machine"] = machine()
        measure(results, options)
    printers = {"speed": lambda t: print_speed(t, options.threads),
                "scaling": lambda t: print_scaling(t, options.threads), "memory": print_memory}
    for part in options.parts:
        chosen = options.mechanisms.split(",") if options.mechanisms else results[part]
        table = {name: results[part][name] for name in chosen if name in results[part]}
        if part == "scaling" and "flash" in results[part]:
            table = {"flash": results[part]["flash"]} | table
        if table:
            printers[part](table)
    print(f"\nall numbers: {os.path.relpath(options.out)}")


if __name__ == "__main__":
    main()
