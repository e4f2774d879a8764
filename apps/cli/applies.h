// Which options of a command mean something: said beside the options, asked once the run is known.
// What was typed and means nothing is refused by name.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "longspan/training/run_directory.h"

namespace longspan::cli {

// When an option means something.
struct Meaning {
  // Why it means nothing to a run, "the model mlp; need decoder"; empty: it does mean something.
  std::function<std::string(const RunConfig&)> idle;
  // Whether a run of the task may have it, so that the task's help shows it.
  std::function<bool(const TaskEntry&)> may = [](const TaskEntry& /*task*/) { return true; };
};

// Where `holds`; `otherwise` says what else there is and what it would need.
Meaning only_where(std::function<bool(const RunConfig&)> holds, std::string otherwise);
// To models of these families.
Meaning only_families(const std::vector<Family>& families);
// "--heads"; CLI11 has no name for an option that help does not show.
std::string flag_of(const CLI::Option& option);
// "a, b or c"
std::string either(const std::vector<std::string_view>& names);

// Where what is chosen, "the optimizer", is of a kind that `reads`.
template <class Enum>
Meaning only_kinds(std::string_view what, std::function<Enum(const RunConfig&)> chosen,
                   const std::function<bool(Enum)>& reads) {
  constexpr auto kNames = names_of(Enum{}).all;
  std::vector<std::string_view> right;
  for (const std::string_view name : kNames) {
    if (reads(*find_named<Enum>(name))) right.push_back(name);
  }
  return {[what, chosen, reads, need = either(right)](const RunConfig& run) {
    const Enum kind = chosen(run);
    return reads(kind) ? "" : fmt::format("the {} {}; need {}", what, name_of(kind), need);
  }};
}

class Applies {
 public:
  // The options must have been added; of several meanings an option needs all.
  void only(CLI::App& command, std::initializer_list<std::string> flags, const Meaning& meaning);
  // Throws Error "[who] --heads with the model mlp; need encoder" for what was typed in vain.
  void check(std::string_view who, const RunConfig& run) const;
  // Help has the options that the task may have; without a task those that every task may have.
  void show(const TaskEntry* task) const;

 private:
  struct Limited {
    CLI::Option* option;
    std::string group;
    Meaning meaning;
  };
  std::vector<Limited> all_;
};

}  // namespace longspan::cli
