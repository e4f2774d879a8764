#!/usr/bin/python3
"""Writes whole transformers for ONNX Runtime, with its own fused operators where it has them.

usage: make_onnx_transformers.py DIRECTORY WIDTHxLAYERS…

  encoder-WIDTHxLAYERS.onnx          BERT's: tokens [batch, n] → states
  encoder-WIDTHxLAYERS-masked.onnx   the same of texts of several lengths, which are given too
  decoder-WIDTHxLAYERS.onnx          GPT-2's: tokens behind a cache → logits of the last one, cache
"""

import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from model_weights import HEAD_WIDTH, VOCAB, block, final_norm, weight


class Graph:
    def __init__(self):
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def input(self, name, kind, shape):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name, shape):
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operator, inputs, outputs, domain="com.microsoft", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def product(self, x, w, name):
        return self.add("MatMul", [x, self.constant(name + ".w", w.T)], name, domain="")

    def save(self, path):
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, self.outputs,
                                  initializer=self.weights)
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=domains, producer_name="longspan")
        model.ir_version = 8
        save(model, str(path))


class Layer:
    """The parts that both kinds of layers have."""

    def __init__(self, graph, stack, index, width):
        self.g, self.index, self.width = graph, index, width
        self.w = block(stack, index, width)

    def name(self, part):
        return f"{self.index}.{part}"

    def vector(self, part):
        return self.g.constant(self.name(part), self.w[part])

    def norm(self, part):
        return [self.vector(part + "_norm.weight"), self.vector(part + "_norm.bias")]

    def attention(self, x, more, outputs, **attributes):
        rows = np.split(self.w["attention.qkv.weight"], 3)
        qkv = [self.g.product(x, w, self.name(letter)) for w, letter in zip(rows, "qkv")]
        a = self.g.add("MultiHeadAttention", [*qkv, self.vector("attention.qkv.bias"), *more],
                       outputs, num_heads=self.width // HEAD_WIDTH, **attributes)
        return self.g.product(a, self.w["attention.out.weight"], self.name("out"))

    def feed_forward(self, x):
        h = self.g.product(x, self.w["feed_forward.in.weight"], self.name("in"))
        h = self.g.add("BiasGelu", [h, self.vector("feed_forward.in.bias")], self.name("h"))
        return self.g.product(h, self.w["feed_forward.out.weight"], self.name("ff"))

    def add_and_norm(self, f, x, norm, bias, outputs):
        """norm(x + f + bias), and that sum."""
        return self.g.add("SkipLayerNormalization", [f, x, *norm, self.vector(bias)], outputs,
                          epsilon=1e-5)


def embedded(g, width):
    tokens = g.input("tokens", TensorProto.INT64, ["batch", "n"])
    table = g.constant("table", weight("embedding.tokens", VOCAB, width))
    return g.add("Gather", [table, tokens], "embedded", domain="")


def write_encoder(path, width, layers, masked):
    g = Graph()
    x = embedded(g, width)
    more = [g.input("count", TensorProto.INT32, ["batch"])] if masked else []
    for index in range(layers):
        layer = Layer(g, "encoder", index, width)
        a = layer.attention(x, more, layer.name("heads"))
        x = layer.add_and_norm(a, x, layer.norm("attention"), "attention.out.bias",
                               layer.name("x"))
        x = layer.add_and_norm(layer.feed_forward(x), x, layer.norm("feed_forward"),
                               "feed_forward.out.bias", layer.name("y"))
    g.output(x, ["batch", "n", width])
    g.save(path)


def write_decoder(path, width, layers):
    g = Graph()
    x = embedded(g, width)
    cache = ["batch", width // HEAD_WIDTH, "cached", HEAD_WIDTH]
    all_layers = [Layer(g, "decoder", index, width) for index in range(layers)]
    normed = g.add("LayerNormalization", [x, *all_layers[0].norm("attention")], "first", domain="",
                   epsilon=1e-5)
    last_norm = [g.constant(name, array) for name, array in final_norm(width).items()]
    for index, layer in enumerate(all_layers):
        past = [g.input(f"past.{index}.{part}", TensorProto.FLOAT, cache) for part in "kv"]
        present = [f"present.{index}.{part}" for part in "kv"]
        a = layer.attention(normed, ["", "", *past], [layer.name("heads"), *present],
                            unidirectional=1)
        for name in present:
            g.output(name, [*cache[:2], "all", HEAD_WIDTH])
        normed = layer.add_and_norm(a, x, layer.norm("feed_forward"), "attention.out.bias",
                                    [layer.name("n"), "", "", layer.name("x")])
        last = index + 1 == layers
        norm = last_norm if last else all_layers[index + 1].norm("attention")
        normed = layer.add_and_norm(layer.feed_forward(normed), layer.name("x"), norm,
                                    "feed_forward.out.bias",
                                    [layer.name("m"), "", "", layer.name("y")])
        x = layer.name("y")
    end = g.constant("last", np.array([-1]))
    tail = g.add("Gather", [normed, end], "tail", domain="", axis=1)
    logits = g.product(tail, weight("embedding.tokens", VOCAB, width), "logits")
    g.output(logits, ["batch", 1, VOCAB])
    g.save(path)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for size in sys.argv[2:]:
        width, layers = map(int, size.split("x"))
        writers = {f"encoder-{size}": lambda path: write_encoder(path, width, layers, False),
                   f"encoder-{size}-masked": lambda path: write_encoder(path, width, layers, True),
                   f"decoder-{size}": lambda path: write_decoder(path, width, layers)}
        for name, write in writers.items():
            path = folder / f"{name}.onnx"
            if not path.exists():
                write(path)


if __name__ == "__main__":
    main()
