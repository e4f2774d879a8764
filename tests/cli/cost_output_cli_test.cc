// longspan cost, as a person reads it: tables, formulas, other tools' numbers, and one sentence for
// each kind of bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "longspan/base/parallel.h"
#include "longspan/io/json_file.h"
#include "longspan/predict/calibration.h"
#include "longspan/testing/even_calibration.h"
#include "tests/cli/cost_cli.h"

namespace longspan::testing {
namespace cost_output_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace cost_cli;  // NOLINT(google-build-using-namespace)

TEST(CostOutput, ExplainsWhatOtherToolsReport) {
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

TEST(CostOutput, ReleasedModelsAreShownWithoutThePaper) {
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

TEST(CostOutput, NamesItsColumnsForWhatTheyAre) {
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

TEST(CostOutput, FormulasAreJsonWhereAsked) {
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

TEST(CostOutput, SaysLongTimesInHoursAndMinutes) {
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

TEST(CostOutput, TablesFitTheTerminal) {
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

TEST(CostOutput, SaysWhyViewsDiffer) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.begin(), "cost");
  a.insert(a.end(), {"--view", "all"});
  const std::string text = longspan(a).out;
  for (const char* number : {"D1 ", "D2 ", "D4 ", "D6 ", "D7 ", "D9 ", "D12 ", "D16 ", "D17 "}) {
    EXPECT_THAT(text, HasSubstr(std::string("  ") + number));
  }
  EXPECT_THAT(text, HasSubstr("2.0000 × forward in MACCs"));
}

TEST(CostOutput, PrintsFormulas) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.begin(), "cost");
  Arguments text = a;
  text.insert(text.end(), {"--formula", "--view", "printed"});
  EXPECT_THAT(longspan(text).out, AllOf(HasSubstr("(12), (29)"), HasSubstr("2·N·d·f")));
  Arguments latex = a;
  latex.insert(latex.end(), {"--latex", "--view", "corrected"});
  EXPECT_THAT(longspan(latex).out, AllOf(HasSubstr("\\begin{tabular}"), HasSubstr("add\\_norm")));
}

TEST(CostOutput, SolvesForLengths) {
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

TEST(CostOutput, ComparesTwoModels) {
  const Json report = cost({"--model", "gpt2", "--diff", "attention=flash,kv_heads=4"});
  EXPECT_EQ(report["other"]["config"]["attention"], "flash");
  EXPECT_LT(report["other"]["parameters"]["total"], report["parameters"]["total"]);
  EXPECT_LT(report["other"]["memory"]["activations"], report["memory"]["activations"]);
  EXPECT_THAT(longspan({"cost", "--model", "gpt2", "--diff", "gpt2-xl"}).out, HasSubstr("ratio"));
}

TEST(CostOutput, VariantsChangeCounts) {
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

TEST(CostOutput, ReadsHuggingFacesConfigs) {
  const TemporaryDirectory scratch;
  std::ofstream(scratch / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
             "n_positions": 1024, "vocab_size": 50257})";
  for (const auto& path : {scratch / "config.json", scratch / "."}) {
    EXPECT_EQ(cost({"--model", path.string()})["parameters"]["total"], 124439808);
  }
}

TEST(CostOutput, WritesCommaSeparatedValues) {
  Arguments a = arguments_of(kBlock);
  a.insert(a.begin(), {"cost", "--csv", "--view", "printed"});
  EXPECT_THAT(longspan(a).out, AllOf(HasSubstr("view,layer,count,phase,maccs,flops\n"),
                                     HasSubstr("printed,mha,1,backward,14680064,29425664\n"),
                                     HasSubstr("printed,bp,1,total,67387392,146236416\n")));
}

// Exit 2 and exactly one line.
TEST(CostOutput, RefusesBadInputInOneSentence) {
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

}  // namespace cost_output_cli_test
}  // namespace longspan::testing
