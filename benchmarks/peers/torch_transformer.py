"""BERT's encoder and GPT-2's decoder in plain PyTorch, for inference."""

import math

import torch
from torch.nn import functional as F

import model_weights
from model_weights import HEAD_WIDTH, VOCAB


class Layer:
    def __init__(self, stack, index, width):
        w = model_weights.block(stack, index, width)
        self.w = {name: torch.from_numpy(array) for name, array in w.items()}
        self.heads = width // HEAD_WIDTH

    def linear(self, name, x):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.w[name + "_norm.weight"],
                            self.w[name + "_norm.bias"])

    def attention(self, x, hidden=None, cache=None):
        batch, n, width = x.shape
        q, k, v = (part.view(batch, n, self.heads, HEAD_WIDTH).transpose(1, 2)
                   for part in self.linear("attention.qkv", x).split(width, 2))
        if cache is not None:
            keys, values, used = cache
            keys[:, :, used:used + n], values[:, :, used:used + n] = k, v
            k, v = keys[:, :, :used + n], values[:, :, :used + n]
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(HEAD_WIDTH)
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, n, width)
        return self.linear("attention.out", y)

    def feed_forward(self, x):
        return self.linear("feed_forward.out", F.gelu(self.linear("feed_forward.in", x)))

    def post_norm(self, x, hidden):
        x = self.norm("attention", x + self.attention(x, hidden))
        return self.norm("feed_forward", x + self.feed_forward(x))

    def pre_norm(self, x, hidden, cache):
        x = x + self.attention(self.norm("attention", x), hidden, cache)
        return x + self.feed_forward(self.norm("feed_forward", x))


def table(width):
    return torch.from_numpy(model_weights.weight("embedding.tokens", VOCAB, width))


def probe(x):
    """Of [rows, columns]: benchmarks/model_jobs.cc."""
    return [float(x[j * (len(x) - 1) // 15, j * 7 % x.shape[1]]) for j in range(16)]


def encode(job):
    """A function that reads texts of the job's lengths, padded to the longest."""
    width, lengths = job["width"], job["lengths"]
    batch, n = len(lengths), max(lengths)
    layers = [Layer("encoder", index, width) for index in range(job["layers"])]
    embedding = table(width)
    tokens = torch.from_numpy(model_weights.tokens(batch * n)).view(batch, n)
    hidden = None
    if min(lengths) < n:
        hidden = (torch.arange(n) >= torch.tensor(lengths)[:, None])[:, None, None, :]

    def run():
        with torch.no_grad():
            x = F.embedding(tokens, embedding)
            for layer in layers:
                x = layer.post_norm(x, hidden)
            return probe(x[0, :lengths[0]])

    return run


def decode(job):
    """A function that adds a token to sequences of which so many are cached."""
    width, batch, cached = job["width"], job["batch"], job["cached"]
    layers = [Layer("decoder", index, width) for index in range(job["layers"])]
    embedding = table(width)
    gain, offset = (torch.from_numpy(array) for array in model_weights.final_norm(width).values())
    tokens = torch.from_numpy(model_weights.tokens(batch * (cached + 1)))
    caches = [[torch.zeros(batch, width // HEAD_WIDTH, cached + 1, HEAD_WIDTH) for _ in "kv"]
              for _ in layers]

    def read(ids, used):
        n = ids.shape[1]
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1) if n > 1 else None
        x = F.embedding(ids, embedding)
        for layer, (keys, values) in zip(layers, caches):
            x = layer.pre_norm(x, hidden, (keys, values, used))
        return F.linear(F.layer_norm(x[:, -1], (width,), gain, offset), embedding)

    with torch.no_grad():
        if cached > 0:
            read(tokens[:batch * cached].view(batch, cached), 0)

    def run():
        with torch.no_grad():
            return probe(read(tokens[batch * cached:].view(batch, 1), cached))

    return run
