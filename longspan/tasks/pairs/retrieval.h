// Retrieval of the Long Range Arena: whether two documents belong together, read as bytes. One
// encoder reads each by itself; what it makes of both decides (layers/pair_layers.h).
//
// Drawn (topics.h), or read from lines of two texts and a class (paired_texts.h).
#pragma once

#include "longspan/base/number.h"
#include "longspan/tasks/classes/class_task.h"
#include "longspan/tasks/example_source.h"
#include "longspan/tasks/pairs/topics.h"

namespace longspan {

class RetrievalTask final : public ClassTask {
 public:
  static constexpr std::string_view kName = "retrieval";

  struct Config {
    ExampleSource source;
    std::size_t length = 256;
    std::size_t topics = 8;
    std::size_t planted = 30;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      source.visit(see, "A file or directory of pairs of texts; drawn unless given");
      see("length", length, "Bytes of a document that are read, or drawn at most", from_to(1, 1e7));
      see("topics", topics, "Topics of drawn documents", from_to(2, 1e6));
      see("planted", planted, "Of a hundred words so many are of the topic", from_to(0, 100));
    }
  };

  explicit RetrievalTask(Config config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  std::string_view idle(std::string_view option) const override;
  // Of what was drawn the options say all.
  std::string checksum() const override {
    return config_.source.drawn() ? "" : ClassTask::checksum();
  }
  std::string describe() const override;
  Protocol protocol() const override { return {.steps = 500}; }

 private:
  LabelledSplits read() const override;
  std::size_t parts() const override { return 2; }
  std::size_t vocabulary_size() const override { return 256; }
  std::size_t longest() const override { return config_.length; }

  LabelledSplits draw() const;

  Config config_;
};

}  // namespace longspan
