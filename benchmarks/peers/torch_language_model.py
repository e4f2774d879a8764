"""A decoder-only language model in plain PyTorch, in the manner of nanoGPT, and its training step."""

import math

import torch
from torch import nn
from torch.nn import functional as F

# Name → layers, heads, width, context, batch, vocabulary.
RECIPES = {
    "R1": {"layers": 4, "heads": 4, "width": 128, "context": 64, "batch": 12, "vocab": 65},
    "R2": {"layers": 6, "heads": 6, "width": 384, "context": 256, "batch": 8, "vocab": 256},
    "R3": {"layers": 4, "heads": 8, "width": 512, "context": 32, "batch": 256, "vocab": 256},
}


class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("hidden", torch.ones(context, context, dtype=torch.bool).triu(1))

    def forward(self, x):
        batch, n, width = x.shape
        q, k, v = (
            part.view(batch, n, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, 2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // self.heads)
        weights = torch.softmax(scores.masked_fill(self.hidden[:n, :n], float("-inf")), -1)
        return self.out((weights @ v).transpose(1, 2).contiguous().view(batch, n, width))


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, context)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, layers, heads, width, context, vocab):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, context) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight  # tied
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def training_step(job):
    """A function that runs one step: forward, backward, clip at 1, AdamW. Returns the loss."""
    recipe = dict(RECIPES[job["recipe"]])
    batch = recipe.pop("batch")
    torch.manual_seed(1)
    model = LanguageModel(**recipe)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, foreach=True
    )
    text = torch.randint(recipe["vocab"], (batch, recipe["context"] + 1))

    def run():
        optimizer.zero_grad(set_to_none=True)
        loss = model(text[:, :-1], text[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return [loss.item()]

    return run
