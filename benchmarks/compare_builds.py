#!/usr/bin/python3
"""Two builds of longspan against each other: the workloads of compare_peers.py, in one sitting.

usage: compare_builds.py OLD_BUILD NEW_BUILD [--quick] [--rounds 5] [--threads 1,2]

Each round runs old, new and old again. The median over the rounds of new / old is printed beside
the largest deviation of old against itself, which is what the machine alone does. A line is marked
where new is slower by more than 3 % beyond that. Timing decides nothing: the exit code is 0.
"""

import argparse
import pathlib
import statistics

import worker
import workloads


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="n = 512 and 2048 only")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s")
    parser.add_argument("--threads", default="1,2", help="%(default)s")
    parser.add_argument("--budget", type=float, default=0.2,
                        help="least seconds per build and round (%(default)s)")
    return parser.parse_args()


def start(build, threads):
    worker.BUILD = build
    return worker.Worker("longspan", threads)


def seconds(of, job, budget):
    reply = of.run(job | ({"variant": "flash"} if "n" in job else {}), budget)
    if "seconds" not in reply:
        raise SystemExit(f"{reply} for {job}")
    return statistics.median(reply["seconds"])


def main():
    options = parse_arguments()
    lengths = [512, 2048] if options.quick else workloads.LENGTHS
    print(f"{'':<46}{'thr':>3}{'old ms':>10}{'new / old':>11}{'old / old':>18}")
    for threads in map(int, options.threads.split(",")):
        builds = [start(build, threads) for build in (options.old, options.new, options.old)]
        for job in workloads.workloads(lengths, ["forward", "backward", "train"]):
            rounds = []
            for _ in range(options.rounds):
                rounds.append([seconds(build, job, options.budget) for build in builds])
            ratio = statistics.median(2 * new / (old + again) for old, new, again in rounds)
            itself = [again / old for old, _, again in rounds]
            spread = max(max(itself) - 1, 1 - min(itself))
            slower = "  slower" if ratio > 1.03 + spread else ""
            name = f"{workloads.section(job)}, {workloads.title(job)}"
            print(f"{name:<46}{threads:>3}{1e3 * statistics.median(r[0] for r in rounds):>10.2f}"
                  f"{ratio:>11.3f}{min(itself):>10.3f}…{max(itself):.3f}{slower}", flush=True)
        for build in builds:
            build.close()


if __name__ == "__main__":
    main()
