// What tasks share that ask for the class of a sequence, or of two: an encoder reads each, the means
// of its outputs over the real tokens decide.
//
// Batches of training have sequences of nearly one length (bucketed.h), and so have those of an
// evaluation. Judged by cross-entropy and by the share of right answers, beside the share of the
// class that is most common in training, and class by class.
#pragma once

#include <optional>

#include "longspan/tasks/classes/bucketed.h"
#include "longspan/tasks/classes/labelled.h"
#include "longspan/tasks/task.h"

namespace longspan {

struct LabelledSplits {
  // `parts`: sequences of an example.
  explicit LabelledSplits(std::size_t parts = 1)
      : training(parts), validation(parts), test(parts) {}
  // Of what stays in its files.
  explicit LabelledSplits(const std::shared_ptr<ExampleFiles>& files)
      : training(files), validation(files), test(files) {}

  Labelled training;
  Labelled validation;
  Labelled test;
  std::vector<std::string> classes;  // their names, where the data have them

  // Where the next example belongs: to its split, or, where that is not said, the last two of every
  // ten to validation and test.
  Labelled& next(std::optional<Split> split = {});

 private:
  std::size_t added_ = 0;
};

class ClassTask : public Task {
 public:
  std::vector<Family> families() const override { return {Family::kEncoder}; }
  void open() override;
  Criterion criterion() const override { return kByAccuracy; }
  std::string checksum() const override;
  std::vector<std::string> class_names() const override { return names_; }
  void use_classes(std::vector<std::string> names) override { names_ = std::move(names); }
  ModelNeeds needs() const override;
  std::size_t examples(Split split) const override;
  Split held_out() const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  void arrange(Split split, std::size_t count) override;
  std::size_t arranged(std::size_t place) const override { return arranged_[place]; }
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  std::size_t units(const Batch& batch) const override;
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
  Judgement judge(Split split, const Tally& tally) const override;

 protected:
  bool opened() const { return splits_.has_value(); }
  const LabelledSplits& splits() const { return *splits_; }
  // "12 to 480 tokens, 96000 to train, 2000 to validate, 2000 to test"
  std::string describe_splits() const;

 private:
  virtual LabelledSplits read() const = 0;
  // Sequences of an example, one or two.
  virtual std::size_t parts() const { return 1; }
  virtual std::size_t vocabulary_size() const = 0;
  // As many as have names, or as the labels of the data say.
  virtual std::size_t class_count() const { return names_.empty() ? classes_ : names_.size(); }
  virtual std::size_t longest() const = 0;  // tokens that a model must take

  struct Example {
    const Labelled* set = nullptr;
    std::size_t at = 0;  // in it
    std::size_t length() const { return set->length(at); }
  };
  // The sets of a split, which come one behind the other.
  std::vector<const Labelled*> sets(Split split) const;
  Example example(Split split, std::size_t at) const;
  // "'cat'", or its number where it has no name.
  std::string class_text(std::int32_t label) const;
  // Of drawn_.
  Batch fill(BatchMemory& memory);
  // Of the class that is most common in training.
  double majority(Split split) const;

  std::optional<LabelledSplits> splits_;
  std::vector<std::string> names_;  // of the classes
  std::size_t classes_ = 0;
  Bucketed bucketed_;
  // The examples of an evaluation by rising length.
  Split arranged_split_ = Split::kAll;
  std::vector<std::uint32_t> arranged_;
  // Of the batch that is being made, and of the row.
  std::vector<Example> drawn_;
  std::vector<std::uint8_t> tokens_;
};

}  // namespace longspan
