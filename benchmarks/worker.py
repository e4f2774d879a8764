"""The protocol between the driver and the workers, and how each worker is started.

A worker is one process with a fixed number of threads. It first prints one line of JSON about
itself. Then, for each line of JSON it reads, a job

  {"kind": "forward" | "backward", "n": 2048, "causal": false, "variant": …, "budget": seconds}
  {"kind": "train_step", "recipe": "R1", "budget": seconds}

it repeats the work until the budget is spent and prints

  {"seconds": [of each repetition], "probe": [some elements of the result], …}

(longspan adds the operations it predicts, its FMA peak and its largest resident size) or {"unsupported": why} or {"error": what}. Seconds are the process' processor time when it has one
thread, because a busy neighbour hardly disturbs that, and wall time when it has more. A job that
differs from the last one is prepared and run once before the clock starts. All inputs are a hash of
their index, so that every worker computes with the same numbers and the probes can be compared.
"""

import glob
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = pathlib.Path(os.environ.get("LONGSPAN_BUILD", ROOT / "build"))
MODELS = BUILD / "bench"


def environment(name, threads):
    env = dict(os.environ)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[variable] = str(threads)
    if name == "torch":
        # OpenBLAS on the same OpenMP threads as PyTorch; its own would compete with them.
        blas = glob.glob("/usr/lib/*/openblas-openmp")
        env["LD_LIBRARY_PATH"] = ":".join(blas + [env.get("LD_LIBRARY_PATH", "")]).strip(":")
    return env


def command(name, threads):
    return {
        "longspan": [BUILD / "bench_worker", threads],
        "ort": ["node", HERE / "peers" / "ort_peer.mjs", threads, MODELS],
        "torch": [sys.executable, HERE / "peers" / "torch_peer.py", threads],
    }[name]


class Worker:
    def __init__(self, name, threads):
        self.name = name
        self.threads = threads
        self.process = subprocess.Popen(
            [str(part) for part in command(name, threads)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment(name, threads),
        )
        self.about = self._read()

    def _read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else self._gone()

    def _gone(self):
        raise SystemExit(f"{self.name} ended with exit code {self.process.wait()}")

    def run(self, job, budget):
        try:
            self.process.stdin.write(json.dumps(job | {"budget": budget}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self._gone()
        return self._read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
