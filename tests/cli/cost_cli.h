// What the tests of cost share: its report, and one block of a transformer as its options.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace cost_cli {

using Count = std::int64_t;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

inline Json cost(Arguments arguments) {
  arguments.insert(arguments.begin(), {"cost", "--json"});
  const Outcome outcome = longspan(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

struct Dimensions {
  Count encoder_layers, decoder_layers, d, h, f, v, n, m, batch;
};

inline Arguments arguments_of(const Dimensions& s) {
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
inline Arguments changed(const Dimensions& s, const Arguments& more) {
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

inline const Dimensions kBlock{1, 0, 64, 4, 256, 1000, 128, 128, 1};

}  // namespace cost_cli
}  // namespace longspan::testing
