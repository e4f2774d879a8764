// What tasks of drawn symbols (symbols.h) share.
#pragma once

#include "longspan/base/number.h"
#include "longspan/tasks/drawn_task.h"

namespace longspan {

struct SymbolConfig {
  std::size_t length = 0;
  std::size_t symbols = 0;
  std::size_t held_out = 200;

  bool operator==(const SymbolConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("length", length, "Tokens per sequence", from_to(1, 1e7));
    see("symbols", symbols, "Different symbols", from_to(1, 1e6));
    see("held_out", held_out, "Sequences that judge the model", from_to(1, 1e7));
  }
};

class SymbolTask : public DrawnTask {
 public:
  TaskOptions options() const override;
  Criterion criterion() const override { return kByAccuracy; }
  std::string decode(std::span<const std::int32_t> tokens) const override;

 protected:
  SymbolTask(std::string_view name, const SymbolConfig& config);
  const SymbolConfig& config() const { return config_; }

 private:
  std::size_t held_out_examples() const override { return config_.held_out; }

  SymbolConfig config_;
};

}  // namespace longspan
