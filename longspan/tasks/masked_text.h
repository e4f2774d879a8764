// Masked language modelling (Devlin et al. 2019) on the text of a file: an encoder reads a window
// some of whose tokens are hidden, and says what they were.
//
// Of every hundred tokens 15 are chosen, of these 80 in a hundred become the token behind the
// vocabulary, 10 another random one, 10 stay as they are; they alone are targets. Which ones are
// chosen is a function of seed and step in training, of the window where a model is judged.
//
// Judged by the loss in nats per chosen token and by perplexity e^loss, beside those of guessing by
// how often each token is in the training part.
#pragma once

#include "longspan/tasks/text_task.h"

namespace longspan {

class MaskedTextTask final : public TextTask {
 public:
  static constexpr std::string_view kName = "mlm";

  explicit MaskedTextTask(Config config) : TextTask(std::move(config)) {}

  std::string_view name() const override { return kName; }
  void open() override;
  std::vector<Family> families() const override { return {Family::kEncoder}; }
  ModelNeeds needs() const override;
  std::size_t added_tokens() const override { return 1; }  // for what is hidden
  bool hides() const override { return true; }
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
  Judgement judge(Split split, const Tally& tally) const override;

 private:
  // Hides tokens of row `row`, whose targets become what they were.
  void hide(RandomKey key, std::size_t row, BatchMemory& memory) const;

  std::vector<double> surprise_;  // −log of each token's share of the training part
};

}  // namespace longspan
