#include "longspan/tasks/classes/pathfinder.h"

#include "longspan/base/error.h"
#include "longspan/tasks/classes/path_files.h"
#include "longspan/tasks/classes/path_picture.h"
#include "longspan/tasks/classes/pixels.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

PathfinderTask::PathfinderTask(Config config) : config_(std::move(config)) {
  check_numbers(kName, config_);
}

TaskOptions PathfinderTask::options() const { return options_of(config_); }

std::string_view PathfinderTask::idle(std::string_view option) const {
  return config_.source.idle(option, {});
}

void PathfinderTask::open() {
  ClassTask::open();
  check_size(kName, trained_, size());
}

std::string PathfinderTask::describe() const { return "dashed paths, " + describe_splits(); }

LabelledSplits PathfinderTask::read() const {
  if (has_path_files(config_.source.data)) return read_path_files(config_.source.data);
  if (!config_.source.drawn()) {
    LabelledSplits all = read_pixels(config_.source.data);
    for (const Labelled* set : {&all.training, &all.validation, &all.test}) {
      for (const std::int32_t label : set->labels()) {
        require(label < 2, "[pathfinder] {} has the label {}; need 0 and 1", config_.source.data,
                label);
      }
    }
    return all;
  }
  const PathRules rules{config_.side, config_.dashes, config_.distractors};
  const RandomKey key = derive(config_.source.data_seed, kName);
  LabelledSplits all;
  std::uint64_t index = 0;
  const auto draw = [&](std::size_t count, Labelled& to) {
    while (to.size() < count) {
      const PathPicture picture = draw_paths(derive(key, index++), rules);
      to.add(picture.pixels, picture.connected);
    }
  };
  draw(config_.source.held_out, all.test);
  draw(config_.source.held_out, all.validation);
  draw(config_.source.examples, all.training);
  return all;
}

}  // namespace longspan
