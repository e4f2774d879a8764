// The text of a file (text.h) as a task of a causal decoder: predict each token from those before.
//
// Judged by the loss in nats per token, by perplexity e^loss, by bits per byte of the text, which
// compares vocabularies, and by the share of tokens that were the likeliest.
#pragma once

#include <optional>

#include "longspan/base/number.h"
#include "longspan/tasks/task.h"
#include "longspan/tasks/text.h"

namespace longspan {

class TextTask : public Task {
 public:
  static constexpr std::string_view kName = "text";

  struct Config {
    std::string data;
    std::string vocabulary = "characters";
    std::size_t length = 64;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("data", data, "The text file");
      see("vocabulary", vocabulary, "characters or bytes");
      see("length", length, "Tokens per sequence", from_to(1, 1e7));
    }
  };

  explicit TextTask(Config config) : config_(std::move(config)) {}

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  bool needs_data() const override { return true; }
  void open() override;
  std::vector<Family> families() const override { return {Family::kDecoder}; }
  bool endless() const override { return true; }  // windows begin anywhere
  std::string checksum() const override;
  std::string describe() const override;
  ModelNeeds needs() const override;
  std::size_t examples(Split split) const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
  Judgement judge(Split split, const Tally& tally) const override;
  bool learns_vocabulary() const override { return true; }
  const Vocabulary* vocabulary() const override { return vocabulary_ ? &*vocabulary_ : nullptr; }
  void use(const Vocabulary& vocabulary) override { vocabulary_ = vocabulary; }
  std::vector<std::int32_t> encode(std::string_view prompt) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;

 protected:
  const TextCorpus& corpus() const { return *corpus_; }
  std::size_t length() const { return config_.length; }

 private:
  Batch view(std::size_t rows, const BatchMemory& memory) const;
  // Room for `rows` windows, to be filled.
  TokenBatch room(std::size_t rows, BatchMemory& memory) const;

  Config config_;
  std::optional<Vocabulary> vocabulary_;
  std::optional<TextCorpus> corpus_;
};

}  // namespace longspan
