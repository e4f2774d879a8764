// The stages of an encoder as flags, wherever a model is described.
#pragma once

#include <optional>
#include <string>

#include "command.h"
#include "longspan/models/config.h"

namespace longspan::cli {

class StageFlags {
 public:
  // The object must outlive the command line.
  void add(CLI::App& command, const std::string& group);
  // What was given takes the place of the model's own.
  void set(ModelConfig& model) const;

 private:
  std::optional<std::string> stages_;
  std::optional<Choice<StagePool>> pool_;
  bool no_cls_ = false;
  bool no_truncate_ = false;
  bool pooled_keys_ = false;
};

}  // namespace longspan::cli
