#include "longspan/report/quality_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "longspan/base/number.h"
#include "longspan/report/csv.h"
#include "longspan/report/html.h"

namespace longspan {

namespace {

constexpr std::size_t kGap = 2;

using Row = std::vector<std::string>;

// Names on the left, numbers on the right; columns that do not fit are left out from the last on.
std::string laid_out(const std::vector<Row>& rows, std::size_t width) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], text_columns(row[i]));
    }
  }
  std::size_t shown = 1;
  for (std::size_t taken = widths[0]; shown < widths.size(); ++shown) {
    taken += kGap + widths[shown];
    if (taken > width) break;
  }
  std::string text;
  for (const Row& row : rows) {
    text += row[0] + std::string(widths[0] - text_columns(row[0]), ' ');
    for (std::size_t i = 1; i < shown; ++i) {
      text += std::string(kGap + widths[i] - text_columns(row[i]), ' ') + row[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string options_text(const QualitySettings& s) {
  std::string text;
  for (const auto& [name, value] : s.options) {
    std::string flag = name;  // as it is typed
    std::ranges::replace(flag, '_', '-');
    if (!value.empty()) text += fmt::format("{}{}={}", text.empty() ? ":" : ",", flag, value);
  }
  return text;
}

}  // namespace

std::string protocol_text(const QualityRecord& r) {
  const QualitySettings& s = r.settings;
  return fmt::format("{}{}: {} of width {}{}, {} steps of {} sequences, {} on {}", s.task,
                     options_text(s), counted(s.layers, "layer"), s.d_model,
                     s.before.empty() ? "" : ", " + s.before + " in turn with the mechanism",
                     s.steps, s.batch, counted(s.threads, "thread"), r.machine.cpu);
}

std::string spread_text(const QualitySettings& s, const Standing& standing) {
  if (standing.trained < 2) return "";
  return fmt::format("{} to {}", quality_text(s, standing.worst), quality_text(s, standing.best));
}

std::string quality_table(const QualityRecord& r, std::size_t width) {
  const QualitySettings& s = r.settings;
  std::string text = wrapped(protocol_text(r), width);
  text += '\n';
  const std::vector<Standing> all = standings(r);
  // Where they differ, before what a narrow terminal leaves out.
  const bool seeds_first = seeds_text(all).find(" to ") != std::string::npos;
  const auto row = [&](Row cells, const std::string& seeds) {
    cells.insert(seeds_first ? cells.begin() + 2 : cells.end(), seeds);
    return cells;
  };
  std::vector<Row> rows = {
      row({"", s.metric, "worst to best", "a step", "memory", "state"}, "seeds")};
  std::string failed;
  for (const Standing& standing : all) {
    const std::size_t missing = standing.trials - standing.trained;
    if (missing > 0) {
      const std::string seeds = standing.trained == 0
                                    ? std::string()
                                    : fmt::format(", {} of {} seeds", missing, standing.trials);
      failed += wrapped(fmt::format("{}{}: {}", standing.mechanism, seeds, standing.reason), width);
    }
    if (standing.trained == 0) continue;
    rows.push_back(
        row({standing.mechanism + (standing.on_front ? " *" : ""), quality_text(s, standing.mean),
             spread_text(s, standing), seconds_text(standing.step_seconds),
             bytes_text(standing.memory), standing.state ? bytes_text(*standing.state) : "–"},
            missing == 0 ? fmt::format("{}", standing.trained)
                         : fmt::format("{} of {}", standing.trained, standing.trials)));
  }
  const std::optional<double> guess = guess_of(r);
  if (guess && rows.size() > 1) {
    rows.push_back(row({"guessing", quality_text(s, *guess), "", "", "", ""}, ""));
  }
  if (rows.size() > 1) {
    text += laid_out(rows, width);
    text += wrapped(
        "* nothing at least as good takes less time; state: bytes that are kept of a sequence "
        "while it is decoded",
        width);
  }
  if (!failed.empty()) text += "\nnot trained:\n" + failed;
  return text + '\n' + wrapped(r.conclusion + '.', width);
}

std::string quality_csv(const QualityRecord& r) {
  std::string text =
      "mechanism,seed,status,quality,loss,step_seconds,seconds,memory,state,reason\n";
  for (const QualityTrial& t : r.trials) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", csv_text(t.mechanism), t.seed,
                        t.status.name(), csv_number(t.quality), csv_number(t.loss),
                        csv_number(t.step_seconds), csv_number(t.seconds), csv_number(t.memory),
                        csv_number(t.state), csv_text(t.reason));
  }
  return text;
}

std::string quality_against(const QualityRecord& here, const QualityRecord& there,
                            std::size_t width) {
  const std::string unlike = unlike_text(here.settings, there.settings);
  const std::string note =
      unlike.empty() ? "" : wrapped("not trained alike, here and there: " + unlike, width);
  std::vector<Row> rows = {
      {"against " + there.machine.cpu, here.settings.metric, "there", "a step", "there"}};
  const std::vector<Standing> others = standings(there);
  for (const Standing& own : standings(here)) {
    const auto other = std::ranges::find(others, own.mechanism, &Standing::mechanism);
    if (own.trained == 0 || other == others.end() || other->trained == 0) continue;
    rows.push_back({own.mechanism, quality_text(here.settings, own.mean),
                    quality_text(there.settings, other->mean), seconds_text(own.step_seconds),
                    seconds_text(other->step_seconds)});
  }
  return rows.size() == 1 ? "no mechanism was trained in both\n" : laid_out(rows, width) + note;
}

}  // namespace longspan
