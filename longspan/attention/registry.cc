#include "longspan/attention/registry.h"

#include <array>
#include <vector>

#include "longspan/attention/bigbird.h"
#include "longspan/attention/clustered.h"
#include "longspan/attention/deberta.h"
#include "longspan/attention/flash.h"
#include "longspan/attention/full.h"
#include "longspan/attention/improved_clustered.h"
#include "longspan/attention/linear_attention.h"
#include "longspan/attention/linformer.h"
#include "longspan/attention/local.h"
#include "longspan/attention/longformer.h"
#include "longspan/attention/memory_attention.h"
#include "longspan/attention/memory_compressed.h"
#include "longspan/attention/performer.h"
#include "longspan/attention/reformer.h"
#include "longspan/attention/transformer_xl.h"
#include "longspan/attention/window.h"
#include "longspan/base/config.h"

namespace longspan {

namespace {

// Beyond any use, and far enough from where counts in 64 bits would overflow.
constexpr std::size_t kMostOption = std::size_t{1} << 24U;

template <class Kind, class Config>
std::unique_ptr<Attention> make(std::string_view options) {
  Config config;
  parse_options(Kind::kName, options, config);
  config.visit([](std::string_view name, const auto& field) {
    if constexpr (std::same_as<std::remove_cvref_t<decltype(field)>, std::size_t>) {
      require(field <= kMostOption || name == "seed", "[{}] {} is {}; need at most {}", Kind::kName,
              name, field, kMostOption);
    }
  });
  return std::make_unique<Kind>(config);
}

constexpr std::array kMechanisms = {
    Mechanism{FullAttention::kName, "exact", "O(n²)", "O(n²)",
              "softmax(q·kᵀ/√d)·v with the matrix in memory", &make<FullAttention, FullConfig>},
    Mechanism{FlashAttention::kName, "exact", "O(n²)", "O(n)",
              "the same by tiles, O(n) memory, recomputed in backward",
              &make<FlashAttention, FlashConfig>},
    Mechanism{LinformerAttention::kName, "low rank", "O(n·k)", "O(n + k)",
              "exact over keys and values projected to k slots",
              &make<LinformerAttention, LinformerConfig>},
    Mechanism{LinearAttention::kName, "kernel", "O(n)", "O(n + d²)",
              "φ(q)·Σφ(k)vᵀ with φ = elu + 1, or softmax features",
              &make<LinearAttention, LinearAttentionConfig>},
    Mechanism{PerformerAttention::kName, "kernel", "O(n)", "O(n + M·d)",
              "softmax by M orthogonal random features, FAVOR+",
              &make<PerformerAttention, PerformerConfig>},
    Mechanism{MemoryAttention::kName, "memory", "O(n²)", "O(n)",
              "exact over the sequence and learned keys and values",
              &make<MemoryAttention, MemoryConfig>},
    Mechanism{MemoryCompressedAttention::kName, "memory", "O(n²/s)", "O(n)",
              "exact over keys and values shortened by a convolution",
              &make<MemoryCompressedAttention, MemoryCompressedConfig>},
    Mechanism{LocalAttention::kName, "fixed pattern", "O(n·block)", "O(n)",
              "exact over the own block of tokens and its neighbours",
              &make<LocalAttention, LocalConfig>},
    Mechanism{WindowAttention::kName, "fixed pattern", "O(n·w)", "O(n)",
              "exact over a sliding window, dilated if asked",
              &make<WindowAttention, WindowConfig>},
    Mechanism{BigBirdAttention::kName, "fixed pattern", "O(n)", "O(n)",
              "exact over global, window and random blocks",
              &make<BigBirdAttention, BigBirdConfig>},
    Mechanism{LongformerAttention::kName, "fixed pattern", "O(n·w)", "O(n)",
              "a sliding window and global tokens with projections of their own",
              &make<LongformerAttention, LongformerConfig>},
    Mechanism{DebertaAttention::kName, "content + position", "O(n²)", "O(n·r)",
              "content and distance apart: c→c, c→p, p→c, by tiles",
              &make<DebertaAttention, DebertaConfig>},
    Mechanism{TransformerXlAttention::kName, "recurrence", "O(n²)", "O(n)",
              "relative positions and a memory of earlier segments",
              &make<TransformerXlAttention, TransformerXlConfig>},
    Mechanism{ReformerAttention::kName, "learnable pattern", "O(n·log n)", "O(n)",
              "exact among tokens whose hashes agree, several rounds",
              &make<ReformerAttention, ReformerConfig>},
    Mechanism{ClusteredAttention::kName, "learnable pattern", "O(n·C)", "O(n + C)",
              "one row of attention for each cluster of queries",
              &make<ClusteredAttention, ClusteredConfig>},
    Mechanism{ImprovedClusteredAttention::kName, "learnable pattern", "O(n·(C + k))", "O(n + C·k)",
              "clustered, and every query looks at its cluster's top keys itself",
              &make<ImprovedClusteredAttention, ImprovedClusteredConfig>},
};

}  // namespace

std::span<const Mechanism> mechanisms() { return kMechanisms; }

std::unique_ptr<Attention> make_attention(std::string_view specification) {
  const std::size_t colon = std::min(specification.find(':'), specification.size());
  const std::string_view name = specification.substr(0, colon);
  const std::string_view options = specification.substr(std::min(colon + 1, specification.size()));
  std::vector<std::string_view> known;
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.name == name) return mechanism.make(options);
    known.push_back(mechanism.name);
  }
  throw_unknown("attention", "mechanism", name, known);
}

}  // namespace longspan
