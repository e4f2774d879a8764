// Sequences of bytes with a class each: one behind the other in memory, or left in their files
// (example_files.h).
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
  Labelled() = default;
  // Of what stays in its files.
  explicit Labelled(std::shared_ptr<ExampleFiles> files) : files_(std::move(files)) {}

  void add(std::span<const std::uint8_t> tokens, std::int32_t label);
  // The first `length` tokens of what lies in one of the files.
  void add(const FilePlace& place, std::size_t length, std::int32_t label);

  std::size_t size() const { return labels_.size(); }
  // Replaces `tokens` by those of a sequence. Throws Error where its file has changed.
  void read(std::size_t i, std::vector<std::uint8_t>& tokens) const;
  std::size_t length(std::size_t i) const { return ends_[i + 1] - ends_[i]; }
  std::int32_t label(std::size_t i) const { return labels_[i]; }
  std::span<const std::int32_t> labels() const { return labels_; }
  std::size_t longest() const;

  void add_to(Checksum& checksum) const;

 private:
  std::shared_ptr<ExampleFiles> files_;
  std::vector<FilePlace> places_;  // where there are files
  std::vector<std::uint8_t> tokens_;
  std::vector<std::uint64_t> ends_ = {0};  // of each sequence, behind a zero
  std::vector<std::int32_t> labels_;
};

}  // namespace longspan
