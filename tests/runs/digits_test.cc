// The learning rules on a few hundred digits: the fast version of the MNIST runs in docs/results.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "longspan/learning/alignment.h"
#include "longspan/learning/trainer.h"
#include "longspan/tasks/images.h"

namespace longspan {
namespace digits_test {

struct Digits {
  ImageCorpus corpus{LONGSPAN_SOURCE_DIR "/data/mnist-small"};
  std::vector<std::uint32_t> indices;
  std::vector<float> features;
  std::vector<std::int32_t> labels;

  Batch view(const ImageSet& set) {
    features.resize(indices.size() * set.image_size());
    labels.resize(indices.size());
    ImageCorpus::features(set, indices, features);
    ImageCorpus::labels(set, indices, labels);
    return {.batch = indices.size(), .length = 1, .features = features, .targets = labels};
  }
  Batch training(std::uint64_t step, std::size_t batch) {
    indices.resize(batch);
    corpus.training_indices(1, step, indices);
    return view(corpus.training());
  }
  Batch test() {
    indices.resize(corpus.test().count);
    std::iota(indices.begin(), indices.end(), 0U);
    return view(corpus.test());
  }
};

struct Learned {
  double accuracy = 0.0;
  double alignment = 0.0;  // of the hidden layer, mean of the second half
};

Learned learn(const char* rule) {
  Digits digits;
  ModelConfig c;
  c.family = Family::kPerceptron;
  c.head = HeadKind::kClassifier;
  c.inputs = 784;
  c.d_model = 128;
  c.layers = 1;
  c.classes = 10;
  c.activation = Activation::kRelu;
  c.bias = false;
  c.dropout = 0.1F;
  Model model(c);
  model.allocate(1);
  TrainConfig t;
  t.rule = rule;
  t.optimizer.kind = "momentum";
  t.optimizer.weight_decay = 0.0F;
  t.clip = 0.0F;
  constexpr std::uint64_t kSteps = 900;
  t.schedule = {.kind = "linear", .peak = 0.05F, .floor = 0.001F, .warmup = 0, .total = kSteps};
  Trainer trainer(model, t);
  Learned learned;
  int measured = 0;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const Batch batch = digits.training(step, 20);
    if (step >= kSteps / 2 && step % 50 == 0) {
      learned.alignment += measure_alignment(model, trainer.rule(), batch, step).front().cosine;
      ++measured;
    }
    EXPECT_TRUE(trainer.step({&batch, 1}).finite);
  }
  learned.alignment /= measured;
  const LossSum test = model.evaluate(digits.test());
  learned.accuracy = static_cast<double>(test.correct) / static_cast<double>(test.counted);
  return learned;
}

TEST(Digits, AreLearntByEveryRule) {
  const Learned bp = learn("bp");
  const Learned pepita = learn("pepita");
  const Learned mempepita = learn("mempepita");
  EXPECT_GT(bp.accuracy, 0.80);
  EXPECT_GT(pepita.accuracy, 0.75) << "a tenth is chance";
  EXPECT_EQ(pepita.accuracy, mempepita.accuracy);
  EXPECT_NEAR(bp.alignment, 1.0, 1e-6);
  EXPECT_GT(pepita.alignment, 0.05) << "it points where backpropagation does";
}

}  // namespace digits_test
}  // namespace longspan
