#include "longspan/io/text_lines.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "longspan/io/file.h"

namespace longspan {

namespace {

constexpr std::size_t kRead = std::size_t{1} << 20U;  // bytes at a time
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::string TextLine::place() const {
  return fmt::format("[{}] {}:{}", who, path->string(), number);
}

void TextLine::fail(const std::string& message) const {
  throw Error(fmt::format("{}: {}", place(), message));
}

void read_lines(std::string_view who, const std::filesystem::path& path,
                const std::function<void(const TextLine&)>& each) {
  const File file(who, path);
  std::string held;  // from the beginning of a line
  TextLine line{.who = who, .path = &path};
  bool any = false;
  const auto give = [&](std::string_view text, std::uint64_t offset) {
    ++line.number;
    line.offset = offset;
    if (offset == 0 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
      line.offset = kByteOrderMark.size();
    }
    if (text.ends_with('\r')) text.remove_suffix(1);
    line.text = text;
    if (text.empty()) return;
    any = true;
    each(line);
  };
  for (std::uint64_t at = 0; at < file.size();) {
    const std::size_t kept = held.size();
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kRead, file.size() - at));
    held.resize(kept + count);
    file.read_at(at, std::as_writable_bytes(std::span(held).subspan(kept)));
    at += count;
    const std::uint64_t first = at - held.size();
    std::size_t begin = 0;
    for (std::size_t end = held.find('\n', kept); end != std::string::npos;
         end = held.find('\n', begin)) {
      const std::string_view text = held;
      give(text.substr(begin, end - begin), first + begin);
      begin = end + 1;
    }
    held.erase(0, begin);
    require(held.size() <= kLongestLine,
            "[{}] {}:{}: a line of more than {} MiB; need shorter ones", who, path.string(),
            line.number + 1, kLongestLine >> 20U);
  }
  if (!held.empty()) give(held, file.size() - held.size());
  require(any, "[{}] {} is empty; need at least one line", who, path.string());
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace longspan
