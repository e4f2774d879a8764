#include "longspan/tasks/token_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/tasks/utf8.h"

namespace longspan {

namespace {

constexpr std::string_view kTokenFile = "text";
constexpr std::size_t kIndexed = 1024;                       // characters with a known beginning
constexpr std::size_t kWholePiece = std::size_t{1} << 20U;   // bytes, where all are read
constexpr std::size_t kWindowPiece = std::size_t{4} * 1024;  // and where a window is

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, std::string_view kind)
    : name_(path.string()), file_(kTokenFile, path) {
  if (kind != "characters") {
    vocabulary_ = Vocabulary::make(kind, name_, {});
    size_ = file_.size();
    return;
  }
  CharacterSet all;
  index_characters([&](std::uint32_t c, std::uint64_t) { all.add(c); });
  vocabulary_ = all.vocabulary(name_);
}

TokenFile::TokenFile(const std::filesystem::path& path, Vocabulary vocabulary)
    : name_(path.string()), file_(kTokenFile, path), vocabulary_(std::move(vocabulary)) {
  if (vocabulary_.code_points().empty()) {
    size_ = file_.size();
    return;
  }
  index_characters([&](std::uint32_t c, std::uint64_t at) { vocabulary_.token_of(name_, c, at); });
}

// Calls see(character, byte) for all from the byte `from` on, until it returns false.
template <class See>
void TokenFile::scan(std::uint64_t from, std::span<char> buffer, See see) const {
  for (std::uint64_t at = from; at < file_.size();) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), file_.size() - at));
    file_.read_at(at, std::as_writable_bytes(buffer.first(count)));
    const std::string_view text(buffer.data(), count);
    const bool last = at + count == file_.size();
    std::size_t i = 0;
    while (i < count && (last || count - i >= kLongestCharacter)) {
      const std::size_t start = i;
      const std::uint32_t c = next_character(text, i);
      require_character(name_, c, at + start);
      if (!see(c, at + start)) return;
    }
    at += i;
  }
}

template <class See>
void TokenFile::index_characters(See see) {
  std::vector<char> buffer(kWholePiece);
  scan(0, buffer, [&](std::uint32_t c, std::uint64_t at) {
    if (size_++ % kIndexed == 0) starts_.push_back(at);
    see(c, at);
    return true;
  });
  if (size_ == file_.size()) starts_ = {};
}

// Calls see(i, token) for the tokens first + i, i below `count`.
template <class See>
void TokenFile::read(std::size_t first, std::size_t count, See see) const {
  require(first <= size_ && count <= size_ - first, "[{}] got tokens {} to {}; need them below {}",
          kTokenFile, first, first + count, size_);
  std::array<char, kWindowPiece> buffer;  // NOLINT(*-member-init): what is read of it was written
  if (vocabulary_.code_points().empty()) {
    for (std::size_t done = 0; done < count;) {
      const std::size_t here = std::min(buffer.size(), count - done);
      file_.read_at(first + done, std::as_writable_bytes(std::span(buffer).first(here)));
      for (std::size_t i = 0; i < here; ++i) {
        see(done + i, std::int32_t{static_cast<unsigned char>(buffer[i])});
      }
      done += here;
    }
    return;
  }
  if (count == 0) return;
  std::size_t skipped = starts_.empty() ? 0 : first % kIndexed;
  std::size_t seen = 0;
  scan(starts_.empty() ? first : starts_[first / kIndexed], buffer,
       [&](std::uint32_t c, std::uint64_t at) {
         if (skipped > 0) {
           --skipped;
           return true;
         }
         see(seen++, vocabulary_.token_of(name_, c, at));
         return seen < count;
       });
  require(seen == count,
          "[{}] {} has other characters than before; need a file that stays as it is", kTokenFile,
          name_);
}

void TokenFile::copy(std::size_t first, std::span<std::int32_t> into) const {
  read(first, into.size(), [&](std::size_t i, std::int32_t token) { into[i] = token; });
}

void TokenFile::copy_with_next(std::size_t first, std::span<std::int32_t> into,
                               std::span<std::int32_t> next) const {
  read(first, into.size() + 1, [&](std::size_t i, std::int32_t token) {
    if (i < into.size()) into[i] = token;
    if (i > 0) next[i - 1] = token;
  });
}

}  // namespace longspan
