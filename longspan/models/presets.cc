#include "longspan/models/presets.h"

#include <array>
#include <vector>

#include "longspan/base/config.h"

namespace longspan {
namespace {

struct Size {
  std::size_t layers;
  std::size_t d_model;
  std::size_t heads;
  std::size_t d_ff;
};

void set_size(ModelConfig& c, const Size& size) {
  c.layers = size.layers;
  c.d_model = size.d_model;
  c.heads = size.heads;
  c.d_ff = size.d_ff;
}

// ReLU, post-norm, one table of byte pairs for both languages and the softmax layer.
ModelConfig translator(const Size& size) {
  ModelConfig c;
  c.family = Family::kEncoderDecoder;
  set_size(c, size);
  c.decoder_layers = size.layers;
  c.vocab = 37000;
  c.max_length = 512;
  c.wiring = Wiring::kPostNorm;
  c.activation = Activation::kRelu;
  c.positions = PositionKind::kSinusoidal;
  c.attention_bias = false;
  return c;
}
ModelConfig transformer_base() { return translator({6, 512, 8, 2048}); }
ModelConfig transformer_big() { return translator({6, 1024, 16, 4096}); }

// An encoder as it is published: without a layer that gives scores.
ModelConfig bare_encoder(const Size& size) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.head = HeadKind::kClassifier;
  c.classes = 1;
  set_size(c, size);
  c.vocab = 30522;
  c.max_length = 512;
  c.wiring = Wiring::kPostNorm;
  c.activation = Activation::kGelu;
  c.norm_epsilon = 1e-12F;
  c.embedding_norm = true;
  return c;
}
ModelConfig bert(const Size& size) {
  ModelConfig c = bare_encoder(size);
  c.token_types = 2;
  c.head_transform = true;  // the pooler
  c.head_activation = Activation::kTanh;
  return c;
}
ModelConfig bert_base() { return bert({12, 768, 12, 3072}); }
ModelConfig bert_large() { return bert({24, 1024, 16, 4096}); }
ModelConfig distilbert() { return bare_encoder({6, 768, 12, 3072}); }

ModelConfig gpt(const Size& size, std::size_t max_length) {
  ModelConfig c;
  set_size(c, size);
  c.vocab = 50257;
  c.max_length = max_length;
  return c;
}
ModelConfig gpt2() { return gpt({12, 768, 12, 3072}, 1024); }
ModelConfig gpt2_medium() { return gpt({24, 1024, 16, 4096}, 1024); }
ModelConfig gpt2_large() { return gpt({36, 1280, 20, 5120}, 1024); }
ModelConfig gpt2_xl() { return gpt({48, 1600, 25, 6400}, 1024); }
ModelConfig gpt3_small() { return gpt({12, 768, 12, 3072}, 2048); }
ModelConfig gpt3_175b() { return gpt({96, 12288, 96, 49152}, 2048); }

ModelConfig llama(const Size& size, std::size_t max_length) {
  ModelConfig c;
  set_size(c, size);
  c.vocab = 32000;
  c.max_length = max_length;
  c.norm = NormKind::kRms;
  c.activation = Activation::kSilu;
  c.gated = true;
  c.positions = PositionKind::kRotary;
  c.rotary_interleaved = false;
  c.bias = false;
  c.tied = false;
  return c;
}
ModelConfig llama_7b() { return llama({32, 4096, 32, 11008}, 2048); }
ModelConfig llama2_7b() { return llama({32, 4096, 32, 11008}, 4096); }
ModelConfig llama2_70b() {
  ModelConfig c = llama({80, 8192, 64, 28672}, 4096);
  c.kv_heads = 8;
  return c;
}

// Bytes in, two classes out.
ModelConfig lra() {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.head = HeadKind::kClassifier;
  set_size(c, {2, 64, 2, 128});
  c.vocab = 256;
  c.classes = 2;
  c.pool = Pool::kMean;
  c.max_length = 4096;
  c.activation = Activation::kGelu;
  return c;
}

ModelConfig nanogpt_char() {
  ModelConfig c;
  set_size(c, {4, 128, 4, 512});
  c.vocab = 65;
  c.max_length = 64;
  c.bias = false;
  c.activation = Activation::kGelu;
  return c;
}

constexpr std::string_view kVaswani = "Vaswani et al., 2017, arXiv:1706.03762, table 3";
constexpr std::string_view kDevlin = "Devlin et al., 2019, arXiv:1810.04805, section 3";
constexpr std::string_view kRadford = "Radford et al., 2019, table 2";
constexpr std::string_view kBrown = "Brown et al., 2020, arXiv:2005.14165, table 2.1";
constexpr std::string_view kTouvron2 = "Touvron et al., 2023, arXiv:2307.09288, table 1";

constexpr std::array kPresets = {
    Preset{"transformer-base", "6 + 6 layers, width 512", kVaswani, &transformer_base, 128, true},
    Preset{"transformer-big", "6 + 6 layers, width 1024", kVaswani, &transformer_big, 128, true},
    Preset{"bert-base", "12 layers, width 768, pooler", kDevlin, &bert_base, 512, false},
    Preset{"bert-large", "24 layers, width 1024, pooler", kDevlin, &bert_large, 512, false},
    Preset{"distilbert", "6 layers, width 768", "Sanh et al., 2019, arXiv:1910.01108, section 3",
           &distilbert, 512, false},
    Preset{"gpt2", "12 layers, width 768", kRadford, &gpt2, 1024, true},
    Preset{"gpt2-medium", "24 layers, width 1024", kRadford, &gpt2_medium, 1024, true},
    Preset{"gpt2-large", "36 layers, width 1280", kRadford, &gpt2_large, 1024, true},
    Preset{"gpt2-xl", "48 layers, width 1600", kRadford, &gpt2_xl, 1024, true},
    Preset{"gpt3-small", "12 layers, width 768", kBrown, &gpt3_small, 2048, true},
    Preset{"gpt3-175b", "96 layers, width 12288", kBrown, &gpt3_175b, 2048, true},
    Preset{"llama-7b", "32 layers, width 4096", "Touvron et al., 2023, arXiv:2302.13971, table 2",
           &llama_7b, 2048, true},
    Preset{"llama-2-7b", "32 layers, width 4096", kTouvron2, &llama2_7b, 4096, true},
    Preset{"llama-2-70b", "80 layers, width 8192, 8 key-value heads", kTouvron2, &llama2_70b, 4096,
           true},
    Preset{"lra", "2 layers, width 64, two classes of byte sequences",
           "Xiong et al., 2021, arXiv:2102.03902, section 5", &lra, 4096, true},
    Preset{"nanogpt-char", "4 layers, width 128, characters", "nanoGPT, its recipe for one CPU",
           &nanogpt_char, 64, true},
};

}  // namespace

std::span<const Preset> presets() { return kPresets; }

const Preset& find_preset(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset;
    known.push_back(preset.name);
  }
  throw_unknown("model", "preset", name, known);
}

}  // namespace longspan
