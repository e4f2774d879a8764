#!/usr/bin/python3
"""Short sequences: whole models that read texts, write a token, or learn from short sequences.

encode  BERT's encoder reads one text of 1 to 512 tokens, 32 equal ones, and 32 of many lengths
decode  GPT-2's decoder adds one token to sequences that are cached
train   one step on 256 sequences of 32 tokens

longspan, ONNX Runtime and PyTorch take turns in interleaved rounds. The share of the peak is useful
FLOPs / (time × FMA peak), that of the bandwidth is (weights and cache read once) / (time ×
bandwidth of reading memory), both measured in longspan's process just before and after. Padding is
not useful. Timing decides nothing: the exit code is 0 unless a worker fails or computes something
else.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from compare_peers import check_probe, machine, median_ratio, show
from worker import BUILD, HERE, MODELS, Worker

LENGTHS = [1, 8, 16, 32, 64, 128, 256, 512]
ENCODERS = [(6, 768), (6, 384)]
DECODERS = [(6, 768), (12, 768)]
CACHED = [1, 128, 1024, 4096]
VOCAB = 1000
# 32 texts of 5 to 512 tokens, most of them short.
MIXED = [5 + (i * i * 507) // 961 for i in range(32)]
# Least share of the FMA peak from so many tokens on.
PEAK_GOALS = [(128, 0.78), (64, 0.75), (32, 0.60)]
ORT_GOALS = [(128, 1.1), (1, 1.0)]
BANDWIDTH_GOAL = 0.7


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="encode,decode,train", help="%(default)s")
    parser.add_argument("--peers", default="ort,torch", help="%(default)s")
    parser.add_argument("--threads", default="1,2", help="%(default)s")
    parser.add_argument("--lengths", help="of the single texts; 1 to 512 unless given")
    parser.add_argument("--layers", type=int, help="models of so many layers alone")
    parser.add_argument("--width", type=int, help="models of this width alone")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s")
    parser.add_argument("--budget", type=float, default=0.3,
                        help="least seconds per worker and round (%(default)s)")
    parser.add_argument("--out", default=BUILD / "bench" / "short.json", type=pathlib.Path)
    options = parser.parse_args()
    options.threads = [int(t) for t in options.threads.split(",") if int(t) <= os.cpu_count()]
    options.lengths = [int(n) for n in options.lengths.split(",")] if options.lengths else LENGTHS
    options.kinds = options.kinds.split(",")
    options.peers = [name for name in options.peers.split(",") if name]
    return options


def sizes_of(options, sizes):
    return [(layers, width) for layers, width in sizes
            if options.layers in (None, layers) and options.width in (None, width)]


def jobs_of(options):
    """(heading, title, job) in the order in which they are run."""
    for layers, width in sizes_of(options, ENCODERS) if "encode" in options.kinds else []:
        heading = f"encoder of {layers} x {width}"
        texts = [(f"1 x {n}", [n]) for n in options.lengths]
        equal = round(sum(MIXED) / len(MIXED))
        texts += [(f"32 x {equal}", [equal] * 32), (f"32 x 5 to {max(MIXED)}", MIXED)]
        for title, lengths in texts:
            yield heading, title, {"kind": "encode", "layers": layers, "width": width,
                                   "lengths": lengths}
    for layers, width in sizes_of(options, DECODERS) if "decode" in options.kinds else []:
        for batch, cached in [(1, c) for c in CACHED] + [(8, 1), (8, 128)]:
            yield (f"one more token by a decoder of {layers} x {width}",
                   f"{batch} x {cached} cached",
                   {"kind": "decode", "layers": layers, "width": width, "batch": batch,
                    "cached": cached})
    if "train" in options.kinds:
        yield "training step", "256 x 32", {"kind": "train_step", "recipe": "R3"}


def useful_flops(job):
    if job["kind"] == "train_step":
        return 3 * 256 * 32 * (2 * (12 * 4 * 512**2 + 256 * 512) + 4 * 4 * 512 * 33 / 2)
    layers, width = job["layers"], job["width"]
    if job["kind"] == "encode":
        return sum(layers * n * (24 * width**2 + 4 * n * width) for n in job["lengths"])
    return job["batch"] * (layers * (24 * width**2 + 4 * (job["cached"] + 1) * width)
                           + 2 * VOCAB * width)


def useful_bytes(job):
    """Of decoding: every weight once, and the keys and values of every sequence."""
    layers, width = job["layers"], job["width"]
    weights = layers * (12 * width**2 + 13 * width) + VOCAB * width
    return 4 * (weights + job["batch"] * layers * 2 * job["cached"] * width)


def measure(team, job, options, title):
    """{(name, threads): {"seconds": [median of each round], "peak": […], "bandwidth": […]}}."""
    results = {}
    expected = None
    for number in range(options.rounds):
        for (name, threads), worker in team.items():
            show(f"{title}: round {number + 1} of {options.rounds}, {name}, {threads} thr")
            if (name, threads, "unsupported") in results:
                continue
            reply = worker.run(job, options.budget)
            if "unsupported" in reply:
                results[name, threads, "unsupported"] = reply["unsupported"]
                continue
            if "error" in reply:
                raise SystemExit(f"\n{name}: {reply['error']} for {job}")
            expected = expected or reply["probe"]
            check_probe(job, name, reply["probe"], expected)
            entry = results.setdefault((name, threads), {"seconds": [], "peak": [], "bandwidth": []})
            entry["seconds"].append(statistics.median(reply["seconds"]))
            entry["peak"].append(reply.get("peak_flops"))
            entry["bandwidth"].append(reply.get("bandwidth"))
    show("")
    return results


def goal_at(goals, n):
    return next((goal for least, goal in goals if n >= least), None)


def summarise(job, results, threads):
    own = results["longspan", threads]
    line = {"job": job, "threads": threads, "seconds": statistics.median(own["seconds"]),
            "rounds": {name: r["seconds"] for (name, t, *_), r in results.items()
                       if t == threads and isinstance(r, dict)}, "goals": {}}
    share = lambda amount, rates: statistics.median(
        amount / s / rate for s, rate in zip(own["seconds"], rates))
    line["peak"] = share(useful_flops(job), own["peak"])
    if job["kind"] == "decode":
        line["bandwidth"] = share(useful_bytes(job), own["bandwidth"])
        if job["batch"] == 1:
            line["goals"]["bandwidth"] = BANDWIDTH_GOAL
    if job["kind"] == "encode" and len(job["lengths"]) == 1:
        n = job["lengths"][0]
        line["goals"] |= {"ort": goal_at(ORT_GOALS, n), "peak": goal_at(PEAK_GOALS, n)}
        if n >= 64:
            line["goals"]["two"] = 1.8
    if job["kind"] == "train_step":
        line["goals"]["peak"] = 0.75
    for peer in ("ort", "torch"):
        if (peer, threads) in results:
            line[peer] = median_ratio(results[peer, threads]["seconds"], own["seconds"])
    if threads > 1 and ("longspan", 1) in results:
        line["two"] = median_ratio(results["longspan", 1]["seconds"], own["seconds"])
    return line


COLUMNS = [("peak", "of FMA peak", 16), ("bandwidth", "of bandwidth", 16), ("ort", "vs ORT", 15),
           ("torch", "vs torch", 9), ("two", "vs 1 thread", 14)]


def cell(line, key):
    if key not in line:
        return ""
    percent = key in ("peak", "bandwidth")
    text = f"{100 * line[key]:.0f} %" if percent else f"{line[key]:.2f}x"
    goal = line["goals"].get(key)
    if goal is None:
        return text
    wanted = f"{100 * goal:.0f}" if percent else f"{goal:g}"
    return f"{text} ≥{wanted} {'ok' if line[key] >= goal else 'NO'}"


def print_row(first, cells):
    widths = [3, 9, *(width for _, _, width in COLUMNS)]
    print(f"{first:<16}" + " ".join(f"{c:>{w}}" for c, w in zip(cells, widths)).rstrip(), flush=True)


def print_line(title, line):
    ms = 1e3 * line["seconds"]
    print_row(title, [line["threads"], f"{ms:.2f}" if ms < 100 else f"{ms:.0f}",
                      *(cell(line, key) for key, _, _ in COLUMNS)])


def print_tokens(lines):
    """What several sequences at once gain, and texts of many lengths lose."""
    for threads in sorted({line["threads"] for line in lines}):
        mine = [line for line in lines if line["threads"] == threads]
        decodes = {(l["job"]["layers"], l["job"]["width"], l["job"]["cached"], l["job"]["batch"]): l
                   for l in mine if l["job"]["kind"] == "decode"}
        for (layers, width, cached, batch), many in decodes.items():
            one = decodes.get((layers, width, cached, 1))
            if batch > 1 and one:
                gain = batch * one["seconds"] / many["seconds"]
                print(f"{threads} thr, decoder of {layers} x {width}, {cached} cached: {batch} sequences "
                      f"write {gain:.2f} times the tokens per second of one (≥5)")
        encodes = [l for l in mine if l["job"]["kind"] == "encode" and len(l["job"]["lengths"]) > 1]
        for equal, mixed in zip(encodes[::2], encodes[1::2]):
            rate = lambda l: sum(l["job"]["lengths"]) / l["seconds"]
            print(f"{threads} thr, encoder of {equal['job']['layers']} x {equal['job']['width']}: texts of many "
                  f"lengths at {100 * rate(mixed) / rate(equal):.0f} % of the tokens per second of "
                  "equal ones (≥90)")


def main():
    options = parse_arguments()
    if "ort" in options.peers:
        sizes = {f"{width}x{layers}" for layers, width in ENCODERS + DECODERS}
        subprocess.run([sys.executable, HERE / "peers" / "make_onnx_transformers.py", MODELS,
                        *sorted(sizes)], check=True)
    team = {(name, threads): Worker(name, threads)
            for threads in options.threads for name in ["longspan", *options.peers]}
    about = {"machine": machine(), "rounds": options.rounds,
             "workers": {name: worker.about for (name, _), worker in team.items()}}
    print(f"{about['machine']['cpu']}, {about['machine']['cores']} cores, "
          f"{about['workers']['longspan']['instruction_set']}; "
          + ", ".join(f"{w['name']} {w['version']}" for w in about["workers"].values()))
    print(f"float32; median of {options.rounds} interleaved rounds; ratio = peer time / longspan time")
    lines, heading, rates = [], None, {}
    for its_heading, title, job in jobs_of(options):
        results = measure(team, job, options, f"{its_heading}, {title}")
        if its_heading != heading:
            heading = its_heading
            print(f"\n{heading}")
            print_row("", ["thr", "ms", *(text for _, text, _ in COLUMNS)])
        for threads in options.threads:
            for key in ("peak", "bandwidth"):
                rates.setdefault((key, threads), []).extend(
                    x for x in results["longspan", threads][key] if x)
            lines.append(summarise(job, results, threads))
            print_line(title, lines[-1])
    for worker in team.values():
        worker.close()
    print()
    print_tokens(lines)
    for threads in options.threads:
        rate = lambda key: statistics.median(rates[key, threads] or [0]) / 1e9
        print(f"{threads} thr: FMA peak {rate('peak'):.0f} GF/s, reading {rate('bandwidth'):.1f} GB/s")
    goals = [(line, key) for line in lines for key, goal in line["goals"].items()
             if goal is not None and key in line]
    met = sum(line[key] >= line["goals"][key] for line, key in goals)
    print(f"goals: {met} of {len(goals)} met")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(about | {"lines": lines}, indent=1) + "\n", encoding="utf-8")
    print(f"all rounds: {os.path.relpath(options.out)}")


if __name__ == "__main__":
    main()
