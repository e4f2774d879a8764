"""The weights of the whole models that are compared, the same in every peer: model_jobs.cc."""

import numpy as np

VOCAB = 1000
HEAD_WIDTH = 64


def hashed(seed, count):
    """Uniform in [-2, 2): a hash of the flat index."""
    u = np.arange(count, dtype=np.uint32) * np.uint32(2654435761)
    u += np.uint32(seed * 374761393 % 2**32)
    u = (u ^ (u >> 15)) * np.uint32(2246822519)
    u ^= u >> 13
    return (u >> 8).astype(np.float32) * np.float32(2.0**-22) - np.float32(2)


def weight(name, *shape):
    seed = 2166136261  # FNV-1a of the name
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = hashed(seed, int(np.prod(shape))).reshape(shape)
    if name.endswith("norm.weight"):
        return np.float32(1) + np.float32(0.05) * x
    return np.float32(0.03 if len(shape) > 1 else 0.003) * x


def tokens(count):
    return ((hashed(7, count) + 2) / 4 * VOCAB).astype(np.int64)


def block(stack, layer, width):
    """Names within a block, of longspan, and their weights."""
    shapes = {"attention.qkv.weight": (3 * width, width), "attention.qkv.bias": (3 * width,),
              "attention.out.weight": (width, width), "attention.out.bias": (width,),
              "attention_norm.weight": (width,), "attention_norm.bias": (width,),
              "feed_forward.in.weight": (4 * width, width), "feed_forward.in.bias": (4 * width,),
              "feed_forward.out.weight": (width, 4 * width), "feed_forward.out.bias": (width,),
              "feed_forward_norm.weight": (width,), "feed_forward_norm.bias": (width,)}
    return {name: weight(f"{stack}.{layer}.{name}", *shape) for name, shape in shapes.items()}


def final_norm(width):
    return {name: weight(name, width) for name in ("decoder.norm.weight", "decoder.norm.bias")}
