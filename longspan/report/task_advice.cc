#include "longspan/report/task_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "longspan/base/error.h"
#include "longspan/compare/compare_pattern.h"
#include "longspan/report/compare_summary.h"
#include "longspan/report/quality_summary.h"

namespace longspan {

namespace {

constexpr std::uint64_t kFinestCells = 64;

// In doublings.
double distance(const QualityRecord& r, std::uint64_t length) {
  if (!r.settings.length) return std::numeric_limits<double>::infinity();
  return std::abs(std::log2(static_cast<double>(*r.settings.length) / static_cast<double>(length)));
}

// Whether it sees every token that a mask lets it see; nothing where its pattern is not fixed.
std::optional<bool> sees_all(const std::string& attention, std::uint64_t length, bool causal) {
  const std::uint64_t cells = std::min(length, kFinestCells);
  const auto pattern = small_pattern(attention, length, cells, causal);
  if (!pattern) return std::nullopt;
  for (std::size_t i = 0; i < cells; ++i) {
    for (std::size_t j = 0; j < (causal ? i + 1 : cells); ++j) {
      if ((*pattern)[i][j] == 0) return false;
    }
  }
  return true;
}

// Why what it was judged by says nothing here: it saw all, or may have, and would not here.
std::string seen_text(const std::string& attention, const QualitySettings& s,
                      const NewModel& model) {
  if (sees_all(attention, model.length, model.causal).value_or(true)) return "";
  if (!s.length)
    return "was judged at a length that is not known, and sees part of the tokens here";
  if (!sees_all(attention, *s.length, model.causal).value_or(false)) return "";
  return fmt::format("saw every token where it was judged, n = {}, and would not here",
                     with_commas(*s.length));
}

}  // namespace

QualityRecord record_of_task(std::vector<QualityRecord> records, std::string_view task,
                             std::uint64_t length) {
  std::set<std::string> known;
  for (const QualityRecord& r : records) known.insert(r.settings.task);
  std::erase_if(records, [&](const QualityRecord& r) { return r.settings.task != task; });
  require(!records.empty(),
          "[advise] no record of {}, but of {}; need --records with one of "
          "longspan compare --task {}",
          task, known.empty() ? "nothing" : fmt::format("{}", fmt::join(known, ", ")), task);
  std::ranges::stable_sort(records, {},
                           [&](const QualityRecord& r) { return distance(r, length); });
  QualityRecord record = records.front();
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (trained_alike(record.settings, records[i].settings)) record = merge(record, records[i]);
  }
  return record;
}

std::vector<JudgedMechanism> judged_by(const QualityRecord& record, const NewModel& model) {
  const QualitySettings& s = record.settings;
  const std::vector<Standing> all = standings(record);
  std::vector<JudgedMechanism> judged;
  for (const Standing& standing : all) {
    if (standing.trained == 0) continue;
    JudgedMechanism& m = judged.emplace_back(JudgedMechanism{standing.mechanism, ""});
    const double lost = std::abs(standing.mean - all.front().mean);
    if (standing.failed > 0) {
      m.worse = fmt::format("failed from {} of {} seeds", standing.failed, standing.trials);
    } else if (!standing.as_good && lost > model.within) {
      m.worse = fmt::format("reaches {}, the best {}", quality_text(s, standing.mean),
                            quality_text(s, all.front().mean));
    } else {
      m.worse = seen_text(m.attention, s, model);
    }
  }
  require(!judged.empty(),
          "[advise] nothing was trained in the record of {}; need one with "
          "trials that ended well",
          s.task);
  return judged;
}

}  // namespace longspan
