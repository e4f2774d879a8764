#include "child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "longspan/base/error.h"
#include "longspan/io/disk_calls.h"
#include "stop.h"

namespace longspan::cli {

namespace {

constexpr std::chrono::milliseconds kGlance{
    100};  // how often signals and the deadline are looked at

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw SystemError(fmt::format("[process] no pipe: {}", std::strerror(errno)));
    }
  }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  for (const std::string& entry : more) {
    const std::string name = entry.substr(0, entry.find('='));
    if (std::getenv(name.c_str()) == nullptr) all.push_back(entry);
  }
  return all;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment) {
  const Pipe down;
  const Pipe up;
  std::vector<std::string> words = {"longspan"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment_with(environment);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(variables);
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ < 0) throw SystemError(fmt::format("[process] no process: {}", std::strerror(errno)));
  if (id_ == 0) {  // only what is safe between fork and exec
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    ignore_stops();
    dup2(down.ends[0], STDIN_FILENO);
    dup2(up.ends[1], STDOUT_FILENO);
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  close(down.ends[0]);
  close(up.ends[1]);
  to_ = down.ends[1];
  from_ = up.ends[0];
}

ChildProcess::~ChildProcess() {
  close(to_);
  close(from_);
  if (id_ > 0) {
    kill(id_, SIGKILL);
    uninterrupted([&] { return waitpid(id_, nullptr, 0); });
  }
}

void ChildProcess::send(const std::string& line) {
  const std::string whole = line + "\n";
  std::size_t sent = 0;
  while (sent < whole.size()) {
    const ssize_t count =
        uninterrupted([&] { return write(to_, whole.data() + sent, whole.size() - sent); });
    if (count < 0) return;  // receive() says what became of it
    sent += static_cast<std::size_t>(count);
  }
}

std::string ChildProcess::receive(Clock::time_point deadline) {
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (StopGuard::signal() != 0) throw Interrupted();
    if (Clock::now() > deadline) throw std::runtime_error("took longer than the budget allows");
    pollfd wait{.fd = from_, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, static_cast<int>(kGlance.count())) <= 0) continue;
    std::array<char, 4096> part{};
    const ssize_t count = uninterrupted([&] { return read(from_, part.data(), part.size()); });
    if (count <= 0) throw_ended();
    buffer_.append(part.data(), static_cast<std::size_t>(count));
  }
}

void ChildProcess::throw_ended() {
  int status = 0;
  uninterrupted([&] { return waitpid(id_, &status, 0); });
  id_ = -1;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    throw std::runtime_error(fmt::format(
        "its process was ended by signal {} ({}){}", number, strsignal(number),
        number == SIGKILL ? ", as the system does to one that takes too much memory" : ""));
  }
  throw std::runtime_error(fmt::format("its process ended with exit code {}", WEXITSTATUS(status)));
}

}  // namespace longspan::cli
