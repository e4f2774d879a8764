#include "longspan/testing/command_line.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace longspan::testing {

namespace {

void redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, descriptor);
  close(file);
}

}  // namespace

Scratch::Scratch() {
  std::string pattern = (std::filesystem::temp_directory_path() / "longspan-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
  root_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

Process::Process(const std::vector<std::string>& arguments, const RunOptions& options) {
  const std::string program = LONGSPAN_BINARY_DIR "/longspan";
  const std::string out = scratch_.path("out");
  const std::string err = scratch_.path("err");
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  id_ = fork();
  if (id_ != 0) return;
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  if (options.file_limit >= 0) {
    const auto bytes = static_cast<rlim_t>(options.file_limit);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  execv(program.c_str(), argv.data());
  _exit(127);
}

void Process::signal(int number) const { kill(id_, number); }

Outcome Process::wait() {
  int status = 0;
  waitpid(id_, &status, 0);
  Outcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_all(scratch_.path("out"));
  outcome.err = read_all(scratch_.path("err"));
  return outcome;
}

Outcome longspan(const std::vector<std::string>& arguments, const RunOptions& options) {
  return Process(arguments, options).wait();
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace longspan::testing
