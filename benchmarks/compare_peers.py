#!/usr/bin/python3
"""longspan against PyTorch and ONNX Runtime: the same work, in the same run, as ratios.

Every workload runs in interleaved rounds: each worker gets the job in turn, so that whatever
disturbs the machine disturbs all alike. A ratio is peer time / longspan time within a round; the
median over the rounds is printed, with the goal beside it. The share of the peak is useful FLOPs /
(time × FMA peak), the peak measured in longspan's process just before and after.

Timing decides nothing: the exit code is 0 unless a worker fails or computes something else.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import workloads
from worker import BUILD, HERE, MODELS, ROOT, Worker


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 512 and 2048 only")
    parser.add_argument("--lengths", help="comma-separated, instead of 512…8192")
    parser.add_argument("--kinds", default="forward,backward,train,memory", help="%(default)s")
    parser.add_argument("--peers", default="ort,torch", help="%(default)s")
    parser.add_argument("--threads", default="1,2", help="%(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s")
    parser.add_argument("--budget", type=float, default=0.2,
                        help="least seconds per worker and round (%(default)s)")
    parser.add_argument("--out", default=BUILD / "bench" / "results.json", type=pathlib.Path)
    options = parser.parse_args()
    numbers = lambda text: [int(part) for part in text.split(",")]
    options.threads = [t for t in numbers(options.threads) if t <= os.cpu_count()]
    quick = [512, 2048] if options.quick else workloads.LENGTHS
    options.lengths = numbers(options.lengths) if options.lengths else quick
    options.kinds = options.kinds.split(",")
    options.peers = [name for name in options.peers.split(",") if name]
    return options


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


class Team:
    """All workers, by (name, threads)."""

    def __init__(self, options):
        if "ort" in options.peers:
            subprocess.run([sys.executable, HERE / "peers" / "make_onnx_models.py", MODELS],
                           check=True)
        self.members = {
            (name, threads): Worker(name, threads)
            for threads in options.threads
            for name in ["longspan", *options.peers]
        }

    def about(self):
        return {name: worker.about for (name, _), worker in self.members.items()}

    def turns(self, job):
        """(worker, job) for everyone who takes part in a round."""
        for (name, _), worker in self.members.items():
            if name == "ort" and job["kind"] != "forward":
                continue
            if name != "torch":
                yield worker, job | ({} if name == "ort" or "n" not in job else {"variant": "flash"})
                continue
            for variant in workloads.torch_variants(job):
                needs = workloads.torch_bytes(job) if variant == "naive" else 0
                too_big = 1.25 * needs > available_bytes()
                if not too_big:
                    yield worker, job | ({"variant": variant} if variant else {})

    def close(self):
        for worker in self.members.values():
            worker.close()


def check_probe(job, name, probe, expected):
    """Float32 sums of n products in another order differ by far less than this."""
    if job["kind"] == "train_step":
        return
    worst = max(abs(a - b) for a, b in zip(probe, expected, strict=True))
    if not worst <= 1e-4 * max(1, *map(abs, expected)):
        raise SystemExit(f"{name} computes something else for {job}: off by {worst:.2g}")


def measure(team, job, options):
    """{(name, variant, threads): {"seconds": [median of each round], "peak": [of each round]}}."""
    turns = list(team.turns(job))
    results = {}
    expected = None
    for round_number in range(options.rounds):
        for worker, its_job in turns:
            show(f"{workloads.section(job)}, {workloads.title(job)}: round {round_number + 1} of "
                 f"{options.rounds}, {worker.name}, {worker.threads} thr")
            reply = worker.run(its_job, options.budget)
            if "unsupported" in reply:
                continue
            if "error" in reply:
                raise SystemExit(f"\n{worker.name}: {reply['error']} for {its_job}")
            expected = expected or reply["probe"]
            check_probe(its_job, worker.name, reply["probe"], expected)
            key = (worker.name, its_job.get("variant"), worker.threads)
            entry = results.setdefault(key, {"seconds": [], "peak": []})
            entry["seconds"].append(statistics.median(reply["seconds"]))
            entry["peak"].append(reply.get("peak_flops"))
    show("")
    return results


def show(text):
    """One line that is overwritten, for people who watch."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def median_ratio(numerators, denominators):
    return statistics.median(a / b for a, b in zip(numerators, denominators))


def summarise(job, results, threads):
    """What one line of the table says, or None where longspan has nothing to show."""
    own = next((r for (name, _, t), r in results.items() if name == "longspan" and t == threads), None)
    if not own:
        return None
    flops = workloads.useful_flops(job["kind"], job)
    line = {"workload": job, "threads": threads, "seconds": statistics.median(own["seconds"]),
            "flops": flops, "peak_flops": statistics.median(own["peak"]),
            "peak": statistics.median(flops / s / p for s, p in zip(own["seconds"], own["peak"]))}
    for peer in ("ort", "torch"):
        ratios = {variant: median_ratio(r["seconds"], own["seconds"])
                  for (name, variant, t), r in results.items() if name == peer and t == threads}
        if ratios:
            line[peer] = min(ratios.values())  # the faster variant
            line[peer + "_variants"] = {str(variant): ratio for variant, ratio in ratios.items()}
    single = next((r for (name, _, t), r in results.items() if name == "longspan" and t == 1), None)
    if threads > 1 and single:
        line["two"] = median_ratio(single["seconds"], own["seconds"])
    line["goals"] = workloads.goals_of(job["kind"], job.get("n"), job.get("causal"), threads)
    return line


def cell(line, key):
    """A ratio or share with its goal: "1.33 ≥1.25 ok"."""
    if key not in line:
        return ""
    text = f"{100 * line[key]:.0f} %" if key == "peak" else f"{line[key]:.2f}x"
    goal = line["goals"].get(key)
    if goal is None:
        return text
    wanted = f"{100 * goal:.0f}" if key == "peak" else f"{goal:g}"
    verdict = "ok" if line[key] >= goal else "†" if share_needed(line, key) > 1 else "NO"
    return f"{text} ≥{wanted} {verdict}"


def share_needed(line, key):
    """The share of the FMA peak at which a goal against a peer would be met."""
    return line["peak"] * line["goals"][key] / line[key]


HEADINGS = ["thr", "longspan ms", "GF/s", "of FMA peak", "vs ORT", "vs torch", "vs 1 thread"]
WIDTHS = [3, 11, 6, 12, 14, 13, 13]


def print_row(first, cells):
    print(f"{first:<18}" + " ".join(f"{c:>{w}}" for c, w in zip(cells, WIDTHS)).rstrip(), flush=True)


def print_line(line):
    ms = 1e3 * line["seconds"]
    print_row(workloads.title(line["workload"]),
              [line["threads"], f"{ms:.2f}" if ms < 100 else f"{ms:.0f}",
               f"{line['flops'] / line['seconds'] / 1e9:.0f}"]
              + [cell(line, key) for key in ("peak", "ort", "torch", "two")])


def compare(team, options):
    lines = []
    heading = None
    for job in workloads.workloads(options.lengths, options.kinds):
        results = measure(team, job, options)
        if workloads.section(job) != heading:
            heading = workloads.section(job)
            print(f"\n{heading}")
            print_row("", HEADINGS)
        for threads in options.threads:
            line = summarise(job, results, threads)
            if line:
                line["rounds"] = [
                    {"peer": name, "variant": variant, "seconds": r["seconds"]}
                    for (name, variant, t), r in results.items() if t == threads
                ]
                lines.append(line)
                print_line(line)
    return lines


def compare_memory(options):
    """Peak memory of `flash` forward+backward, causal, one head: a fresh process for each n."""
    print("\nmemory of attention forward+backward, one head x 64, causal; a fresh process each")
    print_row("", ["thr", "seconds", "", "peak RSS MB", "above start MB", "bytes/position"])
    threads = max(options.threads)
    rows = []
    start = fresh_process_memory(64, threads)["resident"]
    for n in (8192, 16384, 32768, 65536):
        reply = fresh_process_memory(n, threads)
        above = reply["resident"] - start
        rows.append({"n": n, "threads": threads, "resident": reply["resident"], "above_start": above})
        print_row(f"n={n}", [threads, f"{reply['seconds'][0]:.2f}", "",
                             f"{reply['resident'] / 1e6:.1f}", f"{above / 1e6:.1f}",
                             f"{above / n:.0f}"])
    growth = math.log(rows[-1]["above_start"] / rows[0]["above_start"]) / math.log(8)
    print(f"grows as n^{growth:.2f}; linear is n^1")
    return {"rows": rows, "exponent": growth}


def fresh_process_memory(n, threads):
    worker = Worker("longspan", threads)
    reply = worker.run({"kind": "backward", "n": n, "heads": 1, "causal": True}, 0)
    worker.close()
    if "error" in reply:
        raise SystemExit(f"longspan: {reply['error']} at n = {n}")
    return reply


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((l.split(":", 1)[1].strip() for l in file if l.startswith("model name")),
                   platform.processor())
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True,
                                        check=False).stdout.strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "commit": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds")}


def main():
    options = parse_arguments()
    team = Team(options)
    about = {"machine": machine(), "workers": team.about(),
             "rounds": options.rounds, "threads": options.threads}
    print(f"{about['machine']['cpu']}, {about['machine']['cores']} cores, "
          f"{about['workers']['longspan']['instruction_set']}; "
          + ", ".join(f"{w['name']} {w['version']}" for w in about["workers"].values()))
    print(f"float32, batch 1, 8 heads x 64; median of {options.rounds} interleaved rounds; "
          "ratio = peer time / longspan time")
    lines = compare(team, options)
    team.close()
    memory = compare_memory(options) if "memory" in options.kinds else None

    goals = [(line, key) for line in lines for key in line["goals"] if key in line]
    missed = [(line, key) for line, key in goals if line[key] < line["goals"][key]]
    peaks = {t: [l["peak_flops"] for l in lines if l["threads"] == t] for t in options.threads}
    print("\nFMA peak: " + ", ".join(f"{statistics.median(p) / 1e9:.0f} GF/s on {t} thread"
                                     + "s" * (t > 1) for t, p in peaks.items() if p))
    beyond = sum(share_needed(line, key) > 1 for line, key in missed)
    print(f"goals: {len(goals) - len(missed)} of {len(goals)} met"
          + f"; †: {beyond} need more than the FMA peak, against this peer on this machine" * bool(beyond))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(about | {"lines": lines, "memory": memory}, indent=1) + "\n",
                           encoding="utf-8")
    print(f"all rounds: {os.path.relpath(options.out)}")


if __name__ == "__main__":
    main()
