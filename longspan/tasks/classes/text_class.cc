#include "longspan/tasks/classes/text_class.h"

#include <fmt/core.h>

#include <map>

#include "longspan/tasks/classes/labelled_texts.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

TaskOptions TextClassTask::options() const { return options_of(config_); }

std::string TextClassTask::describe() const {
  return fmt::format("texts of {} classes, {}", needs().classes, describe_splits());
}

LabelledSplits TextClassTask::read() const {
  const LabelledTexts found =
      read_labelled_texts(kName, config_.data, config_.length, class_names());
  LabelledSplits all(found.files);
  all.classes = class_names().empty() ? in_order_of_classes(found.labels) : class_names();
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t c = 0; c < all.classes.size(); ++c) {
    numbers[all.classes[c]] = static_cast<std::int32_t>(c);
  }
  for (const LabelledText& t : found.texts) {
    all.next(t.split).add(t.place, t.length,
                          numbers.at(found.labels[static_cast<std::size_t>(t.label)]));
  }
  return all;
}

}  // namespace longspan
