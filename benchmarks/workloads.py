"""What is compared, and what is hoped for."""

LENGTHS = [512, 1024, 2048, 4096, 8192]
WIDTH = 512  # 8 heads × 64

# Variants of PyTorch; the faster one counts.
TORCH_VARIANTS = {"forward": ["naive", "chunks"], "backward": ["naive", "chunks"]}
# Checkpointed chunks recompute the forward pass; beyond this they are far behind and slow to run.
LONGEST_CHECKPOINTED = 2048


def goals_of(kind, n, causal, threads):
    """{"ort": least ratio, "torch": least ratio, "peak": least share, "two": least speed-up}."""
    goals = {}
    if kind == "train_step":
        goals["torch"] = 1.3 if threads == 1 else 2.0
        return goals
    if threads > 1:
        if n >= 2048:
            goals["two"] = 1.8
        return goals
    if kind == "forward":
        goals["torch"] = 2.3
        if causal:
            goals |= {"ort": 2.8} if n == 2048 else {}
        elif n == 512:
            goals["ort"] = 1.5
        elif n >= 2048:
            goals["ort"] = 1.25
    elif causal:
        goals |= {"torch": 6.0} if n == 2048 else {}
    else:
        goals |= {2048: {"torch": 2.8}, 8192: {"torch": 3.5}}.get(n, {})
    if n >= 1024 and not causal:
        goals["peak"] = 0.75
    return goals


# Name → layers, heads, width, context, batch, vocabulary: as in peers/torch_language_model.py.
RECIPES = {"R1": (4, 4, 128, 64, 12, 65), "R2": (6, 6, 384, 256, 8, 256)}


def useful_flops(kind, job):
    """FLOPs of the matrix products that the result needs; recomputation is not counted."""
    if kind == "train_step":
        layers, _, width, context, batch, vocab = RECIPES[job["recipe"]]
        weights = 12 * layers * width**2 + vocab * width
        attention = 4 * layers * width * context * (context + 1) // 2  # per sequence, forward
        return 3 * batch * (2 * weights * context + attention)
    n = job["n"]
    pairs = n * (n + 1) // 2 if job["causal"] else n * n
    return {"forward": 4, "backward": 14}[kind] * pairs * WIDTH


def workloads(lengths, kinds):
    """Jobs in the order in which they are run, the same for every peer."""
    for kind in ("forward", "backward"):
        if kind not in kinds:
            continue
        for causal in (False, True):
            for n in lengths:
                yield {"kind": kind, "n": n, "causal": causal}
    if "train" in kinds:
        for recipe in RECIPES:
            yield {"kind": "train_step", "recipe": recipe}


def torch_variants(job):
    names = TORCH_VARIANTS.get(job["kind"], [None])
    if job["kind"] == "backward" and job["n"] > LONGEST_CHECKPOINTED:
        return ["naive"]
    return names


def torch_bytes(job):
    """About what PyTorch's naive attention needs: so many n×n tables of eight heads."""
    tables = {"forward": 3, "backward": 4}.get(job["kind"], 0) + bool(job.get("causal"))
    return tables * 8 * 4 * job.get("n", 0) ** 2


def title(job):
    if job["kind"] == "train_step":
        layers, _, width, context, batch, _ = RECIPES[job["recipe"]]
        return f"{job['recipe']} {layers}x{width}, {batch}x{context}"
    return f"n={job['n']}"


def section(job):
    return {
        "forward": "attention forward, ",
        "backward": "attention forward+backward, ",
        "train_step": "one training step of a decoder",
    }[job["kind"]] + ("" if job["kind"] == "train_step" else "causal" if job["causal"] else "bidirectional")
