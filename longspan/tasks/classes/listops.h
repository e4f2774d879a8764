// ListOps of the Long Range Arena: the value of a nested list (listops_expression.h), one of ten
// classes.
//
// Drawn by the published rules, or read from lines of an expression and its value with a tab
// between, in either order: the tree's parentheses of some files, and a line of titles, are left
// out. A line whose value is not that of its expression is refused. Expressions stay in their files,
// which may be larger than memory (example_files.h).
#pragma once

#include "longspan/base/number.h"
#include "longspan/tasks/classes/class_task.h"
#include "longspan/tasks/example_source.h"

namespace longspan {

class ListOpsTask final : public ClassTask {
 public:
  static constexpr std::string_view kName = "listops";

  struct Config {
    ExampleSource source{.examples = 96000};
    std::size_t length = 2000;
    std::size_t above = 500;
    std::size_t depth = 10;
    std::size_t arguments = 10;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      source.visit(see, "A file or directory of expressions; drawn unless given");
      see("length", length, "Tokens of the longest expression", from_to(1, 1e6));
      see("above", above, "Drawn expressions have more tokens than this", from_to(0, 1e6));
      see("depth", depth, "Depth of drawn expressions", from_to(2, 1000));
      see("arguments", arguments, "Arguments of a drawn operator, at most", from_to(2, 1000));
    }
  };

  explicit ListOpsTask(Config config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  std::string_view idle(std::string_view option) const override;
  // Of what was drawn the options say all.
  std::string checksum() const override {
    return config_.source.drawn() ? "" : ClassTask::checksum();
  }
  std::string describe() const override;

 private:
  LabelledSplits read() const override;
  LabelledSplits draw() const;
  std::size_t vocabulary_size() const override;
  std::size_t class_count() const override { return 10; }
  std::size_t longest() const override { return config_.length; }

  Config config_;
};

}  // namespace longspan
