#!/usr/bin/python3
"""What the options of exact attention cost beside plain `flash`, forward and forward+backward.

Both take turns in interleaved rounds at one length, causal, 8 heads of 64; the median of their ratios
is printed with the goal beside it: a tenth more at most, a quarter for buckets, whose bias is read
key by key. A window computes less; its ratio is to plain flash all the same. Timing decides nothing:
the exit code is 0 unless a worker fails.
"""

import argparse
import statistics
import sys

from compare_peers import machine, median_ratio, show
from worker import Worker

OPTIONS = {
    "scale": "flash:scale=0.1",
    "sinks": "flash:sinks=true",
    "cap": "flash:cap=50",
    "slopes": "flash:distances=alibi",
    "buckets": "flash:distances=buckets",
    "window": "flash:before=511",
    "window, sinks": "flash:before=511,sinks=true",
}
GOALS = {"buckets": 1.25}
OTHER_GOAL = 1.10
WORK = {"forward": "forward", "backward": "forward+backward"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=2048, help="%(default)s")
    parser.add_argument("--threads", type=int, default=1, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="%(default)s")
    parser.add_argument("--budget", type=float, default=0.3,
                        help="least seconds per worker and round (%(default)s)")
    return parser.parse_args()


def seconds(worker, kind, variant, options):
    reply = worker.run({"kind": kind, "variant": variant, "n": options.length, "causal": True},
                       options.budget)
    if "seconds" not in reply:
        raise SystemExit(f"\n{variant}: {reply.get('error', reply.get('unsupported'))}")
    return statistics.median(reply["seconds"])


def main():
    options = parse_arguments()
    plain, own = Worker("longspan", options.threads), Worker("longspan", options.threads)
    where = machine()
    print(f"{where['cpu']}, commit {where['commit'][:7]}, {options.threads} "
          f"thread{'s' * (options.threads > 1)}, n = {options.length}, causal, 8 heads of 64")
    print(f"{'option':<16}{'':<18}{'ms':>8}{'flash':>8}{'ratio':>8}")
    for name, variant in OPTIONS.items():
        for kind, work in WORK.items():
            times = {"own": [], "plain": []}
            for number in range(options.rounds):
                show(f"{name} {work}: round {number + 1} of {options.rounds}")
                times["plain"].append(seconds(plain, kind, "flash", options))
                times["own"].append(seconds(own, kind, variant, options))
            show("")
            ratio = median_ratio(times["own"], times["plain"])
            goal = GOALS.get(name, OTHER_GOAL)
            print(f"{name:<16}{work:<18}{1e3 * statistics.median(times['own']):>8.1f}"
                  f"{1e3 * statistics.median(times['plain']):>8.1f}{ratio:>7.2f}x  "
                  f"≤{goal:g} {'ok' if ratio <= goal else 'NO'}")
            sys.stdout.flush()
    plain.close()
    own.close()


if __name__ == "__main__":
    main()
