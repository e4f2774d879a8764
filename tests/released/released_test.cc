// Released models by their config.json: what is accepted is counted exactly. The other side are
// formulas that know nothing of the library (config.h and beside it) and published totals.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "longspan/base/meter.h"
#include "longspan/cost/counts.h"
#include "longspan/cost/model_summary.h"
#include "longspan/io/json_file.h"
#include "longspan/models/pretrained.h"
#include "longspan/testing/temporary_directory.h"
#include "tests/released/maccs.h"

namespace longspan {
namespace released_test {

using Json = nlohmann::json;

const std::string kFolder = std::string(LONGSPAN_SOURCE_DIR) + "/tests/released/";

std::map<std::string, Json> configs() {
  return read_json(kFolder + "configs.json").get<std::map<std::string, Json>>();
}

struct Counted {
  explicit Counted(const Json& config)
      : workload{.model = config_from_hugging_face(config)}, model(workload.model) {}
  Integer parameters() const { return count_parameters(workload, model).total; }

  Workload workload;
  Model model;
};

// The products of one forward of n tokens of one sequence.
std::uint64_t maccs(const Model& model, std::size_t n) {
  Meter meter;
  {
    const Meter::Use use(meter);
    Batch batch;
    batch.batch = 1;
    batch.length = n;
    if (model.config().family == Family::kEncoderDecoder) batch.source_length = n;
    model.walk_inference(batch);
  }
  std::uint64_t sum = 0;
  for (const auto& [name, cost] : cost_of(meter)) sum += cost.forward.maccs;
  return sum;
}

TEST(Released, PublishedTotals) {
  const std::map<std::string, std::uint64_t> published = {
      {"roberta-base", 124'697'433},
      {"t5-base", 222'903'552},
      {"flan-t5-base", 247'577'856},
      {"bart-base", 139'420'416},
      {"gpt-neox-20b", 20'554'567'680},
      {"opt-1.3b", 1'315'758'080},
      {"mistral-7b", 7'241'732'096},
      {"mixtral-8x7b", 46'702'792'704},
      {"qwen2-7b", 7'615'616'512},
      {"gemma-2-9b", 9'241'705'984},
      {"llama-3.1-405b", 405'853'388'800},
      {"modernbert-base", 149'655'232},
      {"bert-base-uncased-bare", 109'482'240},
      {"gpt2", 124'439'808},
      {"deepseek-v2-lite", 15'706'484'224},
      {"llama-3-8b", 8'030'261'248},
      {"led-base-16384", 161'844'480},
      {"pegasus-large", 570'797'056},
      {"opus-mt-en-de", 74'410'496},
      {"switch-base-8", 619'339'008},
      {"qwen2-57b-a14b", 57'408'658'944},
      {"reformer-enwik8", 149'182'722},
      {"mdeberta-v3-base", 278'218'752},
      {"modernbert-large", 395'881'664},
  };
  const std::map<std::string, Json> all = configs();
  for (const auto& [name, total] : published) {
    EXPECT_EQ(to_decimal(Counted(all.at(name)).parameters()), std::to_string(total)) << name;
  }
}

// So that none drops out unseen: a line each in refused.txt.
TEST(Released, WhatIsRefusedIsKnown) {
  std::set<std::string> known;
  std::istringstream lines(testing::read_bytes(kFolder + "refused.txt"));
  for (std::string line; std::getline(lines, line);) known.insert(line);
  std::set<std::string> refused;
  for (const auto& [name, config] : configs()) {
    try {
      config_from_hugging_face(config);
    } catch (const Error&) {
      refused.insert(name);
    }
  }
  EXPECT_EQ(refused, known);
}

TEST(Released, WhatIsAcceptedIsExact) {
  std::size_t accepted = 0;
  for (const auto& [name, config] : configs()) {
    std::unique_ptr<Counted> counted;
    try {
      counted = std::make_unique<Counted>(config);
    } catch (const Error&) {
      continue;  // the test before says which
    }
    ++accepted;
    const Model& model = counted->model;
    EXPECT_EQ(to_decimal(counted->parameters()),
              std::to_string(released::released_parameters(config)))
        << name;
    const ModelSummary summary = summarize(model);
    const std::string type = config.value("model_type", "");
    if (model.config().family != Family::kEncoder && type != "reformer" &&  // keeps more than keys
        type != "clip_text_model") {
      EXPECT_EQ(to_decimal(summary.cache_per_token),
                std::to_string(released::cache_elements_per_token(config)))
          << name;
    }
    if (summary.experts > 0) {
      EXPECT_EQ(to_decimal(summary.active), std::to_string(released::active_parameters(config)))
          << name;
    }
    std::uint64_t products = 0;
    const std::size_t n = std::min<std::size_t>(100, model.config().max_length);
    if (model.config().attention.starts_with("relative-key"))
      continue;  // and products of distances
    try {
      products = released::gemm_maccs(config, n);
    } catch (const std::exception&) {
      continue;  // a sparse pattern, whose products are its mechanism's business
    }
    // The library scores every token and takes the last.
    const bool last = model.config().pool == Pool::kLast && model.config().pools();
    const std::size_t others = last ? (n - 1) * model.config().d_model * model.config().classes : 0;
    EXPECT_EQ(maccs(model, n) + others, products) << name;
  }
  EXPECT_GE(accepted, 340U);
}

}  // namespace released_test
}  // namespace longspan
