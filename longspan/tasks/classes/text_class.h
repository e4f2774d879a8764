// The class of a text, read as bytes (the text classification of the Long Range Arena).
//
// Data, in the shapes that people have them:
//   a directory of directories   one per class, a text in every file; or train/ and test/ of such
//   lines of JSON                {"text": …, "label": …}, and perhaps "fold" or "split"
//   lines with a tab             label and text; below a line of titles that has "label" and "text"
//                                they are these columns, in any order and among others
// What is hidden, its name beginning with a dot, is none of them.
// Texts stay in their files, which may be larger than memory (example_files.h).
// Classes are sorted by name, numbers by value; other data than a model was trained on have its
// classes by their names. Of folds the last fifth is for testing and the tenth before it for
// validation, at least one each but of two; where nothing is said about splits, of every ten
// examples one is for each.
#pragma once

#include "longspan/base/number.h"
#include "longspan/tasks/classes/class_task.h"

namespace longspan {

class TextClassTask final : public ClassTask {
 public:
  static constexpr std::string_view kName = "text-class";

  struct Config {
    std::string data;
    std::size_t length = 1024;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("data", data, "A file of labelled texts, or a directory");
      see("length", length, "Bytes of a text that are read", from_to(1, 1e7));
    }
  };

  explicit TextClassTask(Config config) : config_(std::move(config)) {}

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  bool needs_data() const override { return true; }
  std::string describe() const override;

 private:
  LabelledSplits read() const override;
  std::size_t vocabulary_size() const override { return 256; }
  std::size_t longest() const override { return config_.length; }

  Config config_;
};

}  // namespace longspan
