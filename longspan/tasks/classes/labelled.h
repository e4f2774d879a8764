// Examples of one sequence of bytes, or of two, with a class each: one behind the other in memory,
// or left in their files (example_files.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "longspan/io/checksum.h"
#include "longspan/tasks/classes/example_files.h"

namespace longspan {

class Labelled {
 public:
  // `parts`: sequences of an example.
  explicit Labelled(std::size_t parts = 1) : parts_(parts) {}
  // Of one sequence each, which stays in its file.
  explicit Labelled(std::shared_ptr<ExampleFiles> files) : files_(std::move(files)) {}

  // Of one sequence, and of two.
  void add(std::span<const std::uint8_t> tokens, std::int32_t label);
  void add(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second,
           std::int32_t label);
  // The first `length` tokens of what lies in one of the files.
  void add(const FilePlace& place, std::size_t length, std::int32_t label);

  std::size_t parts() const { return parts_; }
  std::size_t size() const { return labels_.size(); }
  // Replaces `tokens` by those of a sequence of an example. Throws Error where its file has changed.
  void read(std::size_t i, std::size_t part, std::vector<std::uint8_t>& tokens) const;
  // Of the longest of its sequences.
  std::size_t length(std::size_t i) const;
  std::int32_t label(std::size_t i) const { return labels_[i]; }
  std::span<const std::int32_t> labels() const { return labels_; }
  std::size_t longest() const;

  void add_to(Checksum& checksum) const;

 private:
  void add_part(std::span<const std::uint8_t> tokens);
  std::size_t length_at(std::size_t sequence) const {
    return ends_[sequence + 1] - ends_[sequence];
  }

  std::size_t parts_ = 1;
  std::shared_ptr<ExampleFiles> files_;
  std::vector<FilePlace> places_;  // where there are files
  std::vector<std::uint8_t> tokens_;
  std::vector<std::uint64_t> ends_ = {0};  // of each sequence, behind a zero
  std::vector<std::int32_t> labels_;
};

}  // namespace longspan
