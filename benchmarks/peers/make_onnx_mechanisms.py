#!/usr/bin/python3
"""Writes the plain PyTorch mechanisms as graphs for ONNX Runtime, one file per mechanism.

usage: make_onnx_mechanisms.py DIRECTORY LENGTH NAME…

Queries, keys and values are [1, n, heads·64], n fixed; parameters and random draws are constants.
"""

import pathlib
import sys
import warnings

import torch

from torch_mechanisms import MAKERS
from torch_peer import D, HEADS


class Layer(torch.nn.Module):
    def __init__(self, name, n):
        super().__init__()
        torch.manual_seed(1)  # as torch_peer.py: the same constants
        self.n = n
        self.attention = MAKERS[name](n, D, HEADS)

    def heads(self, x):
        return x.view(1, self.n, HEADS, D).transpose(1, 2)

    def forward(self, q, k, v):
        y = self.attention(self.heads(q), self.heads(k), self.heads(v))
        return y.transpose(1, 2).reshape(1, self.n, HEADS * D)


def main():
    folder, n = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # of shapes that the exporter cannot infer
    example = tuple(torch.zeros(1, n, HEADS * D) for _ in "qkv")
    for name in sys.argv[3:]:
        with torch.no_grad():
            torch.onnx.export(Layer(name, n), example, str(folder / f"{name}-{n}.onnx"),
                              input_names=list("qkv"), output_names=["y"], opset_version=16)


if __name__ == "__main__":
    main()
