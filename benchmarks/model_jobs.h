// Whole models: encoders that read texts, decoders that write a token, steps of training.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks/job.h"

namespace longspan::bench {

// {"kind": "encode", "layers": 6, "width": 768, "lengths": [of each text]}
std::unique_ptr<Job> encode_job(const nlohmann::json& job);
// {"kind": "decode", "layers": 6, "width": 768, "batch": 1, "cached": tokens before}
std::unique_ptr<Job> decode_job(const nlohmann::json& job);
// {"kind": "train_step", "recipe": "R1"}
std::unique_ptr<Job> training_job(const nlohmann::json& job);

}  // namespace longspan::bench
