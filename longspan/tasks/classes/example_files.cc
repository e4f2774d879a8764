#include "longspan/tasks/classes/example_files.h"

#include <span>
#include <utility>

#include "longspan/base/error.h"

namespace longspan {

std::uint32_t ExampleFiles::add(std::filesystem::path path, Parse parse) {
  sources_.push_back({std::move(path), parse});
  return static_cast<std::uint32_t>(sources_.size() - 1);
}

void ExampleFiles::read(const FilePlace& place, std::size_t count,
                        std::vector<std::uint8_t>& tokens) {
  const Source& source = sources_.at(place.file);
  if (!open_ || opened_ != place.file) {
    open_.reset();
    open_.emplace(who_, source.path);
    opened_ = place.file;
  }
  held_.resize(place.bytes);
  open_->read_at(place.offset, std::as_writable_bytes(std::span(held_)));
  tokens.clear();
  require(source.parse(held_, tokens) && tokens.size() >= count,
          "[{}] {} is at byte {} no longer what it was; need data that stay as they are", who_,
          source.path.string(), place.offset);
  tokens.resize(count);
}

bool parse_bytes_as_tokens(std::string_view bytes, std::vector<std::uint8_t>& tokens) {
  tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  return true;
}

}  // namespace longspan
