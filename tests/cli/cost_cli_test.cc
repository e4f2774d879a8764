// longspan cost, as a program reads it: every cell against the formulas, written out once more
// here, on a worked example and on random shapes; and one sentence for each kind of bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "longspan/base/parallel.h"
#include "longspan/io/json_file.h"
#include "longspan/predict/calibration.h"
#include "longspan/predict/operation.h"
#include "longspan/testing/command_line.h"
#include "longspan/testing/even_calibration.h"

namespace longspan::testing {
namespace cost_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Count = std::int64_t;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

Json cost(Arguments arguments) {
  arguments.insert(arguments.begin(), {"cost", "--json"});
  const Outcome outcome = longspan(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

// ---- the formulas of the paper and of an efficient engine, in plain integers ----

struct Pair {
  Count maccs = 0;
  Count flops = 0;
  Pair& operator+=(const Pair& more) {
    maccs += more.maccs;
    flops += more.flops;
    return *this;
  }
  friend Pair operator+(Pair a, const Pair& b) { return a += b; }
  friend Pair operator*(Count times, Pair a) { return {times * a.maccs, times * a.flops}; }
};

struct Layer {
  Pair f, b, u;
  bool bp_updates = true;
};

struct Dimensions {
  Count encoder_layers, decoder_layers, d, h, f, v, n, m, batch;
};

enum View { kPrinted, kCorrected, kExecuted };
constexpr const char* kViews[] = {"printed", "corrected", "executed"};

Layer embedding(View view, const Dimensions& s, Count rows) {
  if (view == kExecuted) return {{0, rows * s.d}, {}, {0, rows * s.d}};
  const Pair product{rows * s.v * s.d, 2 * rows * s.v * s.d};
  return {product, {}, product, false};
}

Layer attention(View view, const Dimensions& s, Count q, Count k) {
  const Count d = s.d;
  const Count h = s.h;
  const Count weights = 2 * q * d * d + 2 * k * d * d;
  Layer layer;
  layer.u = {weights, 2 * weights};
  layer.f = {weights + 2 * q * k * d, 2 * weights + 4 * q * k * d + 6 * q * k * h};
  if (view == kExecuted) {
    layer.f.flops = 2 * layer.f.maccs + 5 * q * k * h + q * d;
    layer.b.maccs = weights + 4 * q * k * d;
    layer.b.flops = 2 * layer.b.maccs + 4 * q * k * h + q * d;
    return layer;
  }
  const Count slice = view == kPrinted ? q * k * q * h : q * k * k * h;
  layer.b.maccs = weights + 4 * q * k * d + slice;
  layer.b.flops = 2 * layer.b.maccs + q * k * h;
  if (view == kCorrected) layer.b.flops += k * k * q * h;
  return layer;
}

Layer ffn(View view, const Dimensions& s, Count rows) {
  const Count product = 2 * rows * s.d * s.f;
  Layer layer{{product, 2 * product + 9 * rows * s.f + rows * s.d},
              {product, 2 * product + 13 * rows * s.f},
              {product, 2 * product}};
  if (view == kExecuted) {
    layer.b.flops += rows * s.f;
    layer.u.flops += rows * s.f + rows * s.d;
  }
  return layer;
}

Layer add_norm(View view, const Dimensions& s, Count rows) {
  const Count d = s.d;
  if (view == kExecuted) {
    return {{0, rows * (8 * d + 5)}, {0, rows * (9 * d + 2)}, {0, 3 * rows * d}};
  }
  return {{0, 9 * rows * d},
          {rows * d * d, 11 * rows * d * d + 2 * rows * d},
          {rows * d, 3 * rows * d}};
}

Layer softmax(View view, const Dimensions& s, Count rows) {
  const Count product = rows * s.d * s.v;
  return {{product, 2 * product + 5 * rows * s.v},
          {product, 2 * product + (view == kExecuted ? rows : 0)},
          {product, 2 * product}};
}

Layer times(Count count, const Layer& a) {
  return {count * a.f, count * a.b, count * a.u, a.bp_updates};
}

std::map<std::string, Layer> layers_of(View view, const Dimensions& s) {
  std::map<std::string, Layer> all;
  const auto add_stack = [&](const std::string& prefix, const char* self, Count blocks, Count rows,
                             bool cross) {
    all[prefix + "embedding"] = embedding(view, s, rows);
    all[prefix + self] = times(blocks, attention(view, s, rows, rows));
    if (cross) all[prefix + "cross_mha"] = times(blocks, attention(view, s, rows, s.n));
    all[prefix + "add_norm"] = times((cross ? 3 : 2) * blocks, add_norm(view, s, rows));
    all[prefix + "ffn"] = times(blocks, ffn(view, s, rows));
  };
  const bool both = s.encoder_layers > 0 && s.decoder_layers > 0;
  if (both) {
    add_stack("encoder_", "mha", s.encoder_layers, s.n, false);
    add_stack("decoder_", "masked_mha", s.decoder_layers, s.m, true);
  } else if (s.encoder_layers > 0) {
    add_stack("", "mha", s.encoder_layers, s.n, false);
  } else {
    add_stack("", "masked_mha", s.decoder_layers, s.n, false);
  }
  all["softmax"] = softmax(view, s, both ? s.m : s.n);
  for (auto& [name, layer] : all) layer = times(s.batch, layer);
  return all;
}

Count parameters_of(const Dimensions& s) {
  const bool both = s.encoder_layers > 0 && s.decoder_layers > 0;
  const Count block = 4 * s.d * s.d + 2 * s.d * s.f + s.f + s.d + 2 * 2 * s.d;
  const Count cross = both ? 4 * s.d * s.d + 2 * s.d : 0;
  return (both ? 3 : 2) * s.v * s.d + s.encoder_layers * block + s.decoder_layers * (block + cross);
}

Pair projection_of(View view, const Dimensions& s) {
  if (s.encoder_layers == 0 || s.decoder_layers == 0) return {};
  const Count product = (view == kExecuted ? 1 : 2) * s.n * s.m * s.v;
  return s.batch * Pair{product, 2 * product + 6 * s.n * s.m};
}

// e·W_emb of the modulated pass, the dense update of the embedding, e, and a − a_err everywhere.
Pair overhead_of(View view, const Dimensions& s) {
  if (view != kExecuted) return {};
  const bool both = s.encoder_layers > 0 && s.decoder_layers > 0;
  const Count block = 7 * s.d + s.f;  // q, k, v, output; two norms; hidden and output of the FFN
  Pair sum;
  const auto add_stack = [&](Count blocks, Count rows) {
    sum += {2 * rows * s.v * s.d, 4 * rows * s.v * s.d};
    sum.flops += rows * s.d + blocks * rows * block;
  };
  if (both) {
    add_stack(s.encoder_layers, s.n);
    add_stack(s.decoder_layers, s.m);
    sum.flops += s.decoder_layers * (2 * s.m * s.d + 2 * s.n * s.d + s.m * s.d);
  } else {
    add_stack(s.encoder_layers + s.decoder_layers, s.n);
  }
  const Count out = both ? s.m : s.n;
  sum.flops += out + out * s.v;
  return s.batch * sum;
}

void expect_pair(const Json& json, const Pair& expected, const std::string& where) {
  EXPECT_EQ(json.at("maccs").get<Count>(), expected.maccs) << where;
  EXPECT_EQ(json.at("flops").get<Count>(), expected.flops) << where;
}

void expect_view(const Json& report, View view, const Dimensions& s) {
  const Json& json = report.at("views").at(kViews[view]);
  const std::string where = std::string(kViews[view]) + " ";
  const auto expected = layers_of(view, s);
  EXPECT_EQ(json.at("layers").size(), expected.size());
  Pair f, b, u, bp_u;
  for (const Json& layer : json.at("layers")) {
    const std::string name = layer.at("name");
    ASSERT_TRUE(expected.contains(name)) << name;
    const Layer& e = expected.at(name);
    expect_pair(layer.at("forward"), e.f, where + name + " forward");
    expect_pair(layer.at("backward"), e.b, where + name + " backward");
    expect_pair(layer.at("update"), e.u, where + name + " update");
    f += e.f;
    b += e.b;
    u += e.u;
    if (e.bp_updates) bp_u += e.u;
  }
  const Pair p = projection_of(view, s);
  const Pair o = overhead_of(view, s);
  const Json& phases = json.at("phases");
  expect_pair(phases.at("forward"), f, where + "F");
  expect_pair(phases.at("backward"), b, where + "B");
  expect_pair(phases.at("update"), u, where + "U");
  expect_pair(phases.at("error_projection"), p, where + "P");
  expect_pair(phases.at("rule_overhead"), o, where + "overhead");
  expect_pair(json.at("rules").at("bp"), f + b + bp_u, where + "bp");
  expect_pair(json.at("rules").at("pepita"), 2 * f + u + p + o, where + "pepita");
  expect_pair(json.at("rules").at("mempepita"), 3 * f + u + p + o, where + "mempepita");
}

Arguments arguments_of(const Dimensions& s) {
  Arguments a = {"--encoder-layers", std::to_string(s.encoder_layers),
                 "--decoder-layers", std::to_string(s.decoder_layers),
                 "--d-model",        std::to_string(s.d),
                 "--heads",          std::to_string(s.h),
                 "--d-ff",           std::to_string(s.f),
                 "--vocab",          std::to_string(s.v),
                 "--length",         std::to_string(s.n),
                 "--batch",          std::to_string(s.batch),
                 "--attention",      "full"};
  if (s.encoder_layers > 0 && s.decoder_layers > 0) {
    a.insert(a.end(), {"--target-length", std::to_string(s.m)});
  }
  return a;
}

// The options of `s`, those of `more` ("--name", "value", …) set or put behind.
Arguments changed(const Dimensions& s, const Arguments& more) {
  Arguments a = arguments_of(s);
  for (std::size_t i = 0; i < more.size(); ++i) {
    const bool named = more[i].starts_with("--");
    const auto at = named ? std::find(a.begin(), a.end(), more[i]) : a.end();
    if (at == a.end()) {
      a.push_back(more[i]);
    } else {
      *(at + 1) = more[++i];
    }
  }
  return a;
}

const Dimensions kBlock{1, 0, 64, 4, 256, 1000, 128, 128, 1};

TEST(Cost, WorkedExampleCellByCell) {
  const Json report = cost(arguments_of(kBlock));
  for (const View view : {kPrinted, kCorrected, kExecuted}) expect_view(report, view, kBlock);
  // The same as numbers, so that a slip in the formulas above cannot hide.
  const Json& printed = report["views"]["printed"];
  EXPECT_EQ(printed["layers"][1]["backward"]["flops"], 29425664);
  EXPECT_EQ(printed["layers"][2]["backward"]["flops"], 11567104);
  EXPECT_EQ(printed["rules"]["bp"]["maccs"], 67387392);
  EXPECT_EQ(printed["rules"]["bp"]["flops"], 146236416);
  EXPECT_EQ(printed["rules"]["pepita"]["flops"], 147458048);
  EXPECT_EQ(printed["rules"]["mempepita"]["flops"], 198487040);
  const Json& corrected = report["views"]["corrected"];
  EXPECT_EQ(corrected["layers"][1]["backward"]["flops"], 37814272);
  EXPECT_EQ(corrected["rules"]["bp"]["flops"], 154625024);
  const Json& executed = report["views"]["executed"];
  EXPECT_EQ(executed["rules"]["bp"]["maccs"], 49741824);
  EXPECT_EQ(executed["rules"]["bp"]["flops"], 101878656);
  EXPECT_EQ(executed["rules"]["pepita"]["maccs"], 64028672);
  EXPECT_EQ(executed["rules"]["mempepita"]["maccs"], 80609280);
  EXPECT_EQ(report["parameters"]["total"], 177728);
}

TEST(Cost, RandomShapes) {
  std::mt19937_64 random(5);
  const auto pick = [&](Count low, Count high) {
    return std::uniform_int_distribution<Count>(low, high)(random);
  };
  for (int round = 0; round < 24; ++round) {
    Dimensions s{};
    s.encoder_layers = round % 3 == 1 ? 0 : pick(1, 5);
    s.decoder_layers = round % 3 == 0 ? 0 : pick(1, 5);
    s.h = pick(1, 6);
    s.d = s.h * pick(1, 40);
    s.f = pick(1, 300);
    s.v = pick(1, 5000);
    s.n = pick(1, 200);
    s.m = pick(1, 200);
    s.batch = pick(1, 5);
    SCOPED_TRACE(::testing::PrintToString(arguments_of(s)));
    const Json report = cost(arguments_of(s));
    for (const View view : {kPrinted, kCorrected, kExecuted}) expect_view(report, view, s);
    EXPECT_EQ(report["parameters"]["total"].get<Count>(), parameters_of(s));
    Count by_layer = 0;
    for (const Json& layer : report["parameters"]["by_layer"]) {
      by_layer += layer["parameters"].get<Count>();
    }
    EXPECT_EQ(by_layer, parameters_of(s));
  }
}

// Of rules that the paper does not have the executed view alone, with the matrices that carry the
// error back.
TEST(CostCli, WalksFeedbackAlignment) {
  const Arguments model = {"--decoder-layers", "3",  "--d-model", "32", "--heads", "4",
                           "--vocab",          "50", "--length",  "16", "--batch", "2"};
  const auto of = [&](const char* rule) {
    Arguments a = model;
    a.insert(a.end(), {"--rule", rule});
    return cost(a);
  };
  const Json bp = of("bp");
  const Json fa = of("fa");
  const Json dfa = of("dfa");
  EXPECT_EQ(fa["views"].size(), 1U);
  const auto flops = [](const Json& report, const char* rule, const char* phase) {
    return report["views"]["executed"]["rules"][rule]["phases"][phase]["flops"].get<Count>();
  };
  for (const char* phase : {"forward", "backward", "update", "rule_overhead", "optimizer"}) {
    EXPECT_EQ(flops(fa, "fa", phase), flops(bp, "bp", phase)) << phase;
  }
  EXPECT_EQ(flops(dfa, "dfa", "forward"), flops(bp, "bp", "forward"));
  EXPECT_EQ(flops(dfa, "dfa", "rule_overhead"), 2 * 3 * (2 * 16) * 50 * 32);
  EXPECT_EQ(dfa["memory"]["feedback"], 4 * 3 * 50 * 32);
  EXPECT_EQ(dfa["memory"], dfa["memory_by_rule"]["dfa"]);
  // Projections, outputs of branches, hidden layers and the softmax layer.
  EXPECT_EQ(fa["memory"]["feedback"], 4 * (3 * (4 * 32 * 32 + 2 * 32 * 128) + 50 * 32));
  EXPECT_EQ(fa["memory"]["peak"], bp["memory"]["peak"]);
  Arguments table = model;
  table.insert(table.begin(), "cost");
  table.insert(table.end(), {"--rule", "dfa"});
  const Outcome text = longspan(table);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("\ndfa "), HasSubstr("feedback"), HasSubstr("executed")));
  EXPECT_THAT(text.out, ::testing::Not(HasSubstr("printed")));
}

// Half the length behind each pool, so fewer scores and products than one stage.
TEST(CostCli, StagesShortenAnEncoder) {
  const Arguments model = {"--encoder-layers", "4",  "--d-model", "32", "--heads", "4",
                           "--vocab",          "50", "--length",  "32"};
  const auto with = [&](const Arguments& more) {
    Arguments a = model;
    a.insert(a.end(), more.begin(), more.end());
    return a;
  };
  const Json whole = cost(with({"--view", "executed", "--rule", "bp"}));
  const Json staged = cost(with({"--stages", "1|1|1", "--stage-pool", "max", "--pooled-keys"}));
  EXPECT_EQ(staged["config"]["stages"], "1|1|1");
  EXPECT_EQ(staged["config"]["stage_pool"], "max");
  EXPECT_EQ(staged["config"]["stage_cls"], true);
  EXPECT_EQ(staged["config"]["unpooled_keys"], false);
  EXPECT_LT(staged["views"]["executed"]["rules"]["bp"]["maccs"],
            whole["views"]["executed"]["rules"]["bp"]["maccs"]);
  const Json apart = cost(with({"--stages", "1|1", "--no-stage-cls", "--no-stage-truncate"}));
  EXPECT_EQ(apart["config"]["stage_cls"], false);
  EXPECT_EQ(apart["config"]["stage_truncate"], false);
  const std::vector<std::pair<Arguments, std::string>> bad = {
      {{"--stages", "4|4"}, "the stages 4|4 leave no layer behind them in a model of 4 layers"},
      {{"--stages", "2"}, "one stage of 2 layers; need two or more"},
      {{"--stages", "1|1", "--wiring", "pre"}, "need an encoder with post wiring"},
      {{"--stages", "1|1", "--stage-pool", "sum"}, "stage_pool"},
      {{"--stage-pool", "max"}, "need --stages"},
  };
  for (const auto& [more, text] : bad) {
    Arguments a = with(more);
    a.insert(a.begin(), "cost");
    expect_wrong_input(longspan(a), text);
  }
}

// The embedding's update is in the phases of rules that have one.
TEST(Cost, PhasesFollowTheRule) {
  const auto update = [](const char* rule) {
    Arguments a = arguments_of(kBlock);
    a.insert(a.end(), {"--rule", rule, "--view", "printed"});
    const Json view = cost(a)["views"]["printed"];
    EXPECT_EQ(view["rules"].size(), 1U);
    return view["phases"]["update"]["maccs"].get<Count>();
  };
  EXPECT_EQ(update("bp"), 14499840);
  EXPECT_EQ(update("pepita"), 22691840);
}

TEST(Cost, PublishedNumbers) {
  const auto forward = [](const Json& report) {
    return report["views"]["executed"]["phases"]["forward"]["maccs"].get<Count>();
  };
  const Json bert = cost({"--model", "bert-base", "--length", "128"});
  EXPECT_EQ(bert["parameters"]["total"], 109482240);
  EXPECT_EQ(forward(bert), 11174215680);
  EXPECT_EQ(cost({"--model", "distilbert"})["parameters"]["total"], 66362880);
  const Json llama = cost({"--model", "llama-7b", "--length", "128"});
  EXPECT_EQ(forward(llama), 850000871424);
  const Json llama2 = cost({"--model", "llama-2-7b", "--length", "4096", "--dtype", "fp16"});
  EXPECT_EQ(llama2["memory"]["cache"].get<Count>(), Count{2} << 30);
}

// 300 G tokens of GPT-3 need more than 64 bits, and keep every digit.
TEST(Cost, LargeRunsAreExact) {
  const Outcome run =
      longspan({"cost", "--model", "gpt3-175b", "--tokens", "300e9", "--json", "--rule", "bp"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json report = Json::parse(run.out);
  EXPECT_EQ(report["parameters"]["total"], 174604259328);
  EXPECT_EQ(report["training"]["tokens"], 300000000000);
  // 2048 tokens a step: 146484375 steps, multiplied here digit by digit.
  const auto step = report["views"]["executed"]["rules"]["bp"]["flops"].get<unsigned long long>();
  std::string digits;
  unsigned long long carry = 0;
  std::string reversed = std::to_string(step);
  std::reverse(reversed.begin(), reversed.end());
  for (std::size_t i = 0; i < reversed.size() || carry > 0; ++i) {
    const unsigned long long digit = i < reversed.size() ? reversed[i] - '0' : 0;
    const unsigned long long sum = digit * 146484375ULL + carry;
    digits += static_cast<char>('0' + sum % 10);
    carry = sum / 10;
  }
  std::reverse(digits.begin(), digits.end());
  EXPECT_EQ(digits.size(), 24U) << "past 64 bits";
  EXPECT_THAT(run.out, HasSubstr("\"flops\": " + digits));
  EXPECT_THAT(longspan({"cost", "--model", "gpt3-175b", "--tokens", "300e9"}).out,
              AllOf(HasSubstr("174,604,259,328 parameters"), HasSubstr("3739 PF-days")));
}

TEST(Cost, ExplainsWhatOtherToolsReport) {
  for (const char* tool : {"fvcore", "thop", "ptflops", "torch", "deepspeed", "calflops", "palm",
                           "6nd", "llm-viewer"}) {
    const Json as = cost({"--model", "gpt2", "--as", tool, "--length", "64"})["as"];
    Count difference = 0;
    for (const Json& line : as["lines"]) difference += line["difference"].get<Count>();
    EXPECT_EQ(as["executed"].get<Count>() + difference, as["reported"].get<Count>()) << tool;
  }
  EXPECT_EQ(cost({"--model", "llama-7b", "--as", "ptflops", "--length", "128"})["as"]["reported"],
            850000871424);
}

TEST(Cost, ReleasedModelsAreShownWithoutThePaper) {
  for (const char* by : {"layer", "phase"}) {
    const Outcome outcome = longspan({"cost", "--model", "gpt2", "--length", "128", "--by", by});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const char* word : {"pepita", "PEPITA", "printed", "corrected", "executed", "÷ BP", "D8",
                             "D9", "why the views differ"}) {
      EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr(word))) << by;
    }
  }
  EXPECT_THAT(longspan({"cost", "--model", "gpt2", "--diff", "attention=flash"}).out,
              ::testing::Not(HasSubstr("pepita")));
  EXPECT_THAT(longspan({"cost", "--model", "gpt2", "--rule", "all"}).out,
              AllOf(HasSubstr("\npepita "), HasSubstr("÷ BP")));
  EXPECT_THAT(longspan({"cost", "--model", "gpt2", "--view", "all"}).out,
              AllOf(HasSubstr("\npepita "), HasSubstr("why the views differ")));
  // Programs find what they found before.
  EXPECT_TRUE(cost({"--model", "gpt2"}).at("views").at("printed").at("rules").contains("pepita"));
}

TEST(Cost, NamesItsColumnsForWhatTheyAre) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.begin(), "cost");
  const std::string text = longspan(a).out;
  // A view stands over its MACCs, FLOPs and ratio.
  const std::size_t at = text.find("\none step ");
  ASSERT_NE(at, std::string::npos);
  const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  EXPECT_THAT(line, HasSubstr("MACCs"));
  EXPECT_THAT(line, ::testing::Not(HasSubstr("printed")));
}

TEST(Cost, FormulasAreJsonWhereAsked) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.end(), {"--formula", "--view", "printed"});
  const Json text = cost(a);
  EXPECT_EQ(text.at("notation"), "text");
  const Json& printed = text.at("formulas").at("printed");
  EXPECT_TRUE(printed.at("rules").contains("bp"));
  EXPECT_FALSE(printed.at("layers").at(0).at("operations").empty());
  a.back() = "all";
  a[a.size() - 3] = "--latex";
  const Json latex = cost(a);
  EXPECT_EQ(latex.at("notation"), "latex");
  EXPECT_EQ(latex.at("formulas").size(), 3U);
  EXPECT_THAT(latex.at("formulas").at("executed").dump(), HasSubstr("^{2}"));
}

TEST(Cost, SaysLongTimesInHoursAndMinutes) {
  const TemporaryDirectory cache;
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  const int usual_threads = thread_count();
  set_thread_count(1);
  Calibration slow = even_calibration();
  for (auto& [name, rate] : slow.rates) rate.warm.assign(rate.warm.size(), 1e-8);
  write_calibration(slow);
  const Outcome outcome =
      longspan({"cost", "--model", "gpt2", "--tokens", "300e9", "--threads", "1"});
  unsetenv("XDG_CACHE_HOME");
  set_thread_count(usual_threads);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("[0-9]+ (h [0-9]+ min|min [0-9]+ s), "));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("time of all tokens: [0-9.e+]+ years"));
}

TEST(Cost, TablesFitTheTerminal) {
  const Arguments gpt3 = {"--model", "gpt3-175b", "--tokens", "300e9", "--view", "all"};
  const std::vector<Arguments> variants = {
      gpt3,
      {"--model", "gpt3-175b", "--by", "phase"},
      {"--model", "gpt3-175b", "--as", "6nd"},
      {"--model", "transformer-big", "--view", "all"},
      {"--model", "bert-large", "--diff", "attention=flash,wiring=reversible"},
      {"--model", "distilbert", "--head", "lm", "--solve"}};
  for (const std::size_t width : {50U, 80U, 120U}) {
    for (Arguments a : variants) {
      a.insert(a.begin(), "cost");
      const Outcome outcome = longspan(a, {.environment = {{"COLUMNS", std::to_string(width)}}});
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      expect_fits(outcome.out, width);
    }
  }
}

TEST(Cost, SaysWhyViewsDiffer) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.begin(), "cost");
  a.insert(a.end(), {"--view", "all"});
  const std::string text = longspan(a).out;
  for (const char* number : {"D1 ", "D2 ", "D4 ", "D6 ", "D7 ", "D9 ", "D12 ", "D16 ", "D17 "}) {
    EXPECT_THAT(text, HasSubstr(std::string("  ") + number));
  }
  EXPECT_THAT(text, HasSubstr("2.0000 × forward in MACCs"));
}

TEST(Cost, PrintsFormulas) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.begin(), "cost");
  Arguments text = a;
  text.insert(text.end(), {"--formula", "--view", "printed"});
  EXPECT_THAT(longspan(text).out, AllOf(HasSubstr("(12), (29)"), HasSubstr("2·N·d·f")));
  Arguments latex = a;
  latex.insert(latex.end(), {"--latex", "--view", "corrected"});
  EXPECT_THAT(longspan(latex).out, AllOf(HasSubstr("\\begin{tabular}"), HasSubstr("add\\_norm")));
}

TEST(Cost, SolvesForLengths) {
  const Json found = cost({"--model", "distilbert", "--head", "lm", "--solve"});
  std::map<std::string, Json> by_question;
  for (const Json& entry : found["crossovers"]) by_question[entry["question"]] = entry;
  EXPECT_EQ(by_question["PEPITA cheaper than BP, printed"]["from"], 683);
  EXPECT_EQ(by_question["PEPITA cheaper than BP, executed"]["condition"], "N > v/L");
  EXPECT_EQ(by_question["PEPITA cheaper than BP, executed"]["from"], 5088);
  const Json& products =
      by_question["products of attention (2·n²·d) above its projections (4·n·d²)"];
  EXPECT_EQ(products["condition"], "n > 2·d");
  EXPECT_EQ(products["from"], 1537);
}

TEST(Cost, ComparesTwoModels) {
  const Json report = cost({"--model", "gpt2", "--diff", "attention=flash,kv_heads=4"});
  EXPECT_EQ(report["other"]["config"]["attention"], "flash");
  EXPECT_LT(report["other"]["parameters"]["total"], report["parameters"]["total"]);
  EXPECT_LT(report["other"]["memory"]["activations"], report["memory"]["activations"]);
  EXPECT_THAT(longspan({"cost", "--model", "gpt2", "--diff", "gpt2-xl"}).out, HasSubstr("ratio"));
}

TEST(Cost, VariantsChangeCounts) {
  const auto bp = [](const Arguments& more) { return cost(changed(kBlock, more)); };
  const Json plain = bp({});
  const auto parameters = [](const Json& report) {
    return report["parameters"]["total"].get<Count>();
  };
  EXPECT_EQ(parameters(plain) - parameters(bp({"--tied"})), 64000);
  EXPECT_EQ(parameters(plain) - parameters(bp({"--kv-heads", "1"})), 2 * 64 * 48);
  EXPECT_EQ(parameters(bp({"--gated"})) - parameters(plain), 64 * 256 + 256);
  EXPECT_EQ(parameters(bp({"--attention-bias"})) - parameters(plain), 4 * 64);
  EXPECT_EQ(parameters(bp({"--positions", "learned"})) - parameters(plain), 128 * 64);
  EXPECT_EQ(bp({"--causal"})["views"]["executed"]["layers"][1]["name"], "masked_mha");
  const Json half = bp({"--lengths", "64", "--attention", "flash"});
  EXPECT_LT(half["views"]["executed"]["rules"]["bp"]["maccs"],
            plain["views"]["executed"]["rules"]["bp"]["maccs"]);
}

TEST(Cost, ReadsHuggingFacesConfigs) {
  const TemporaryDirectory scratch;
  std::ofstream(scratch / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
             "n_positions": 1024, "vocab_size": 50257})";
  for (const auto& path : {scratch / "config.json", scratch / "."}) {
    EXPECT_EQ(cost({"--model", path.string()})["parameters"]["total"], 124439808);
  }
}

TEST(Cost, WritesCommaSeparatedValues) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.begin(), {"cost", "--csv", "--view", "printed"});
  EXPECT_THAT(longspan(a).out, AllOf(HasSubstr("view,layer,count,phase,maccs,flops\n"),
                                     HasSubstr("printed,mha,1,backward,14680064,29425664\n"),
                                     HasSubstr("printed,bp,1,total,67387392,146236416\n")));
}

// Exit 2 and exactly one line.
TEST(Cost, RefusesBadInputInOneSentence) {
  const TemporaryDirectory scratch;
  std::ofstream(scratch / "broken.json") << "{\"model_type\": \"gpt2\", ";
  std::ofstream(scratch / "other.json") << R"({"model_type": "mamba"})";
  std::ofstream(scratch / "absurd.json")
      << R"({"model_type": "gpt2", "n_layer": -3, "n_embd": 768, "n_head": 12,
             "n_positions": 1024, "vocab_size": 50257})";
  const auto with = [](const Arguments& more) { return changed(kBlock, more); };
  const std::vector<std::pair<Arguments, std::string>> bad = {
      {{}, "--d-model is missing"},
      {{"--model", "bert-bse"}, "did you mean 'bert-base'?"},
      {{"--model", (scratch / "broken.json").string()}, "need valid JSON"},
      {{"--model", (scratch / "other.json").string()}, "mamba"},
      {{"--model", (scratch / "absurd.json").string()}, "n_layer is -3"},
      {{"--model", (scratch / "missing.json").string()}, "missing.json"},
      {{"--model", "gpt2", "--length", "5000"}, "1024 positions"},
      {{"--model", "gpt2", "--encoder-layers", "3"}, "need --decoder-layers"},
      {{"--model", "gpt2", "--head", "none"}, "need an encoder"},
      {{"--model", "gpt2", "--tokens", "many"}, "tokens is 'many'"},
      {{"--model", "gpt2", "--tokens", "-5"}, "need a whole number"},
      {{"--model", "gpt2", "--as", "fvcor"}, "did you mean 'fvcore'?"},
      {{"--model", "gpt2", "--view", "execute"}, "did you mean 'executed'?"},
      {{"--model", "gpt2", "--rule", "pepit"}, "did you mean 'pepita'?"},
      {{"--model", "gpt2", "--rule", "fa", "--view", "printed"},
       "the paper does not have the rule fa"},
      {{"--model", "gpt2", "--rule", "dfa", "--view", "all"}, "need --view executed"},
      {{"--model", "gpt2", "--rule", "dfa", "--formula"}, "not of the rule dfa"},
      {{"--model", "gpt2", "--rule", "fa", "--verify"}, "need --rule bp"},
      {{"--model", "gpt2", "--rule", "dfa", "--wiring", "reversible"}, "need pre or post wiring"},
      {{"--model", "gpt2", "--dtype", "fp15"}, "did you mean 'fp16'?"},
      {{"--model", "gpt2", "--optimizer", "adm"}, "did you mean 'adam'?"},
      {{"--model", "gpt2", "--diff", "heads=5"}, "does not divide"},
      {{"--model", "gpt2", "--diff", "gtp2"}, "did you mean 'gpt2'?"},
      {{"--model", "gpt2", "--by", "colour"}, "need layer or phase"},
      {with({"--d-model", "-64"}), "[cost] --d-model is '-64'; need a whole number from 1 to 2^24"},
      {with({"--d-model", "65"}), "does not divide into 4 heads"},
      {with({"--d-model", "99999999999999999999999"}), "need a whole number"},
      {with({"--length", "999999999999"}), "need a whole number from 1 to"},
      {with({"--length", "0"}), "--length is '0'"},
      {with({"--vocab", "99999999999"}), "need a whole number from 1 to"},
      {with({"--encoder-layers", "100000"}), "need a whole number from 0 to 4096"},
      {with({"--encoder-layers", "0"}), "no layers"},
      {with({"--target-length", "7"}), "need an encoder and a decoder"},
      {with({"--batch", "4000000000", "--length", "4000000000"}), "--batch is '4000000000'; need"},
      {with({"--batch", "1Mi", "--length", "1Gi"}), "counters"},
      {with({"--attention", "flsh"}), "did you mean 'flash'?"},
      {with({"--wiring", "prepost"}), "wiring"},
      {with({"--kv-heads", "3"}), "need a divisor"},
      {with({"--lengths", "500"}), "500 real tokens"},
  };
  for (auto [arguments, sentence] : bad) {
    arguments.insert(arguments.begin(), "cost");
    const Outcome outcome = longspan(arguments);
    EXPECT_EQ(outcome.status, 2) << ::testing::PrintToString(arguments) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "") << sentence;
  }
}

}  // namespace cost_cli_test
}  // namespace longspan::testing
