#include "longspan/io/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::size_t kPacked = std::size_t{64} << 10U;  // bytes of the file at a time

}  // namespace

struct GzipFile::State {
  State() {
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&stream, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~State() { ::inflateEnd(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  z_stream stream{};
};

GzipFile::GzipFile(std::string_view who, const std::filesystem::path& path)
    : who_(who), file_(who, path), held_(kPacked), state_(std::make_unique<State>()) {}

GzipFile::~GzipFile() = default;

std::size_t GzipFile::inflate_into(std::span<std::byte> into) {
  z_stream& s = state_->stream;
  std::size_t done = 0;
  while (done < into.size() && !ended_) {
    if (s.avail_in == 0) {
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(kPacked, file_.size() - taken_));
      require(count > 0, "[{}] {}: ends within what is packed; the file is truncated", who_,
              file_.path().string());
      file_.read_at(taken_, std::span(held_).first(count));
      taken_ += count;
      s.next_in = reinterpret_cast<Bytef*>(held_.data());  // NOLINT
      s.avail_in = static_cast<uInt>(count);
    }
    const std::size_t room = std::min<std::size_t>(into.size() - done, std::size_t{1} << 30U);
    s.next_out = reinterpret_cast<Bytef*>(into.data() + done);  // NOLINT
    s.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&s, Z_NO_FLUSH);
    done += room - s.avail_out;
    ended_ = result == Z_STREAM_END;
    require(ended_ || result == Z_OK || result == Z_BUF_ERROR, "[{}] {}: {}; need a gzip file",
            who_, file_.path().string(), s.msg == nullptr ? "is damaged" : s.msg);
  }
  return done;
}

void GzipFile::read(std::span<std::byte> into) {
  const std::size_t got = inflate_into(into);
  require(got == into.size(), "[{}] {}: ends after what is packed; need {} bytes more", who_,
          file_.path().string(), into.size() - got);
}

void GzipFile::require_end() {
  std::array<std::byte, 1> more{};
  const bool none = inflate_into(more) == 0;
  require(none && state_->stream.avail_in == 0 && taken_ == file_.size(),
          "[{}] {}: more bytes than its shape needs", who_, file_.path().string());
}

}  // namespace longspan
