#include "longspan/report/page.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/report/html.h"
#include "longspan/report/page_tables.h"

namespace longspan {

namespace {

using Slot = std::string (*)(const CompareRecord&);

std::string embedded_json(const CompareRecord& record) { return script_json(to_json(record)); }

std::string heading(const CompareRecord& record) {
  return escape_html(fmt::format("{} attentions on {}", record.mechanisms.size(),
                                 record.machine.cpu.empty() ? "this machine" : record.machine.cpu));
}

std::string conclusion(const CompareRecord& record) { return escape_html(record.conclusion); }

std::string command(const CompareRecord& record) { return escape_html(record.command); }

const std::map<std::string_view, Slot>& slots() {
  static const std::map<std::string_view, Slot> kSlots = {
      {"heading", &heading},
      {"conclusion", &conclusion},
      {"command", &command},
      {"facts", &facts_list},
      {"time", &time_table},
      {"memory", &memory_table},
      {"error", &error_table},
      {"kinds", &kinds_table},
      {"roofline", &roofline_table},
      {"fusion", &fusion_table},
      {"complexity", &complexity_table},
      {"missing", &missing_table},
      {"machine", &machine_table},
      {"record", &embedded_json},
  };
  return kSlots;
}

constexpr char kTemplate[] =
#include <page_html.inc>
    ;

}  // namespace

std::string_view page_template() { return {kTemplate, sizeof kTemplate - 1}; }

std::string comparison_page(const CompareRecord& record) {
  constexpr std::string_view kOpen = "<!--longspan:";
  constexpr std::string_view kClose = "-->";
  std::string page;
  std::string_view rest = page_template();
  for (std::size_t at = rest.find(kOpen); at != rest.npos; at = rest.find(kOpen)) {
    page += rest.substr(0, at);
    rest.remove_prefix(at + kOpen.size());
    const std::size_t end = rest.find(kClose);
    require(end != rest.npos, "[page] a mark of the template does not end; need '{}'", kClose);
    const auto slot = slots().find(rest.substr(0, end));
    require(slot != slots().end(), "[page] the template asks for '{}', which there is not",
            rest.substr(0, end));
    page += slot->second(record);
    rest.remove_prefix(end + kClose.size());
  }
  return page.append(rest);
}

}  // namespace longspan
