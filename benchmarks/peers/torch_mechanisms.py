"""Plain PyTorch versions of the mechanisms, as one would write them from the papers: vectorised, no
custom kernels. Each maker takes the length and the width of a head and returns f(q, k, v) on
[1, heads, n, d]; its parameters and random draws are made once, outside the clock, and its
parameters are trained where gradients are enabled.
"""

import math

import torch
from torch.nn import functional as F


def learned(*shape, scale=1.0):
    return (scale * torch.randn(shape)).requires_grad_(torch.is_grad_enabled())


def linformer(n, d, heads, k=256):
    project = [learned(heads, k, n, scale=k**-0.5) for _ in "kv"]

    def run(q, keys, values):
        scores = q @ (project[0] @ keys).transpose(-2, -1) / math.sqrt(d)
        return torch.softmax(scores, -1) @ (project[1] @ values)

    return run


def performer(n, d, heads, features=256):
    blocks = [torch.linalg.qr(torch.randn(d, d))[0] for _ in range(-(-features // d))]
    norms = torch.randn(features, d).norm(dim=1, keepdim=True)
    omega = torch.cat(blocks)[:features] * norms

    def phi(x, dims):
        x = x * d**-0.25
        u = x @ omega.T - 0.5 * (x * x).sum(-1, keepdim=True)
        return torch.exp(u - u.amax(dims, keepdim=True).detach()) / math.sqrt(features)

    def run(q, k, v):
        fq, fk = phi(q, (-1,)), phi(k, (-2, -1))
        return (fq @ (fk.transpose(-2, -1) @ v)) / (fq @ fk.sum(-2).unsqueeze(-1))

    return run


def linear(n, d, heads):
    def run(q, k, v):
        fq, fk = F.elu(q) + 1, F.elu(k) + 1
        return (fq @ (fk.transpose(-2, -1) @ v)) / (fq @ fk.sum(-2).unsqueeze(-1))

    return run


def local(n, d, heads, block=128):
    def run(q, k, v):
        q, k, v = (x.reshape(1, heads, n // block, block, d) for x in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(d)
        return (torch.softmax(scores, -1) @ v).reshape(1, heads, n, d)

    return run


def sliding(n, d, heads, side):
    """Blocks of `side` queries against their three blocks of keys: what is hidden, and those keys."""
    blocks = n // side
    i = torch.arange(side)
    hidden = ((torch.arange(3 * side)[None, :] - side - i[:, None]).abs() > side)
    edges = torch.zeros(blocks, 1, 3 * side, dtype=torch.bool)
    edges[0, :, :side] = edges[-1, :, 2 * side:] = True

    def neighbours(x):
        x = F.pad(x, (0, 0, side, side)).reshape(1, heads, blocks + 2, side, d)
        return torch.cat([x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]], -2)

    return hidden | edges, neighbours


def window(n, d, heads, window=256):
    side = window // 2
    blocks = n // side
    hidden, neighbours = sliding(n, d, heads, side)

    def run(q, k, v):
        q = q.reshape(1, heads, blocks, side, d)
        scores = (q @ neighbours(k).transpose(-2, -1)) / math.sqrt(d)
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
        return (weights @ neighbours(v)).reshape(1, heads, n, d)

    return run


def longformer(n, d, heads, window=512):
    """The first token is global; its queries, keys and values are projections of the layer's input,
    for which k stands."""
    side, width = window // 2, heads * d
    blocks = n // side
    hidden, neighbours = sliding(n, d, heads, side)
    hidden[0, :, side] = hidden[1, :, 0] = True  # the global key, which has a column of its own
    weights = [learned(width, width, scale=width**-0.5) for _ in "qkv"]
    biases = [learned(width) for _ in "qkv"]

    def projected(x, i):
        return F.linear(x, weights[i], biases[i]).view(1, -1, heads, d).transpose(1, 2)

    def run(q, k, v):
        near = q.reshape(1, heads, blocks, side, d)
        scores = (near @ neighbours(k).transpose(-2, -1)).masked_fill(hidden, float("-inf"))
        far = near @ k[:, :, None, :1].transpose(-2, -1)
        seen = torch.softmax(torch.cat([far, scores], -1) / math.sqrt(d), -1)
        y = seen[..., 1:] @ neighbours(v) + seen[..., :1] * v[:, :, None, :1]
        x = k.transpose(1, 2).reshape(1, n, width)
        scores = projected(x[:, :1], 0) @ projected(x, 1).transpose(-2, -1) / math.sqrt(d)
        first = torch.softmax(scores, -1) @ projected(x, 2)
        return torch.cat([first, y.reshape(1, heads, n, d)[:, :, 1:]], -2)

    return run


def transformer_xl(n, d, heads):
    width = heads * d
    distance = torch.arange(n - 1, -n, -1.0)
    angle = distance[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
    positions = torch.cat([angle.sin(), angle.cos()], -1)
    weight = learned(width, width, scale=width**-0.5)
    u, v_bias = learned(heads, 1, d), learned(heads, 1, d)

    def run(q, k, v):
        rows = F.linear(positions, weight).view(2 * n - 1, heads, d).permute(1, 2, 0)
        by_distance = F.pad((q + v_bias) @ rows, (1, 0))
        # Row i moves so that column j is that of distance i − j.
        shifted = by_distance.view(1, heads, 2 * n * n)[..., n:].view(1, heads, n, 2 * n - 1)[..., :n]
        scores = ((q + u) @ k.transpose(-2, -1) + shifted) / math.sqrt(d)
        return torch.softmax(scores, -1) @ v

    return run


def bigbird(n, d, heads, block=64, random=3):
    blocks = n // block
    lists = torch.zeros(heads, blocks - 2, 5 + random, dtype=torch.long)
    hidden = torch.zeros(heads, blocks - 2, 5 + random, dtype=torch.bool)
    for h in range(heads):
        for t in range(1, blocks - 1):
            fixed = [0, blocks - 1] + [b for b in (t - 1, t, t + 1) if 0 < b < blocks - 1]
            others = torch.tensor([b for b in range(blocks) if b not in fixed])
            chosen = fixed + others[torch.randperm(len(others))[:random]].tolist()
            lists[h, t - 1, : len(chosen)] = torch.tensor(chosen)
            hidden[h, t - 1, len(chosen):] = True
    hidden = hidden.repeat_interleave(block, -1).unsqueeze(-2)
    flat = (lists + blocks * torch.arange(heads)[:, None, None]).flatten()

    def gather(x):
        x = x.reshape(heads * blocks, block, d)[flat]
        return x.view(1, heads, blocks - 2, -1, d)

    def run(q, k, v):
        middle = q[:, :, block:-block].reshape(1, heads, blocks - 2, block, d)
        scores = middle @ gather(k).transpose(-2, -1) / math.sqrt(d)
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
        inner = (weights @ gather(v)).reshape(1, heads, n - 2 * block, d)
        ends = torch.cat([q[:, :, :block], q[:, :, -block:]], -2)
        outer = torch.softmax(ends @ k.transpose(-2, -1) / math.sqrt(d), -1) @ v
        return torch.cat([outer[:, :, :block], inner, outer[:, :, block:]], -2)

    return run


def reformer(n, d, heads, chunk=64, rounds=4):
    buckets = max(2, n // chunk // 2 * 2)
    rotations = torch.randn(d, rounds, buckets // 2)
    chunks = n // chunk

    def run(q, _, v):
        q, v = q[0], v[0]
        with torch.no_grad():
            u = torch.einsum("hnd,drb->hrnb", q, rotations)
            bucket = torch.cat([u, -u], -1).argmax(-1)
            order = (bucket * n + torch.arange(n)).argsort(-1)
            undo = order.argsort(-1)
        place = order.unsqueeze(-1)

        def sort(x):
            x = x.unsqueeze(1).expand(-1, rounds, -1, -1).gather(2, place.expand(-1, -1, -1, x.shape[-1]))
            return x.view(heads, rounds, chunks, chunk, -1)

        def with_previous(x):
            return torch.cat([x, torch.roll(x, 1, 2)], 3)

        sq, sv = sort(q), sort(v)
        keys = with_previous(F.normalize(sq, dim=-1))
        scores = sq @ keys.transpose(-2, -1) / math.sqrt(d)
        at = order.view(heads, rounds, chunks, chunk)
        in_bucket = bucket.gather(-1, order).view(heads, rounds, chunks, chunk)
        keys_at, keys_in = with_previous(at.unsqueeze(-1))[..., 0], with_previous(in_bucket.unsqueeze(-1))[..., 0]
        scores = scores.masked_fill(in_bucket.unsqueeze(-1) != keys_in.unsqueeze(-2), -1e9)
        scores = scores.masked_fill(at.unsqueeze(-1) == keys_at.unsqueeze(-2), -5e4)
        total = torch.logsumexp(scores, -1, keepdim=True)
        out = torch.exp(scores - total) @ with_previous(sv)
        out = out.reshape(heads, rounds, n, d).gather(2, undo.unsqueeze(-1).expand(-1, -1, -1, d))
        total = total.reshape(heads, rounds, n, 1).gather(2, undo.unsqueeze(-1))
        return (out * torch.softmax(total, 1)).sum(1).unsqueeze(0)

    return run


def cluster(q, clusters, bits, iterations, planes):
    """Each query's cluster: k-means of sign bits in Hamming space."""
    heads, n, _ = q.shape
    codes = (q @ planes > 0).float()
    centres = codes[:, torch.linspace(0, n - 1, clusters).long()]
    for _ in range(iterations):
        distance = bits - (codes @ centres.transpose(-2, -1) + (1 - codes) @ (1 - centres).transpose(-2, -1))
        member = distance.argmin(-1)
        one_hot = F.one_hot(member, clusters).float()
        centres = ((one_hot.transpose(-2, -1) @ codes) * 2 > one_hot.sum(-2).unsqueeze(-1)).float()
    return member


def clustered(n, d, heads, clusters=100, bits=31, iterations=10, topk=0):
    planes = torch.randn(d, bits)

    def run(q, k, v):
        q, k, v = q[0], k[0], v[0]
        with torch.no_grad():
            member = cluster(q, clusters, bits, iterations, planes)
            one_hot = F.one_hot(member, clusters).float()
            share = one_hot / one_hot.sum(-2, keepdim=True).clamp(min=1)
        scores = (share.transpose(-2, -1) @ q) @ k.transpose(-2, -1) / math.sqrt(d)
        weights = torch.softmax(scores, -1)
        if topk == 0:
            return torch.gather(weights @ v, 1, member.unsqueeze(-1).expand(-1, -1, d)).unsqueeze(0)
        top = weights.topk(topk, -1)
        rest = weights.scatter(-1, top.indices, 0.0) @ v
        bottom = torch.gather(rest, 1, member.unsqueeze(-1).expand(-1, -1, d))
        indices = torch.gather(top.indices, 1, member.unsqueeze(-1).expand(-1, -1, topk))
        mass = torch.gather(top.values.sum(-1), 1, member).unsqueeze(-1)
        flat = indices.reshape(heads, -1, 1).expand(-1, -1, d)
        near_k = k.gather(1, flat).view(heads, n, topk, d)
        near_v = v.gather(1, flat).view(heads, n, topk, d)
        own = torch.softmax((q.unsqueeze(2) @ near_k.transpose(-2, -1)) / math.sqrt(d), -1)
        return (bottom + mass * (own @ near_v).squeeze(2)).unsqueeze(0)

    return run


def memory(n, d, heads, tokens=16):
    extra = [learned(1, heads, tokens, d) for _ in "kv"]

    def run(q, k, v):
        scores = q @ torch.cat([extra[0], k], -2).transpose(-2, -1) / math.sqrt(d)
        return torch.softmax(scores, -1) @ torch.cat([extra[1], v], -2)

    return run


def memory_compressed(n, d, heads, stride=3):
    width = heads * d
    kernels = [learned(width, d, stride) for _ in "kv"]

    def compress(x, kernel):
        x = x.transpose(-2, -1).reshape(1, width, n)
        return F.conv1d(x, kernel, stride=stride, groups=heads).view(1, heads, d, -1).transpose(-2, -1)

    def run(q, k, v):
        scores = q @ compress(k, kernels[0]).transpose(-2, -1) / math.sqrt(d)
        return torch.softmax(scores, -1) @ compress(v, kernels[1])

    return run


def deberta(n, d, heads, span=256):
    tables = [learned(1, heads, 2 * span, d) for _ in "kq"]
    distance = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    index = (distance + span).clamp(0, 2 * span - 1).expand(1, heads, n, n)

    def run(q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores + (q @ tables[0].transpose(-2, -1)).gather(-1, index)
        back = (k @ tables[1].transpose(-2, -1)).gather(-1, index.transpose(-2, -1))
        scores = scores + back.transpose(-2, -1)
        return torch.softmax(scores / math.sqrt(3 * d), -1) @ v

    return run


MAKERS = {
    "linformer": linformer,
    "performer": performer,
    "linear": linear,
    "local": local,
    "window": window,
    "longformer": longformer,
    "transformer-xl": transformer_xl,
    "bigbird": bigbird,
    "reformer": reformer,
    "clustered": clustered,
    "improved-clustered": lambda n, d, heads: clustered(n, d, heads, topk=32),
    "memory": memory,
    "memory-compressed": memory_compressed,
    "deberta": deberta,
}
