#include "compare_make.h"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>

#include "command.h"
#include "longspan/attention/registry.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/compare/compare_pattern.h"
#include "longspan/cost/workload.h"
#include "longspan/kernels/versions.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kPatternTokens = 2048;
constexpr std::size_t kPatternCells = 64;

std::string operating_system() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

// The words that the program was started with; its own path is nobody's business.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  std::string text = "longspan";
  std::size_t first = words.find('\0');
  while (first != std::string::npos && first + 1 < words.size()) {
    const std::size_t end = words.find('\0', first + 1);
    text += " " + words.substr(first + 1, end - first - 1);
    first = end;
  }
  return text;
}

CompareMachine machine() {
  const Machine m = this_machine();
  return {m.cpu, static_cast<std::uint64_t>(sysconf(_SC_NPROCESSORS_ONLN)),
          static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)),
          operating_system(), m.instructions};
}

CompareMechanism mechanism(const std::string& spec, const PlanRequest& request,
                           std::uint64_t longest) {
  const std::string name = spec.substr(0, spec.find(':'));
  const auto all = mechanisms();
  const auto entry = std::ranges::find(all, name, &Mechanism::name);
  const Abilities a = abilities_of(spec);
  CompareMechanism m;
  m.name = m.spec = spec;
  m.kind = name_of(entry->kind);
  m.exact = a.exact;
  m.causal = a.causal;
  m.decode = a.decode;
  m.complexity_time = entry->complexity;
  m.complexity_memory = entry->memory;
  try {
    m.parameters_added = parameters_added({request.settings, spec, longest});
  } catch (const Error&) {  // it cannot do this; the points say why
  }
  if (auto cells = small_pattern(spec, kPatternTokens, kPatternCells, request.settings.causal)) {
    m.pattern = ComparePattern{kPatternCells, kPatternCells, std::move(*cells)};
  }
  return m;
}

}  // namespace

RecordHead record_head() {
  return {fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
          command_line(),
          machine(),
          {LONGSPAN_VERSION, onednn_version(), highway_version(), "g++ " __VERSION__}};
}

CompareRecord make_record(const ComparePlan& plan, const PlanRequest& request,
                          const CompareRoofline& roofline) {
  CompareRecord r;
  static_cast<RecordHead&>(r) = record_head();
  r.settings = request.settings;
  r.lengths = plan.lengths;
  std::ranges::sort(r.lengths);
  r.roofline = roofline;
  for (const std::string& spec : request.attention) {
    r.mechanisms.push_back(mechanism(spec, request, r.lengths.back()));
  }
  return r;
}

std::vector<std::string> attention_list(const std::string& text) {
  std::vector<std::string> specs;
  if (text.empty()) {
    for (const Mechanism& m : mechanisms()) specs.emplace_back(m.name);
    return specs;
  }
  for (const std::string& part : split_list(text, ',')) {
    const bool option = part.find('=') != std::string::npos && part.find(':') == std::string::npos;
    if (option && !specs.empty()) {
      specs.back() += "," + part;
    } else {
      specs.push_back(part);
    }
  }
  for (std::string& spec : specs) {
    if (spec.ends_with(':')) spec.pop_back();  // "flash:" is flash
  }
  std::vector<std::string> once;
  for (const std::string& spec : specs) {
    if (std::ranges::find(once, spec) == once.end()) once.push_back(spec);
  }
  specs = std::move(once);
  require(specs.size() <= kMostMechanisms, "[compare] {} mechanisms; need at most {}", specs.size(),
          kMostMechanisms);
  for (const std::string& spec : specs) {
    require_mechanism("compare", spec);
    abilities_of(spec);  // says what is wrong
  }
  return specs;
}

std::vector<std::uint64_t> length_list(const std::string& text) {
  std::vector<std::uint64_t> lengths;
  for (const std::string& part : split_list(text, ',')) {
    lengths.push_back(
        read_number<std::uint64_t>("compare", "--lengths", part, from_to(1, kLongestCompared)));
  }
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  require(lengths.size() <= kMostLengths, "[compare] --lengths has {}; need at most {}",
          lengths.size(), kMostLengths);
  return lengths;
}

void check_countable(std::string_view who, const CompareSettings& settings, std::uint64_t length) {
  Workload step;
  step.model = CompareCase{settings, "full", length}.model();
  step.batch = settings.batch;
  step.length = length;
  require(fits_counters(step),
          "[{}] {} sequences of {} tokens through {} layers of width {} take more FLOPs than are "
          "counted; need a smaller batch, length or model",
          who, settings.batch, length, settings.layers, settings.d_model);
}

}  // namespace longspan::cli
