// longspan cost --solve: how long, how many, how wide within a budget; which mechanism from where.
#include <fmt/core.h>

#include "cost.h"
#include "json_writer.h"
#include "longspan/base/config.h"
#include "longspan/base/memory.h"
#include "longspan/cost/solve.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr const char* kResident = "resident";

SolveFor quantity(const std::string& name) {
  std::vector<std::string_view> known = {"crossovers"};
  for (const SolveFor what : kSolveFor) {
    if (name_of(what) == name) return what;
    known.push_back(name_of(what));
  }
  throw_unknown("cost", "quantity to solve for", name, known);
}

void check_free(const ModelOptions& o, SolveFor what) {
  const auto refuse = [&](bool given, const char* flag) {
    require(!given, "[cost] {} and --solve {}; need one or the other", flag, name_of(what));
  };
  if (what == SolveFor::kLength) refuse(o.length.has_value(), "--length");
  if (what == SolveFor::kBatch) refuse(o.batch.has_value(), "--batch");
  if (what != SolveFor::kWidth) refuse(!o.lengths.empty(), "--lengths");
}

SolveQuestion question_from(const CostOptions& o) {
  SolveQuestion q;
  q.what = quantity(o.solve.what);
  check_free(o.model, q.what);
  ModelOptions model = o.model;
  if (q.what == SolveFor::kLength) {
    model.length = 1;
    q.target_follows = !model.target_length.has_value();
    if (q.target_follows && model.decoder_layers) model.target_length = 1;
    q.most_positions = model.max_length;
  }
  q.workload = workload_from(model);
  check_error_space(o, q.workload);
  q.terms = {.inference = o.solve.inference,
             .element = element_type(o.dtype),
             .optimizer = o.optimizer,
             .rule = rule_from(o.rule),
             .rule_terms = o.terms};
  q.terms.tokens = o.tokens;
  return q;
}

std::string use_of(const SolveTerms& terms) {
  if (terms.inference) return terms.tokens ? "inference" : "a forward pass";
  return terms.tokens ? "training" : "a training step";
}

std::string counted(SolveFor what, std::size_t value) {
  const std::string number = to_grouped_decimal(static_cast<Integer>(value));
  const char* plural = value == 1 ? "" : "s";
  switch (what) {
    case SolveFor::kLength:
      return fmt::format("{} token{}", number, plural);
    case SolveFor::kBatch:
      return fmt::format("{} sequence{}", number, plural);
    case SolveFor::kWidth:
      break;
  }
  return fmt::format("width {}", number);
}

std::string bytes_text(Integer bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

// "17,179,869,184 bytes (16.0 GiB)", "1,000 FLOPs (1.000 k)"
std::string need_text(const Need& need, const SolveBudget& budget) {
  std::string text =
      fmt::format("{} bytes ({})", to_grouped_decimal(need.bytes), bytes_text(need.bytes));
  if (budget.flops) {
    text += fmt::format(", {} FLOPs ({})", to_grouped_decimal(need.work.flops),
                        with_unit(need.work.flops));
  }
  return text;
}

std::string budget_text(const SolveBudget& budget) {
  std::string text;
  if (budget.bytes) text = bytes_text(*budget.bytes);
  if (budget.flops) {
    text += fmt::format("{}{} FLOPs", text.empty() ? "" : " and ", with_unit(*budget.flops));
  }
  return text;
}

// What changed besides what was asked for.
void print_consequences(const SolveQuestion& q, const Workload& w) {
  const ModelConfig& m = w.model;
  if (q.what == SolveFor::kWidth) {
    print_wrapped("  ", fmt::format("{} heads of {}, FFN {}", m.heads, head_width_of(m), w.d_ff()));
  }
  if (m.positions == PositionKind::kLearned && m.max_length > q.workload.model.max_length) {
    print_wrapped("  ", fmt::format("with a table of {} positions instead of {}", m.max_length,
                                    q.workload.model.max_length));
  }
}

void print_answer(const SolveQuestion& q, const SolveBudget& budget, const SolveAnswer& answer) {
  static constexpr std::array<std::string_view, kSolveFor.size()> kSubjects = {
      "longest sequence", "largest batch", "widest model"};
  print_wrapped("", fmt::format("The {} for {} within {} has {}{}.",
                                kSubjects[static_cast<std::size_t>(q.what)], use_of(q.terms),
                                budget_text(budget), answer.next ? "" : "at least ",
                                counted(q.what, answer.value)));
  print_consequences(q, answer.workload);
  print_wrapped("  ", counted(q.what, answer.value) + ": " + need_text(answer.need, budget));
  print_wrapped("  ",
                counted(q.what, answer.next_value) + ": " +
                    (answer.next ? need_text(*answer.next, budget) : "not asked, " + answer.limit));
}

void write_need(std::string_view key, std::size_t value, const Need& need,
                const SolveBudget& budget, JsonWriter& to) {
  to.key(key);
  to.open('{');
  to.field("value", value);
  to.field("memory", need.bytes);
  if (budget.flops) {
    to.field("maccs", need.work.maccs);
    to.field("flops", need.work.flops);
  }
  to.close();
}

void write_question(const SolveQuestion& q, JsonWriter& to) {
  to.field("solve", name_of(q.what));
  to.field("use", q.terms.inference ? "inference" : "training");
  if (q.terms.tokens) to.field("tokens", *q.terms.tokens);
}

void write_answer(const SolveQuestion& q, const SolveBudget& budget, const SolveAnswer& answer) {
  JsonWriter to;
  to.open('{');
  write_question(q, to);
  to.key("budget");
  to.open('{');
  if (budget.bytes) to.field("memory", *budget.bytes);
  if (budget.flops) to.field("flops", *budget.flops);
  to.close();
  to.field("answer", answer.value);
  write_need("fits", answer.value, answer.need, budget, to);
  if (answer.next) {
    write_need("next", answer.next_value, *answer.next, budget, to);
  } else {
    to.key("next");
    to.null();
    to.field("limit", answer.limit);
  }
  const Workload& w = answer.workload;
  to.field("batch", w.batch);
  to.field("length", w.length);
  if (w.has_both()) to.field("target_length", w.target_length);
  to.field("d_model", w.model.d_model);
  to.field("heads", w.model.heads);
  to.field("d_ff", w.d_ff());
  to.field("max_length", w.model.max_length);
  to.close();
  fmt::print("{}\n", to.text());
}

// "linformer:k=256,share=all,flash" has two mechanisms: what is key=value belongs to the one
// before.
std::vector<std::string> mechanisms_of(const std::string& text) {
  std::vector<std::string> list;
  std::size_t first = 0;
  while (first <= text.size()) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    const std::string part = text.substr(first, end - first);
    const bool option = part.find('=') < part.find(':');
    if (option && !list.empty()) {
      list.back() += "," + part;
    } else {
      list.push_back(part);
    }
    first = end + 1;
  }
  return list;
}

std::string_view unit_of(Measure measure) {
  static constexpr std::array<std::string_view, kMeasures.size()> kUnits = {"FLOPs", "MACCs",
                                                                            "bytes"};
  return kUnits[static_cast<std::size_t>(measure)];
}

void print_crossover(const MechanismCrossover& c, const std::string& first,
                     const std::string& second) {
  const auto line = [&](const MechanismCrossover::At& at) {
    print_wrapped("  ", fmt::format("{}: {} against {}", counted(SolveFor::kLength, at.length),
                                    to_grouped_decimal(at.first), to_grouped_decimal(at.second)));
  };
  if (!c.from) {
    print_wrapped(
        "",
        fmt::format("{} does not take fewer {} than {} at {}, the most that is looked at.", first,
                    unit_of(c.measure), second, counted(SolveFor::kLength, c.last.length)));
    return line(c.last);
  }
  print_wrapped("", fmt::format("{} takes fewer {} than {} from {} on.", first, unit_of(c.measure),
                                second, counted(SolveFor::kLength, c.from->length)));
  if (c.before) line(*c.before);
  line(*c.from);
}

void write_crossovers(const SolveQuestion& q, const std::vector<std::string>& names,
                      std::span<const MechanismCrossover> found) {
  JsonWriter to;
  const auto write_at = [&](std::string_view key, const std::optional<MechanismCrossover::At>& at) {
    to.key(key);
    if (!at) return to.null();
    to.open('{');
    to.field("length", at->length);
    to.field("first", at->first);
    to.field("second", at->second);
    to.close();
  };
  to.open('{');
  write_question(q, to);
  to.field("first", names[0]);
  to.field("second", names[1]);
  to.key("crossovers");
  to.open('[');
  for (const MechanismCrossover& c : found) {
    to.open('{');
    to.field("measure", name_of(c.measure));
    write_at("from", c.from);
    write_at("before", c.before);
    write_at("last", c.last);
    to.close();
  }
  to.close();
  to.close();
  fmt::print("{}\n", to.text());
}

void compare(const CostOptions& o, bool as_json) {
  std::vector<std::string> names = mechanisms_of(o.solve.against);
  if (names.size() == 1) names.insert(names.begin(), o.model.attention.value_or("full"));
  require(names.size() == 2,
          "[cost] --against {}; need two mechanisms A,B, or one beside --attention",
          o.solve.against);
  const SolveQuestion q = question_from(o);
  const auto found = compare_mechanisms(q, names[0], names[1]);
  if (as_json) return write_crossovers(q, names, found);
  fmt::print("{}:\n", use_of(q.terms));
  for (const MechanismCrossover& c : found) print_crossover(c, names[0], names[1]);
}

}  // namespace

void add_solve_options(CLI::App& command, SolveOptions& o) {
  const char* group = "Inverse questions";
  command
      .add_option(
          "--solve", o.what,
          "length, batch or width within a budget; alone: lengths from which what is cheaper")
      ->expected(0, 1)
      ->default_str("crossovers")
      ->group(group);
  command
      .add_option_function<std::string>(
          "--memory",
          [&o](const std::string& text) {
            if (text != kResident) parse_bytes("cost", "--memory", text);
            o.memory = text;
          },
          "Budget of bytes: 16GiB, 16GB; alone, with --verify: the resident set only")
      ->expected(0, 1)
      ->type_name("BYTES")
      ->default_str(kResident)
      ->group(group);
  add_integer(command, "--flops", o.flops, "Budget of FLOPs, of a step or of --tokens: 1e15",
              group);
  command
      .add_option(
          "--against", o.against,
          "A,B: the length from which mechanism A is cheaper than B; B alone: A is --attention")
      ->group(group);
  command.add_flag("--inference", o.inference, "A forward pass instead of a training step")
      ->group(group);
}

void check_budget(const SolveOptions& o, bool verifies) {
  if (o.memory.empty()) return;
  require(!verifies || o.memory == kResident,
          "[cost] --memory {} with --verify; need --memory alone, or --solve", o.memory);
  require(verifies || o.memory != kResident, "[cost] --memory has no value; need --memory 16GiB");
}

void print_solution(const CostOptions& o, bool json) {
  const SolveOptions& solve = o.solve;
  quantity(solve.what);
  const bool bounded = !solve.memory.empty() || solve.flops.has_value();
  if (!solve.against.empty()) {
    require(!bounded, "[cost] --against and a budget; need one or the other");
    return compare(o, json);
  }
  require(bounded, "[cost] --solve {} without a budget; need --memory 16GiB or --flops 1e15{}",
          solve.what, solve.what == "length" ? ", or --against A,B" : "");
  SolveBudget budget;
  if (!solve.memory.empty()) budget.bytes = parse_bytes("cost", "--memory", solve.memory);
  budget.flops = solve.flops;
  const SolveQuestion q = question_from(o);
  const SolveAnswer answer = largest_within(q, budget);
  if (json) return write_answer(q, budget, answer);
  print_answer(q, budget, answer);
}

}  // namespace longspan::cli
