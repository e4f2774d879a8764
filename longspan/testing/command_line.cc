#include "longspan/testing/command_line.h"

#include <gtest/gtest.h>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>

namespace longspan::testing {

namespace {

void redirect(const std::string& path, int descriptor) {
  if (path == kClosed) {
    close(descriptor);
    return;
  }
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, descriptor);
  close(file);
}

void set_environment(const RunOptions& options) {
  for (const char* name : {"COLUMNS", "NO_COLOR"}) unsetenv(name);
  setenv("LC_ALL", "C.UTF-8", 1);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const RunOptions& options) {
  const std::string program = LONGSPAN_BINARY_DIR "/longspan";
  const std::string out = options.out.empty() ? (scratch_ / "out").string() : options.out;
  const std::string err = options.err.empty() ? (scratch_ / "err").string() : options.err;
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  id_ = fork();
  if (id_ != 0) return;
  set_environment(options);
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  if (options.file_limit >= 0) {
    const auto bytes = static_cast<rlim_t>(options.file_limit);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  if (options.memory_limit >= 0) {
    const auto bytes = static_cast<rlim_t>(options.memory_limit);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(126);
  alarm(options.seconds);
  execv(program.c_str(), argv.data());
  _exit(127);
}

void Process::signal(int number) const { kill(id_, number); }

Outcome Process::wait() {
  int status = 0;
  rusage used{};
  wait4(id_, &status, 0, &used);
  Outcome outcome;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  outcome.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_bytes(scratch_ / "out");
  outcome.err = read_bytes(scratch_ / "err");
  return outcome;
}

Outcome longspan(const std::vector<std::string>& arguments, const RunOptions& options) {
  return Process(arguments, options).wait();
}

std::vector<std::string> small_training(const std::string& out,
                                        const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "train",        "text", "--data",  kText,       "--out",   out,         "--steps",  "8",
      "--layers",     "1",    "--heads", "2",         "--batch", "2",         "--length", "8",
      "--eval-every", "0",    "--quiet", "--d-model", "16",      "--threads", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_fits(const std::string& text, std::size_t columns) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // A mark over a letter takes no column: U+0300 to U+036F are the bytes CC and CD and one more.
    const auto letters = std::ranges::count_if(line, [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return (byte & 0xC0U) != 0x80U && byte != 0xCCU && byte != 0xCDU;
    });
    EXPECT_LE(static_cast<std::size_t>(letters), columns) << line;
    EXPECT_FALSE(line.ends_with(' ')) << '"' << line << '"';
  }
}

void expect_wrong_input(const Outcome& outcome, const std::string& sentence) {
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr(sentence));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

}  // namespace longspan::testing
