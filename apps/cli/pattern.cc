// longspan pattern: which keys each query sees, and why.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "command.h"
#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "output_file.h"
#include "picture.h"

namespace longspan::cli {

namespace {

struct Options {
  std::string attention;
  std::size_t length = 64;
  std::size_t heads = 4;
  std::size_t head = 0;
  bool causal = false;
  std::string out;
  Existing existing = Existing::kKept;
};

constexpr std::size_t kHeadWidth = 64;
constexpr std::size_t kWidestTerminal = 256;

// The weights that a mechanism gives to the values, read off from values that are 0 and 1: as many
// keys at a time as a value is wide. Rows that do not read the values stay empty.
std::vector<bool> probe(const LoneAttention& attention, const Options& o,
                        const AttentionShape& shape) {
  const std::size_t width = o.heads * kHeadWidth;
  attention->check(shape);
  std::vector<float> q(o.length * width), k(q), v(q), x(q), y(q);
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = random_normal(2, i);
    k[i] = random_normal(3, i);
    x[i] = random_normal(4, i);
  }
  const auto heads = [&](std::vector<float>& data) {
    return Heads::from_columns(Matrix(data.data(), o.length, width), 1, o.heads);
  };
  AttentionInputs in;
  in.q = heads(q);
  in.k = attention->abilities().shared_qk ? in.q : heads(k);
  in.v = heads(v);
  in.mask.causal = o.causal;
  if (attention.streams().calls(Source::kInput)) in.x = ConstMatrix(x.data(), o.length, width);
  Arena arena(attention->cost(shape).forward_scratch);
  std::vector<bool> seen(o.length * o.length, false);
  for (std::size_t first = 0; first < o.length; first += kHeadWidth) {
    const std::size_t count = std::min(kHeadWidth, o.length - first);
    std::ranges::fill(v, 0.0F);
    const Matrix values = heads(v).head(0, o.head);
    for (std::size_t j = 0; j < count; ++j) values.row(first + j)[j] = 1.0F;
    attention->forward({in, heads(y), {}, arena});
    for (std::size_t i = 0; i < o.length; ++i) {
      const auto row = heads(y).head(0, o.head).row(i);
      for (std::size_t j = 0; j < count; ++j) seen[i * o.length + first + j] = row[j] != 0.0F;
    }
  }
  return seen;
}

Picture draw(const Options& o) {
  LoneAttention attention(o.attention, {.d_model = o.heads * kHeadWidth,
                                        .heads = o.heads,
                                        .kv_heads = o.heads,
                                        .d_head = kHeadWidth,
                                        .max_length = o.length});
  attention.allocate();
  AttentionShape shape;
  shape.heads = shape.kv_heads = o.heads;
  shape.m = shape.n = o.length;
  shape.d = shape.e = kHeadWidth;
  shape.causal = o.causal;
  Picture picture(o.length);
  const auto* fixed = dynamic_cast<const FixedPattern*>(&*attention);
  const std::vector<bool> seen = probe(attention, o, shape);
  const std::string_view other = reason_of(find_mechanism(o.attention).kind);
  for (std::size_t i = 0; i < o.length; ++i) {
    for (std::size_t j = 0; j < o.length; ++j) {
      if (fixed != nullptr) {
        picture.set(i, j, fixed->reason(shape, o.head, i, j));
      } else if (seen[i * o.length + j]) {
        picture.set(i, j, other);
      }
    }
  }
  return picture;
}

nlohmann::json as_json(const Options& o, const Picture& picture) {
  nlohmann::json json = {{"attention", o.attention},
                         {"length", o.length},
                         {"head", o.head},
                         {"causal", o.causal},
                         {"rows", nlohmann::json::array()}};
  for (std::size_t i = 0; i < o.length; ++i) {
    nlohmann::json row = nlohmann::json::array();
    for (const Picture::Run& run : picture.runs(i)) {
      row.push_back({{"begin", run.begin}, {"end", run.end}, {"reason", run.reason}});
    }
    json["rows"].push_back(row);
  }
  for (const auto& [reason, pairs] : picture.counts()) json["pairs"][reason] = pairs;
  return json;
}

void check_place(const Options& o) {
  const std::string extension = std::filesystem::path(o.out).extension().string();
  require(extension == ".svg" || extension == ".png",
          "[pattern] --out is '{}'; need a name that ends in .svg or .png", o.out);
  check_output("pattern", o.out, o.existing);
}

void save(const Options& o, const Picture& picture) {
  AtomicFile file("pattern", o.out);
  file.write(o.out.ends_with(".svg") ? picture.svg(o.attention) : picture.png());
  file.commit();
}

void run(const Options& o, const Common& common) {
  require(o.head < o.heads, "[pattern] head {} of {}; need one from 0 to {}", o.head, o.heads,
          o.heads - 1);
  require_mechanism("pattern", o.attention);
  if (!o.out.empty()) check_place(o);
  const Picture picture = draw(o);
  if (!o.out.empty()) save(o, picture);
  if (common.json) {
    fmt::print("{}\n", as_json(o, picture).dump());
  } else if (o.length <= kWidestTerminal) {
    fmt::print("{}", picture.text(isatty(STDOUT_FILENO) != 0));
  } else {
    require(!o.out.empty(), "[pattern] {} tokens do not fit a terminal; need --out or at most {}",
            o.length, kWidestTerminal);
  }
}

}  // namespace

void add_pattern(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("pattern", "Which keys each query attends to, and why");
  const auto o = std::make_shared<Options>();
  command->add_option("attention", o->attention, "KIND[:key=value,…], as longspan list names it")
      ->required();
  add_number(*command, "--length", o->length, "Tokens", from_to(1, 65536));
  add_number(*command, "--heads", o->heads, "Heads", from_to(1, 1024));
  add_number(*command, "--head", o->head, "The head to show", from_to(0, 1023));
  command->add_flag("--causal", o->causal, "With a causal mask");
  add_text(*command, "--out", o->out, "Also write the picture: file.svg or file.png");
  add_overwrite(*command, o->existing);
  command->callback([o, &common] { run(*o, common); });
}

}  // namespace longspan::cli
