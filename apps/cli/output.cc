#include "output.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "command.h"
#include "longspan/io/disk_calls.h"
#include "longspan/io/file.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr int kReaderGone = 128 + SIGPIPE;  // as a shell says it

// A stream that was closed would be given to the first file that is opened, and what is meant for
// the stream would end up in a checkpoint.
void hold_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // Results that have nowhere to go are lost, and noticed; notes are not missed.
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    [[maybe_unused]] const int opened = ::open("/dev/null", mode);
  }
}

// The error that kept it from writing all of them, or 0.
int write_all(int stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        uninterrupted([&] { return ::write(stream, bytes.data(), bytes.size()); });
    if (wrote <= 0) return wrote < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

// How much of the text has no letter at its end whose last bytes are still to come.
std::size_t whole_letters(std::string_view text) {
  for (std::size_t tail = 1; tail <= std::min<std::size_t>(3, text.size()); ++tail) {
    const auto byte = static_cast<unsigned char>(text[text.size() - tail]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t size = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return size > tail ? text.size() - tail : text.size();
  }
  return text.size();
}

// A stream that puts signs into ASCII.
struct AsciiStream {
  int stream;
  bool verbatim = false;
  std::string rest = {};  // the beginning of a letter

  int write(std::string_view bytes) {
    if (verbatim) return write_all(stream, bytes);
    rest += bytes;
    const std::size_t whole = whole_letters(rest);
    const std::string text = in_ascii(rest.substr(0, whole));
    rest.erase(0, whole);
    return write_all(stream, text);
  }
};
AsciiStream& results() {
  static AsciiStream stream{STDOUT_FILENO};
  return stream;
}
AsciiStream& notes() {
  static AsciiStream stream{STDERR_FILENO, has_unicode()};
  return stream;
}

// Never fails, so that nobody who writes a note has to think of it.
ssize_t write_note(void* /*cookie*/, const char* bytes, std::size_t size) {
  notes().write({bytes, size});
  return static_cast<ssize_t>(size);
}

ssize_t write_result(void* /*cookie*/, const char* bytes, std::size_t size) {
  const int error = results().write({bytes, size});
  if (error == 0) return static_cast<ssize_t>(size);
  errno = error;
  return 0;
}

void open_stream(std::FILE*& stream, cookie_write_function_t* write, int buffering) {
  cookie_io_functions_t functions{};
  functions.write = write;
  std::FILE* const opened = ::fopencookie(nullptr, "w", functions);
  if (opened == nullptr) return;
  std::setvbuf(opened, nullptr, buffering, BUFSIZ);
  stream = opened;
}

int first_error = 0;  // NOLINT: of standard output; there is one, and it is everybody's

int output_error() {
  if (first_error != 0) return first_error;
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (failed) first_error = errno != 0 ? errno : EIO;
  return first_error;
}

}  // namespace

void prepare_streams() {
  hold_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error of the write
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that may not grow
  open_stream(stderr, write_note, _IONBF);
  if (!has_unicode()) {
    open_stream(stdout, write_result, ::isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF);
  }
}

void print_verbatim() {
  if (output_error() == 0) results().verbatim = true;
}

void flush_output() {
  if (output_error() != 0) throw OutputLost();
}

bool lost_output(const std::system_error& thrown) {
  if (std::ferror(stdout) == 0) return false;
  if (first_error == 0) first_error = thrown.code().value();
  return true;
}

int finish_output(int status) {
  const int error = output_error();
  if (error == 0) return status;
  if (error == EPIPE) return status == 0 ? kReaderGone : status;
  fmt::print(stderr, "longspan: [output] standard output could not be written: {}\n",
             reason(error));
  return status == 0 ? 1 : status;
}

}  // namespace longspan::cli
