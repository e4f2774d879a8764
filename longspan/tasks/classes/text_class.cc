#include "longspan/tasks/classes/text_class.h"

#include <fmt/core.h>

#include "longspan/tasks/classes/labelled_texts.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

TaskOptions TextClassTask::options() const { return options_of(config_); }

std::string TextClassTask::describe() const {
  return fmt::format("texts of {} classes, {}", needs().classes, describe_splits());
}

LabelledSplits TextClassTask::read() const {
  const LabelledTexts found = read_labelled_texts(kName, config_.data, config_.length);
  const std::vector<std::int32_t> classes = number_classes(found.labels);
  LabelledSplits all(found.files);
  for (const LabelledText& t : found.texts) {
    all.next(t.split).add(t.place, t.length, classes[static_cast<std::size_t>(t.label)]);
  }
  return all;
}

}  // namespace longspan
