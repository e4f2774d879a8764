#!/usr/bin/python3
"""PyTorch's side of the comparison; the protocol is described in compare_peers.py.

usage: torch_peer.py THREADS
"""

import ctypes
import json
import math
import resource
import sys
import time

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from torch_language_model import training_step
from torch_mechanisms import MAKERS
from torch_transformer import decode, encode

HEADS, D, CHUNK = 8, 64, 256
LIBC = ctypes.CDLL(None)
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of mallopt(3)
# malloc keeps its pages instead of faulting them in anew, which would cost PyTorch up to half of its
# speed; but n×n scores of this length and more would fragment tens of gigabytes.
HUGE = 8192
# From this length on they are given back after each round, for other workers to use.
LARGE = 4096


def inputs(seed, n):
    """[1, heads, n, d], uniform in [-2, 2): a hash of the flat index, the same in every peer."""
    u = np.arange(HEADS * n * D, dtype=np.uint32) * np.uint32(2654435761)
    u += np.uint32(seed * 374761393 % 2**32)
    u = (u ^ (u >> 15)) * np.uint32(2246822519)
    u ^= u >> 13
    x = (u >> 8).astype(np.float32) * np.float32(2.0**-22) - np.float32(2)
    return torch.from_numpy(x.reshape(1, HEADS, n, D))


def probe(x):
    n = x.shape[2]
    return [float(x[0, j % HEADS, j * (n - 1) // 15, j * 7 % D]) for j in range(16)]


def attend(q, k, v, hidden):
    """softmax(q kᵀ/√d) v, the scores in memory; `hidden` marks what a query may not see."""
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(D)
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


def hidden_keys(first, rows, keys):
    """True where key j comes after query first + i."""
    return torch.ones(rows, keys, dtype=torch.bool).triu(first + 1)


def naive(causal, n):
    hidden = hidden_keys(0, n, n) if causal else None
    return lambda q, k, v: attend(q, k, v, hidden)


def chunks(causal, n):
    """256 queries at a time; when causal, only the keys up to the last of them."""
    spans = [(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]
    masks = [hidden_keys(a, b - a, b) if causal else None for a, b in spans]

    def run(q, k, v):
        parts = []
        for (a, b), hidden in zip(spans, masks):
            end = b if causal else n
            part = (q[:, :, a:b], k[:, :, :end], v[:, :, :end], hidden)
            parts.append(checkpoint(attend, *part) if q.requires_grad else attend(*part))
        return torch.cat(parts, 2)

    return run


def as_layer(x):
    """[1, heads, n, d] that lies in memory as a layer's projections leave it: [n, heads·d]."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def mechanism(job):
    torch.manual_seed(1)
    attention = MAKERS[job["variant"]](job["n"], D, HEADS)
    return lambda q, k, v: as_layer(attention(q, k, v))


def attention_of(job):
    if job["variant"] in MAKERS:
        return mechanism(job)
    return {"naive": naive, "chunks": chunks}[job["variant"]](job["causal"], job["n"])


def inputs_of(job, seeds):
    tensors = (inputs(seed, job["n"]) for seed in seeds)
    return [as_layer(x) if job["variant"] in MAKERS else x for x in tensors]


def forward(job):
    q, k, v = inputs_of(job, (1, 2, 3))
    with torch.no_grad():
        attention = attention_of(job)

    def run():
        with torch.no_grad():
            return probe(attention(q, k, v))

    return run


def backward(job):
    *leaves, dy = inputs_of(job, (1, 2, 3, 4))
    q, k, v = (x.requires_grad_() for x in leaves)
    attention = attention_of(job)

    def run():
        q.grad = k.grad = v.grad = None
        y = attention(q, k, v)
        y.backward(dy)
        results = (t for t in (y.detach(), q.grad, k.grad, v.grad) if t is not None)
        return [x for tensor in results for x in probe(tensor)]

    return run


def limit_memory():
    """Allocations fail before the machine runs out, which could end anybody's process."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    limit = int(0.8 * 1024 * available)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def prepare(job):
    LIBC.malloc_trim(0)
    huge = job.get("variant") == "naive" and job["n"] >= HUGE
    LIBC.mallopt(M_MMAP_MAX, 65536 if huge else 0)
    LIBC.mallopt(M_TRIM_THRESHOLD, 128 << 10 if huge else -1)
    run = KINDS[job["kind"]](job)
    run()
    return run


KINDS = {"forward": forward, "backward": backward, "encode": encode, "decode": decode,
         "train_step": training_step}


def measure(run, budget, clock):
    seconds = []
    begin = time.perf_counter()
    while True:
        start = clock()
        result = run()
        seconds.append(clock() - start)
        if time.perf_counter() - begin >= budget:
            return {"seconds": seconds, "probe": result}


def main():
    threads = int(sys.argv[1])
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    print(json.dumps({"name": "PyTorch", "version": torch.__version__,
                      "mechanisms": sorted(MAKERS)}), flush=True)
    limit_memory()
    last, run = None, None
    for line in sys.stdin:
        job = json.loads(line)
        budget = job.pop("budget")
        try:
            if job != last:
                last = run = None
                run = prepare(job)
                last = job
            reply = measure(run, budget, clock)
            if job.get("n", 0) >= LARGE:
                last = run = None
                LIBC.malloc_trim(0)
        except (MemoryError, RuntimeError) as error:
            last = run = None
            scarce = isinstance(error, MemoryError) or "allocate memory" in str(error)
            reply = {"unsupported" if scarce else "error": f"{error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
