#!/usr/bin/python3
"""Writes the one-node graphs that ONNX Runtime is measured with.

usage: make_onnx_models.py DIRECTORY

  mha.onnx   com.microsoft MultiHeadAttention, bidirectional
  gqa.onnx   com.microsoft GroupQueryAttention, which is causal

Queries, keys and values are [1, n, heads·64], n free.
"""

import pathlib
import sys

from onnx import TensorProto, helper, save

HEADS = 8
WIDTH = HEADS * 64


def tensor(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, "n", WIDTH])


def integers(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.INT32, shape)


def write(path, node, more_inputs):
    graph = helper.make_graph(
        [node], path.stem, [tensor("q"), tensor("k"), tensor("v"), *more_inputs], [tensor("y")]
    )
    domains = [helper.make_opsetid("", 16), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, producer_name="longspan")
    model.ir_version = 8
    save(model, str(path))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    mha = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=HEADS
    )
    write(folder / "mha.onnx", mha, [])
    gqa = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "", "", "last", "total"],
        ["y", "present_k", "present_v"],
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=HEADS,
    )
    write(folder / "gqa.onnx", gqa, [integers("last", [1]), integers("total", [1])])


if __name__ == "__main__":
    main()
