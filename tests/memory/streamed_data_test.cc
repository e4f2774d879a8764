// Data larger than the memory that there is: each task in a process that may have a third of its
// file more than it had, and a whole run whose memory is measured.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <string>

#include "longspan/base/memory.h"
#include "longspan/base/random.h"
#include "longspan/base/resident.h"
#include "longspan/tasks/registry.h"
#include "longspan/testing/temporary_directory.h"
#include "longspan/training/training_run.h"

namespace longspan {
namespace streamed_data_test {

using testing::TemporaryDirectory;

constexpr std::size_t kFile = std::size_t{72} << 20U;
constexpr std::size_t kAllowed = kFile / 3;

// Until the file is large enough, what `next` adds.
void write_large(const std::filesystem::path& path,
                 const std::function<void(std::size_t, std::string&)>& next) {
  std::ofstream file(path, std::ios::binary);
  std::string piece;
  for (std::size_t i = 0, written = 0; written < kFile; written += piece.size()) {
    piece.clear();
    while (piece.size() < (std::size_t{1} << 20U)) next(i++, piece);
    file << piece;
  }
}

void write_text(const std::filesystem::path& path) {
  write_large(path, [](std::size_t i, std::string& to) {
    to += i % 7 == 0 ? "né € " : "a long line of words ";
    to += static_cast<char>('a' + random_below(1, i, 26));
  });
}

void write_reviews(const std::filesystem::path& path) {
  write_large(path, [](std::size_t i, std::string& to) {
    to += "{\"label\": " + std::to_string(i % 2) + ", \"text\": \"" +
          std::string(3000 + random_below(2, i, 2000), static_cast<char>('a' + i % 26)) + "\"}\n";
  });
}

void write_lists(const std::filesystem::path& path) {
  write_large(path, [](std::size_t i, std::string& to) {
    const char most = static_cast<char>('1' + i % 9);
    to += std::string(1, most) + "\t[MAX";
    for (std::size_t k = 0; k < 1500; ++k) to += " 0";
    to += std::string(" ") + most + " ]\n";
  });
}

// What the process has of addresses.
std::size_t virtual_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

enum Ending { kWell = 0, kNoMemory = 3, kOther = 4 };

int ending_of(const std::function<void()>& call) {
  const pid_t child = fork();
  if (child == 0) {
    int ending = kWell;
    try {
      call();
    } catch (const std::bad_alloc&) {
      ending = kNoMemory;
    } catch (...) {
      ending = kOther;
    }
    _exit(ending);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int ending_in_little_memory(const std::function<void()>& call) {
  return ending_of([&] {
    const rlim_t most = virtual_bytes() + kAllowed;
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) _exit(kOther);
    call();
  });
}

void use(const std::string& task, const TaskOptions& options) {
  const std::unique_ptr<Task> made = find_task(task).make(options);
  made->open();
  BatchMemory memory;
  for (std::uint64_t step = 0; step < 20; ++step) made->training_batch(1, step, 8, memory);
  const Split split = made->held_out();
  const std::size_t count = made->examples(split);
  made->arrange(split, count);
  for (std::size_t i = 0; i < 20; ++i)
    made->batch(split, {.first = count / 20 * i, .count = 1}, memory);
  if (made->checksum().empty()) throw std::runtime_error("no checksum");
}

TEST(StreamedData, NeedsLessMemoryThanItsFile) {
  const TemporaryDirectory scratch;
  const std::string text = (scratch / "text").string();
  const std::string reviews = (scratch / "reviews.jsonl").string();
  const std::string lists = (scratch / "lists.tsv").string();
  write_text(text);
  write_reviews(reviews);
  write_lists(lists);
  EXPECT_EQ(ending_in_little_memory([] {
              const auto whole = std::make_unique<char[]>(kFile);
              whole[0] = 1;
              if (whole[0] != 1) _exit(kOther);
            }),
            kNoMemory)
      << "the limit holds";
  for (const char* task : {"text", "mlm"}) {
    for (const char* vocabulary : {"bytes", "characters"}) {
      const TaskOptions options = {{"data", text}, {"vocabulary", vocabulary}, {"length", "128"}};
      EXPECT_EQ(ending_in_little_memory([&] { use(task, options); }), kWell)
          << task << " of " << vocabulary;
    }
  }
  EXPECT_EQ(ending_in_little_memory([&] {
              use("text-class", {{"data", reviews}, {"length", "4000"}});
            }),
            kWell);
  EXPECT_EQ(ending_in_little_memory([&] { use("listops", {{"data", lists}}); }), kWell);
}

TEST(StreamedData, TrainsAndIsJudgedInLessThanItsFile) {
  const TemporaryDirectory scratch;
  const std::string text = (scratch / "text").string();
  write_text(text);
  EXPECT_EQ(ending_of([&] {
              const std::size_t before = resident_bytes();
              TrainingOptions o;
              o.out = (scratch / "run").string();
              o.run.options = {{"data", text}, {"length", "32"}};
              o.run.data.batch = 4;
              o.run.model.layers = 1;
              o.run.model.d_model = 16;
              o.run.model.heads = 2;
              o.run.course = {.steps = 4, .eval_every = 2, .eval_examples = 10};
              TrainingObserver quiet;
              TrainingRun run(o);
              const TrainingResult result = run.run(quiet);
              if (result.judged.size() != 2) _exit(kOther);
              if (peak_resident_bytes() - before > kFile / 2) _exit(kNoMemory);
            }),
            kWell);
}

}  // namespace streamed_data_test
}  // namespace longspan
