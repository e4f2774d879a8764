#include "output.h"

#include <fmt/core.h>

#include <csignal>
#include <cstdio>

#include "command.h"
#include "longspan/io/disk_calls.h"
#include "longspan/io/file.h"

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

// Never fails, so that nobody who writes a note has to think of it.
ssize_t write_note(void* /*cookie*/, const char* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t wrote =
        uninterrupted([&] { return ::write(STDERR_FILENO, bytes + done, size - done); });
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  return static_cast<ssize_t>(size);
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
  cookie_io_functions_t functions{};
  functions.write = write_note;
  if (std::FILE* const notes = ::fopencookie(nullptr, "w", functions); notes != nullptr) {
    std::setvbuf(notes, nullptr, _IONBF, 0);
    stderr = notes;
  }
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
