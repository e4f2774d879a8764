// longspan cost --solve, asked again the straight way; and what is not trained, beside the model's
// own predictions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/models/model.h"
#include "longspan/models/presets.h"
#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace cost_solve_cli_test {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

Json cost(Arguments arguments, const Arguments& more = {}) {
  arguments.insert(arguments.begin(), {"cost", "--json"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = longspan(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

std::string text(const Json& number) { return number.dump(); }

TEST(CostSolve, LengthAndBatchAreTheReportsOwn) {
  const Arguments model = {"--model", "gpt2", "--attention", "flash"};
  const std::int64_t budget = std::int64_t{8} << 30;
  const Json length = cost(model, {"--solve", "length", "--memory", "8GiB"});
  const auto total = [&](const Json& n) {
    return cost(model, {"--length", text(n), "--max-length",
                        text(length["max_length"])})["memory"]["total"]
        .get<std::int64_t>();
  };
  EXPECT_LE(total(length["answer"]), budget);
  EXPECT_EQ(total(length["answer"]), length["fits"]["memory"]);
  EXPECT_GT(length["next"]["memory"], budget);
  EXPECT_EQ(length["next"]["value"], length["answer"].get<int>() + 1);

  const Json batch = cost(model, {"--solve", "batch", "--memory", "8GiB"});
  for (const char* end : {"fits", "next"}) {
    const Json report = cost(model, {"--batch", text(batch[end]["value"])});
    EXPECT_EQ(report["memory"]["total"], batch[end]["memory"]);
    EXPECT_EQ(report["memory"]["total"] <= budget, std::string(end) == "fits");
  }
  const Json inferred = cost(model, {"--solve", "batch", "--memory", "8GiB", "--inference"});
  EXPECT_GT(inferred["answer"], batch["answer"]);
}

TEST(CostSolve, WidthForARun) {
  const Json found =
      cost({"--model", "gpt2", "--solve", "width", "--flops", "1e21", "--tokens", "300e9"});
  const auto flops = [](const Json& width) {
    const int d = width["value"];
    const Json report =
        cost({"--model", "gpt2", "--tokens", "300e9", "--d-model", std::to_string(d), "--heads",
              std::to_string(d / 64), "--d-ff", std::to_string(4 * d), "--view", "executed"});
    return report["training"]["executed"]["bp"]["flops"].get<double>();
  };
  EXPECT_LE(flops(found["fits"]), 1e21);
  EXPECT_GT(flops(found["next"]), 1e21);
  EXPECT_EQ(found["next"]["value"], found["answer"].get<int>() + 64);
}

TEST(CostSolve, MechanismsByLength) {
  const Json found = cost({"--model", "gpt2", "--solve", "length", "--against", "linear,full"});
  EXPECT_EQ(found["first"], "linear");
  const Json& crossover = found["crossovers"][0];
  EXPECT_EQ(crossover["measure"], "flops");
  for (const char* end : {"from", "before"}) {
    const Json& at = crossover[end];
    for (const char* which : {"first", "second"}) {
      const Json report = cost({"--model", "gpt2", "--attention", found[which], "--length",
                                text(at["length"]), "--view", "executed"});
      EXPECT_EQ(report["views"]["executed"]["rules"]["bp"]["flops"], at[which]);
    }
    EXPECT_EQ(at["first"] < at["second"], std::string(end) == "from");
  }
  const Json options =
      cost({"--model", "bert-base", "--solve", "length", "--against", "linformer:k=64,full"});
  EXPECT_EQ(options["first"], "linformer:k=64");
  EXPECT_EQ(options["second"], "full");
  EXPECT_THAT(longspan({"cost", "--model", "gpt2", "--attention", "linear", "--solve", "length",
                        "--against", "full"})
                  .out,
              HasSubstr("linear takes fewer FLOPs than full from " +
                        text(crossover["from"]["length"]) + " tokens on."));
}

TEST(CostSolve, SpeaksInSentences) {
  const Outcome outcome =
      longspan({"cost", "--model", "gpt2", "--solve", "batch", "--memory", "16GiB"});
  EXPECT_THAT(outcome.out, HasSubstr("The largest batch for a training step within 16.0 GiB has "));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
}

TEST(CostSolve, RefusesBadInputInOneSentence) {
  const std::vector<std::pair<Arguments, std::string>> bad = {
      {{"--solve", "length"}, "without a budget"},
      {{"--solve", "lenght", "--memory", "1GiB"}, "did you mean 'length'?"},
      {{"--solve", "length", "--memory", "1MiB"}, "even 1 token needs"},
      {{"--solve", "batch", "--memory", "1GiB", "--length", "1024"}, "even 1 sequence needs"},
      {{"--solve", "width", "--flops", "1000"}, "even a width of 64 needs"},
      {{"--solve", "length", "--memory", "much"}, "memory is 'much'; need bytes"},
      {{"--solve", "length", "--memory", "16QiB"}, "need bytes"},
      {{"--solve", "length", "--memory", "-16GiB"}, "need bytes"},
      {{"--solve", "length", "--flops", "few"}, "flops is 'few'"},
      {{"--solve", "length", "--length", "128", "--memory", "1GiB"}, "--length and --solve length"},
      {{"--solve", "batch", "--batch", "2", "--memory", "1GiB"}, "--batch and --solve batch"},
      {{"--solve", "length", "--against", "flsh,full"}, "did you mean 'flash'?"},
      {{"--solve", "length", "--against", "flash,full,linear"}, "need two mechanisms"},
      {{"--solve", "width", "--against", "flash,full"}, "need to solve for it"},
      {{"--solve", "length", "--against", "flash,full", "--memory", "1GiB"}, "one or the other"},
      {{"--frozen-layers", "13"}, "13 frozen layers of 12"},
      {{"--cross-attention", "full"}, "one stack"},
      {{"--checkpointing", "--wiring", "reversible"}, "checkpointed"},
  };
  for (auto [arguments, sentence] : bad) {
    arguments.insert(arguments.begin(), {"cost", "--model", "gpt2"});
    const Outcome outcome = longspan(arguments);
    EXPECT_EQ(outcome.status, 2) << ::testing::PrintToString(arguments) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "") << sentence;
  }
}

// What is trained and what is kept change what the model itself says they do.
TEST(CostTraining, FollowsTheModel) {
  struct Case {
    Arguments flags;
    void (*change)(ModelConfig&);
  };
  const std::vector<Case> cases = {
      {{}, [](ModelConfig&) {}},
      {{"--checkpointing"}, [](ModelConfig& c) { c.checkpointing = true; }},
      {{"--frozen-layers", "9"}, [](ModelConfig& c) { c.frozen_layers = 9; }},
      {{"--lora-rank", "8"}, [](ModelConfig& c) { c.lora_rank = 8; }},
      {{"--attention", "full|flash"}, [](ModelConfig& c) { c.attention = "full|flash"; }}};
  std::vector<Json> reports;
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::PrintToString(c.flags));
    const Json report = cost({"--model", "gpt2", "--length", "128", "--rule", "bp"}, c.flags);
    ModelConfig config = find_preset("gpt2").config();
    config.attention = "full";
    c.change(config);
    const Model model(config);
    const Batch shape{.batch = 1, .length = 128};
    Cost sum;
    for (const auto& [layer, its] : model.cost(shape, /*training=*/true)) sum += its;
    const Json& phases = report["views"]["executed"]["phases"];
    EXPECT_EQ(phases["forward"]["flops"], sum.forward.flops());
    EXPECT_EQ(phases["backward"]["flops"], sum.backward.flops());
    EXPECT_EQ(phases["update"]["maccs"], sum.update.maccs);
    EXPECT_EQ(report["memory"]["peak"], model.training_bytes(shape));
    EXPECT_EQ(report["memory"]["parameters"], 4 * model.parameters().total());
    EXPECT_EQ(report["memory"]["gradients"], 4 * model.parameters().count());
    EXPECT_EQ(report["memory"]["optimizer"], 8 * model.parameters().count());
    reports.push_back(report);
  }
  const auto flops = [&](std::size_t at, const char* phase) {
    return reports[at]["views"]["executed"]["phases"][phase]["flops"].get<std::int64_t>();
  };
  EXPECT_GT(flops(1, "backward"), flops(0, "backward"));
  EXPECT_EQ(flops(1, "update"), flops(0, "update"));
  EXPECT_LT(reports[1]["memory"]["peak"], reports[0]["memory"]["peak"]);
  EXPECT_LT(flops(2, "backward"), flops(0, "backward"));
  EXPECT_LT(flops(2, "update"), flops(0, "update"));
  EXPECT_EQ(reports[2]["parameters"]["total"], reports[0]["parameters"]["total"]);
  EXPECT_LT(reports[2]["parameters"]["trained"], reports[0]["parameters"]["trained"]);
  EXPECT_LT(flops(3, "update"), flops(0, "update"));
  EXPECT_LT(reports[3]["memory"]["optimizer"], reports[0]["memory"]["optimizer"]);
}

TEST(CostTraining, MechanismsOfTheDecoder) {
  const Arguments model = {"--model", "transformer-base", "--length", "64", "--view", "executed"};
  const Json plain = cost(model);
  const Json linear = cost(model, {"--cross-attention", "linear"});
  const auto layer = [](const Json& report, const std::string& name) {
    for (const Json& l : report["views"]["executed"]["layers"]) {
      if (l["name"] == name) return l["forward"]["flops"];
    }
    ADD_FAILURE() << name;
    return Json();
  };
  EXPECT_NE(layer(plain, "decoder_cross_mha"), layer(linear, "decoder_cross_mha"));
  EXPECT_EQ(layer(plain, "decoder_masked_mha"), layer(linear, "decoder_masked_mha"));
  EXPECT_EQ(layer(plain, "encoder_mha"), layer(linear, "encoder_mha"));
  const Json decoder = cost(model, {"--decoder-attention", "flash"});
  EXPECT_NE(layer(plain, "decoder_masked_mha"), layer(decoder, "decoder_masked_mha"));
  EXPECT_EQ(layer(plain, "encoder_mha"), layer(decoder, "encoder_mha"));
}

}  // namespace cost_solve_cli_test
}  // namespace longspan::testing
