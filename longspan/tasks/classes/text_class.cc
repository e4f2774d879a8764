#include "longspan/tasks/classes/text_class.h"

#include <fmt/core.h>

#include <map>

#include "longspan/base/error.h"
#include "longspan/tasks/classes/labelled_texts.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

TaskOptions TextClassTask::options() const { return options_of(config_); }

std::string TextClassTask::describe() const {
  return fmt::format("texts of {} classes, {}", needs().classes, describe_splits());
}

LabelledSplits TextClassTask::read() const {
  constexpr std::size_t kMostClasses = 65536;
  const std::vector<LabelledText> texts = read_labelled_texts(kName, config_.data, config_.length);
  std::map<std::string, std::int32_t> number;
  for (const std::string& label : class_names(texts)) {
    number.emplace(label, static_cast<std::int32_t>(number.size()));
  }
  require(number.size() <= kMostClasses, "[text-class] {} has {} classes; need at most {}",
          config_.data, number.size(), kMostClasses);
  LabelledSplits all;
  for (const LabelledText& t : texts) {
    const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(t.text.data()),
                                              t.text.size());  // NOLINT
    all.next(t.split).add(bytes, number.at(t.label));
  }
  return all;
}

}  // namespace longspan
