#include "longspan/tasks/registry.h"

#include <algorithm>
#include <array>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/tasks/classes/listops.h"
#include "longspan/tasks/classes/pathfinder.h"
#include "longspan/tasks/classes/pixels.h"
#include "longspan/tasks/classes/text_class.h"
#include "longspan/tasks/copy.h"
#include "longspan/tasks/events/events.h"
#include "longspan/tasks/image_task.h"
#include "longspan/tasks/masked_text.h"
#include "longspan/tasks/pairs/retrieval.h"
#include "longspan/tasks/pairs/translate.h"
#include "longspan/tasks/recall.h"
#include "longspan/tasks/reverse.h"
#include "longspan/tasks/text_task.h"

namespace longspan {

namespace {

template <class Kind>
std::unique_ptr<Task> make(const TaskOptions& options) {
  return std::make_unique<Kind>(config_from<typename Kind::Config>(Kind::kName, options));
}

template <class Kind>
constexpr TaskEntry entry(std::string_view summary) {
  return {Kind::kName, summary, &describe_options<typename Kind::Config>, &make<Kind>};
}

constexpr std::array kTasks{
    entry<TextTask>("next-token prediction on a text file, by bytes or characters"),
    entry<MaskedTextTask>("hidden tokens of a text: masked language modelling"),
    entry<ImageTask>("the class of a grey image: MNIST, or what has its format"),
    entry<ListOpsTask>("the value of a nested list: ListOps of the Long Range Arena"),
    entry<TextClassTask>("the class of a text, read as bytes: reviews, topics, languages"),
    entry<RetrievalTask>("whether two documents belong together, each read by itself as bytes"),
    entry<PixelTask>("the class of an image from its pixels one by one: MNIST, CIFAR-10"),
    entry<PathfinderTask>("whether two marks are the ends of one dashed path, from pixels"),
    entry<CopyTask>("a random sequence written twice: the second half from the first"),
    entry<RecallTask>("the value of a key seen before: multi-query associative recall"),
    entry<ReverseTask>("a random sequence backwards, by an encoder and a decoder"),
    entry<TranslateTask>("one text from another: pairs of a file, dates, words sorted or reversed"),
    entry<EventsTask>("when the next event comes and of which type: a point process in time"),
};

}  // namespace

bool TaskEntry::has_option(std::string_view option) const {
  return std::ranges::any_of(options(), [&](const TaskOption& o) { return o.name == option; });
}

std::span<const TaskEntry> tasks() { return kTasks; }

const TaskEntry& find_task(std::string_view name) {
  const auto* const found = std::ranges::find(kTasks, name, &TaskEntry::name);
  if (found != kTasks.end()) return *found;
  std::vector<std::string_view> known;
  known.reserve(kTasks.size());
  for (const TaskEntry& task : kTasks) known.push_back(task.name);
  throw_unknown("task", "task", name, known);
}

}  // namespace longspan
