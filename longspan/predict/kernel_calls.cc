#include "longspan/predict/kernel_calls.h"

#include <array>
#include <memory>

#include "longspan/attention/registry.h"
#include "longspan/base/integers.h"
#include "longspan/base/random.h"
#include "longspan/kernels/fourier/fourier.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/activation.h"
#include "longspan/kernels/rows/norm.h"
#include "longspan/kernels/rows/softmax.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/predict/operation.h"
#include "longspan/predict/quantities.h"

namespace longspan {

namespace {

struct LayerShape {
  std::size_t rows, in, out;
};
// Layers of models from 64 to 1024 wide, with few rows and many.
constexpr std::array kLayerShapes = {
    LayerShape{16, 64, 64},      LayerShape{64, 64, 192},    LayerShape{256, 64, 256},
    LayerShape{1024, 64, 64},    LayerShape{1024, 256, 64},  LayerShape{64, 128, 384},
    LayerShape{256, 128, 128},   LayerShape{1024, 128, 512}, LayerShape{256, 512, 128},
    LayerShape{2048, 128, 384},  LayerShape{64, 256, 1024},  LayerShape{256, 256, 768},
    LayerShape{1024, 256, 256},  LayerShape{512, 1024, 256}, LayerShape{32, 512, 512},
    LayerShape{128, 512, 1536},  LayerShape{512, 512, 512},  LayerShape{512, 512, 2048},
    LayerShape{256, 2048, 512},  LayerShape{64, 1024, 1024}, LayerShape{192, 768, 768},
    LayerShape{1024, 256, 1000}, LayerShape{384, 192, 70},   LayerShape{24, 256, 10},
    LayerShape{2048, 64, 256},   LayerShape{96, 96, 288},
};

// What a sentence, a few texts or the next token need.
constexpr std::array kFewRows = {
    LayerShape{1, 128, 384},   LayerShape{1, 512, 512},   LayerShape{1, 768, 3072},
    LayerShape{1, 3072, 768},  LayerShape{2, 768, 768},   LayerShape{4, 256, 1024},
    LayerShape{6, 768, 2304},  LayerShape{8, 512, 2048},  LayerShape{12, 768, 768},
    LayerShape{20, 384, 1536}, LayerShape{48, 768, 3072}, LayerShape{128, 3072, 768},
};

struct RowShape {
  std::size_t rows, cols;
};
// Up to 1 MB where they are to stay in the cache.
constexpr std::array kWarmRows = {RowShape{64, 64}, RowShape{256, 64}, RowShape{128, 512},
                                  RowShape{512, 256}, RowShape{1024, 256}};
constexpr std::array kColdRows = {RowShape{256, 64}, RowShape{512, 256}, RowShape{1024, 512},
                                  RowShape{2048, 1024}};

// Sequences of lengths with small factors and with large ones.
constexpr std::array kSequences = {RowShape{64, 64},    RowShape{128, 256}, RowShape{197, 192},
                                   RowShape{512, 128},  RowShape{384, 768}, RowShape{536, 256},
                                   RowShape{1024, 256}, RowShape{2048, 512}};

// Collects calls on rows×cols; `body` takes its operands from the pool.
class RowCalls {
 public:
  RowCalls(OperandPool& pool, std::vector<TimedCall>& calls, std::size_t rows, std::size_t cols)
      : pool_(pool), calls_(calls), rows_(rows), cols_(cols) {}

  template <class Body>
  void add(const std::string& rate, Body body) {
    calls_.push_back({rate, row_quantities(rows_, cols_), [&pool = pool_, body] {
                        pool.begin();
                        body();
                      }});
  }

  void norms();
  void activations();
  void loss();
  void tables();
  void sums();

 private:
  OperandPool& pool_;
  std::vector<TimedCall>& calls_;
  std::size_t rows_;
  std::size_t cols_;
};

void RowCalls::norms() {
  constexpr float kEpsilon = 1e-5F;
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    const std::string name = kind == NormKind::kLayer ? "layer" : "rms";
    const auto forward = [&p = pool_, r = rows_, c = cols_, kind](bool saves) {
      const Matrix x = p.matrix(r, c);
      const float* gamma = p.floats(c).data();
      const float* beta = p.floats(c).data();
      const Matrix y = p.matrix(r, c);
      norm_forward(kind, kEpsilon, x, gamma, kind == NormKind::kLayer ? beta : nullptr, y,
                   saves ? p.matrix(r, c) : Matrix{}, saves ? p.floats(r) : std::span<float>{});
    };
    add("norm " + name, [forward] { forward(false); });
    add("norm saved " + name, [forward] { forward(true); });
    add("norm backward " + name, [&p = pool_, r = rows_, c = cols_, kind] {
      const Matrix normalized = p.matrix(r, c);
      const auto inverse = p.floats(r);
      const float* gamma = p.floats(c).data();
      const Matrix dy = p.matrix(r, c);
      norm_backward(kind, normalized, inverse, gamma, dy, p.matrix(r, c), /*add=*/true);
    });
    add("norm update " + name, [&p = pool_, r = rows_, c = cols_, kind] {
      const Matrix normalized = p.matrix(r, c);
      const Matrix dy = p.matrix(r, c);
      float* dgamma = p.floats(c).data();
      norm_accumulate(kind, normalized, dy, dgamma,
                      kind == NormKind::kLayer ? p.floats(c).data() : nullptr);
    });
  }
}

void RowCalls::activations() {
  for (const Activation f :
       {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu,
        Activation::kTanh, Activation::kQuickGelu, Activation::kRelu2}) {
    const std::string name(name_of(f));
    add("activation " + name, [&p = pool_, r = rows_, c = cols_, f] {
      const Matrix z = p.matrix(r, c);
      activation_forward(f, z, p.matrix(r, c));
    });
    add("activation backward " + name, [&p = pool_, r = rows_, c = cols_, f] {
      const Matrix z = p.matrix(r, c);
      const Matrix dh = p.matrix(r, c);
      activation_backward(f, z, dh, dh);
    });
    add("gated " + name, [&p = pool_, r = rows_, c = cols_, f] {
      const Matrix z = p.matrix(r, 2 * c);
      gated_forward(f, z.slice_cols(0, c), z.slice_cols(c, c), p.matrix(r, c));
    });
    add("gated backward " + name, [&p = pool_, r = rows_, c = cols_, f] {
      const Matrix z = p.matrix(r, 2 * c);
      const Matrix dh = p.matrix(r, c);
      const Matrix dz = p.matrix(r, 2 * c);
      gated_backward(f, z.slice_cols(0, c), z.slice_cols(c, c), dh, dz.slice_cols(0, c),
                     dz.slice_cols(c, c));
    });
  }
}

void RowCalls::loss() {
  std::vector<std::int32_t> targets(rows_);
  for (std::size_t i = 0; i < rows_; ++i) targets[i] = static_cast<std::int32_t>(i % cols_);
  add("loss",
      [&p = pool_, r = rows_, c = cols_, targets] { cross_entropy(p.matrix(r, c), targets); });
  add("loss forward", [&p = pool_, r = rows_, c = cols_, targets] {
    cross_entropy_forward(p.matrix(r, c), targets, 1.0F);
  });
  add("softmax", [&p = pool_, r = rows_, c = cols_] { softmax_forward(p.matrix(r, c)); });
  // One element of each row.
  calls_.push_back(
      {"loss backward", row_quantities(rows_, 1), [&p = pool_, r = rows_, c = cols_, targets] {
         p.begin();
         cross_entropy_backward(p.matrix(r, c), targets, 1e-6F);
       }});
}

void RowCalls::tables() {
  constexpr std::size_t kVocabulary = 256;
  std::vector<std::int32_t> ids(rows_);
  for (std::size_t i = 0; i < rows_; ++i) {
    ids[i] = static_cast<std::int32_t>(random_below(7, i, kVocabulary));
  }
  add("gather", [&p = pool_, r = rows_, c = cols_, ids] {
    const Matrix table = p.matrix(kVocabulary, c);
    gather_rows(table, ids, p.matrix(r, c));
  });
  add("scatter", [&p = pool_, r = rows_, c = cols_, ids] {
    const Matrix table = p.matrix(kVocabulary, c);
    scatter_add_rows(p.matrix(r, c), ids, table);
  });
  constexpr std::size_t kHead = 64;
  std::vector<float> angles(rows_ * kHead);
  const Rotary rotary;
  rotary_table(rotary, rows_, kHead, angles.data(), angles.data() + angles.size() / 2);
  add("rotary", [&p = pool_, r = rows_, c = cols_, angles, rotary] {
    const ConstMatrix cosines(angles.data(), r, kHead / 2);
    const ConstMatrix sines(angles.data() + angles.size() / 2, r, kHead / 2);
    rotate(rotary, cosines, sines, 0, Heads::from_columns(p.matrix(r, c), 1, c / kHead), false);
  });
}

void RowCalls::sums() {
  add("add", [&p = pool_, r = rows_, c = cols_] {
    const Matrix a = p.matrix(r, c);
    const Matrix b = p.matrix(r, c);
    longspan::add(a, b, b);
  });
  add("move", [&p = pool_, r = rows_, c = cols_] {
    const Matrix x = p.matrix(r, c);
    longspan::copy(x, p.matrix(r, c));
  });
  add("column sums", [&p = pool_, r = rows_, c = cols_] {
    const Matrix x = p.matrix(r, c);
    add_column_sums(x, p.floats(c).data());
  });
  add("dropout", [&p = pool_, r = rows_, c = cols_] {
    const Matrix x = p.matrix(r, c);
    dropout({0.1F, 3}, x, x);
  });
}

}  // namespace

OperandPool::OperandPool(std::size_t bytes, bool cold) : data_(bytes / sizeof(float)), cold_(cold) {
  std::uint32_t state = 1;
  for (float& v : data_) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8U) * 0x1p-23F - 1.0F;
  }
}

void OperandPool::begin() {
  if (!cold_) next_ = 0;
}

Matrix OperandPool::matrix(std::size_t rows, std::size_t cols) {
  constexpr std::size_t kLine = 16;  // floats
  const std::size_t count = round_up(rows * cols, kLine);
  if (next_ + count > data_.size()) next_ = 0;
  float* data = data_.data() + next_;
  next_ += count;
  return {data, rows, cols};
}

void add_packed_product(OperandPool& pool, const LayerShape& s, std::vector<TimedCall>& calls) {
  calls.push_back({"product packed", packed_quantities(s.rows, s.out, s.in), [&pool, s] {
                     pool.begin();
                     const Matrix x = pool.matrix(s.rows, s.in);
                     // Any numbers may be packed ones.
                     const WeightMatrix w(pool.matrix(s.out, s.in), /*is_packed=*/true);
                     const float* bias = pool.floats(s.out).data();
                     linear_forward(x, w, bias, pool.matrix(s.rows, s.out));
                   }});
}

void add_products(OperandPool& pool, std::vector<TimedCall>& calls) {
  for (const LayerShape& s : kFewRows) add_packed_product(pool, s, calls);
  for (const LayerShape& s : kLayerShapes) {
    add_packed_product(pool, s, calls);
    calls.push_back({"product forward", product_quantities(s.rows, s.out, s.in), [&pool, s] {
                       pool.begin();
                       const Matrix x = pool.matrix(s.rows, s.in);
                       const Matrix w = pool.matrix(s.out, s.in);
                       const float* bias = pool.floats(s.out).data();
                       linear_forward(x, w, bias, pool.matrix(s.rows, s.out));
                     }});
    calls.push_back({"product backward", product_quantities(s.rows, s.in, s.out), [&pool, s] {
                       pool.begin();
                       const Matrix dy = pool.matrix(s.rows, s.out);
                       const Matrix w = pool.matrix(s.out, s.in);
                       gemm(dy, w, pool.matrix(s.rows, s.in));
                     }});
    calls.push_back({"product update", product_quantities(s.out, s.in, s.rows), [&pool, s] {
                       pool.begin();
                       const Matrix dy = pool.matrix(s.rows, s.out);
                       const Matrix x = pool.matrix(s.rows, s.in);
                       gemm(dy, x, pool.matrix(s.out, s.in),
                            {.transpose_a = true, .add = true, .alpha = 1e-6F});
                     }});
  }
}

void add_row_calls(OperandPool& pool, std::vector<TimedCall>& calls) {
  const std::span<const RowShape> shapes =
      pool.cold() ? std::span<const RowShape>(kColdRows) : std::span<const RowShape>(kWarmRows);
  for (const RowShape& s : shapes) {
    RowCalls row(pool, calls, s.rows, s.cols);
    row.norms();
    row.activations();
    row.loss();
    row.tables();
    row.sums();
  }
}

void add_transforms(OperandPool& pool, std::vector<TimedCall>& calls) {
  for (const RowShape& s : kSequences) {
    Arena booking = Arena::dry();
    {
      const Dry dry;
      const Matrix x(Dry::memory<float>(s.rows * s.cols).data(), s.rows, s.cols);
      fourier_mix(1, x, x, booking);
    }
    calls.push_back({"fourier",
                     transform_quantities(s.rows * s.cols, fourier_work(1, s.rows, s.cols)),
                     [&pool, s, arena = std::make_shared<Arena>(booking.peak())] {
                       pool.begin();
                       const Matrix x = pool.matrix(s.rows, s.cols);
                       fourier_mix(1, x, pool.matrix(s.rows, s.cols), *arena);
                     }});
  }
}

void add_optimizer_calls(OperandPool& pool, std::vector<TimedCall>& calls) {
  const StepOptions options{.learning_rate = 1e-6F, .weight_decay = 0.1F, .decoupled = true};
  const std::size_t largest = pool.bytes() / sizeof(float) / 5;
  for (const std::size_t count : {largest / 16, largest / 4, largest}) {
    RowCalls flat(pool, calls, 1, count);
    flat.add("squares", [&p = pool, count] { sum_of_squares(p.floats(count)); });
    flat.add("step sgd", [&p = pool, count, options] {
      const auto g = p.floats(count);
      sgd_step(options, g, p.floats(count));
    });
    flat.add("step momentum", [&p = pool, count, options] {
      const auto g = p.floats(count);
      const auto v = p.floats(count);
      momentum_step(options, g, v, p.floats(count));
    });
    flat.add("step adam", [&p = pool, count, options] {
      const auto g = p.floats(count);
      const auto m = p.floats(count);
      const auto v = p.floats(count);
      adam_step(options, g, m, v, p.floats(count));
    });
  }
}

std::map<std::string, std::size_t> calibrated_rates() {
  OperandPool none(0, /*cold=*/false);
  std::vector<TimedCall> calls;
  add_products(none, calls);
  add_row_calls(none, calls);
  add_transforms(none, calls);
  add_optimizer_calls(none, calls);
  std::map<std::string, std::size_t> rates;
  for (const TimedCall& call : calls) rates[call.rate] = call.x.size();
  for (const Mechanism& m : mechanisms()) {
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      rates[attention_rate(m.name, phase)] = attention_quantities(1.0, {}).size();
    }
  }
  return rates;
}

}  // namespace longspan
