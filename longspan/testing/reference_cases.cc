#include "longspan/testing/reference_cases.h"

#include <gtest/gtest.h>

#include <limits>

#include "longspan/base/random.h"

namespace longspan::testing {

namespace {

ModelConfig small(const std::string& family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.d_model = 12;
  c.heads = 3;
  c.d_ff = 19;
  c.vocab = 13;
  c.max_length = 9;
  return c;
}

ModelConfig gpt() {
  ModelConfig c = small("decoder");
  c.attention = "full";
  c.d_ff = 0;
  return c;
}

ModelConfig llama() {
  ModelConfig c = small("decoder");
  c.d_model = 16;
  c.heads = 4;
  c.kv_heads = 2;
  c.norm = NormKind::kRms;
  c.norm_epsilon = 0.05F;
  c.activation = Activation::kSilu;
  c.gated = true;
  c.positions = PositionKind::kRotary;
  c.rotary_base = 30.0F;
  c.rotary_interleaved = false;
  c.bias = false;
  c.tied = false;
  return c;
}

ModelConfig reversible_decoder() {
  ModelConfig c = small("decoder");
  c.wiring = Wiring::kReversible;
  c.norm = NormKind::kRms;
  c.activation = Activation::kRelu;
  c.positions = PositionKind::kSinusoidal;
  c.kv_heads = 1;
  c.head_bias = true;
  return c;
}

ModelConfig rotary_post() {
  ModelConfig c = small("decoder");
  c.wiring = Wiring::kPostNorm;
  c.attention = "full";
  c.heads = 2;
  c.positions = PositionKind::kRotary;
  c.activation = Activation::kGelu;
  c.padding_token = 2;
  return c;
}

ModelConfig bert() {
  ModelConfig c = small("encoder");
  c.wiring = Wiring::kPostNorm;
  c.activation = Activation::kGelu;
  c.norm_epsilon = 1e-3F;
  c.embedding_norm = true;
  c.token_types = 3;
  c.head_transform = true;
  c.head_norm = true;
  c.head_bias = true;
  c.padding_token = 0;
  return c;
}

ModelConfig classifier(const std::string& wiring, const std::string& pool) {
  ModelConfig c = small("encoder");
  c.head = HeadKind::kClassifier;
  c.classes = 5;
  c.wiring = wiring;
  c.pool = pool;
  return c;
}

ModelConfig translator(const std::string& wiring) {
  ModelConfig c = small("encoder-decoder");
  c.layers = 1;
  c.decoder_layers = 2;
  c.wiring = wiring;
  return c;
}

ModelConfig with_dropout(ModelConfig c) {
  c.dropout = 0.2F;
  return c;
}

ModelConfig concatenated() {
  ModelConfig c = reversible_decoder();
  c.streams = StreamEnd::kConcat;
  c.tied = false;
  c.attention = "full|flash";
  c.positions = PositionKind::kAxial;
  c.axial_rows = 2;
  c.axial_width = 5;
  return c;
}

ModelConfig scaled() {
  ModelConfig c = small("decoder");
  c.embedding_scale = true;
  c.position_offset = 3;
  c.final_norm = false;
  return c;
}

ModelConfig checkpointed(ModelConfig c) {
  c.checkpointing = true;
  return c;
}

// Deep enough for the rounding of reversible streams to show, if it grew.
ModelConfig deep(ModelConfig c) {
  c.layers = 10;
  return c;
}

std::vector<ModelCase> decoder_cases() {
  return {{"gpt", gpt(), {.batch = 2, .length = 7}},
          {"llama", llama(), {.batch = 2, .length = 6}},
          {"llama_padded", llama(), {.batch = 3, .length = 5, .padded = true}},
          {"decoder_one_token", gpt(), {.batch = 1, .length = 1}},
          {"decoder_reversible", reversible_decoder(), {.batch = 2, .length = 6}},
          {"decoder_reversible_deep", deep(reversible_decoder()), {.batch = 1, .length = 5}},
          {"decoder_rotary_post", rotary_post(), {.batch = 3, .length = 5, .padded = true}},
          {"decoder_concat", concatenated(), {.batch = 2, .length = 7}},
          {"decoder_scaled", scaled(), {.batch = 2, .length = 6}},
          {"decoder_dropout", with_dropout(gpt()), {.batch = 2, .length = 7}},
          {"decoder_checkpointed", checkpointed(with_dropout(gpt())), {.batch = 2, .length = 7}},
          {"decoder_reversible_dropout",
           with_dropout(reversible_decoder()),
           {.batch = 2, .length = 6}}};
}

std::vector<ModelCase> encoder_cases() {
  ModelConfig first = classifier("post", "first");
  first.positions = PositionKind::kNone;
  first.token_types = 2;
  first.head_transform = true;
  first.head_activation = Activation::kTanh;
  first.head_bias = true;
  ModelConfig mean = classifier("reversible", "mean");
  mean.kv_heads = 1;
  ModelConfig transformed_mean = classifier("pre", "mean");
  transformed_mean.head_transform = true;
  transformed_mean.head_norm = true;
  transformed_mean.norm = NormKind::kRms;
  ModelConfig roformer = small("encoder");
  roformer.heads = 2;
  roformer.positions = PositionKind::kRotary;
  roformer.attention = "full";
  roformer.tied = false;
  ModelConfig tagger = small("encoder");
  tagger.head = HeadKind::kTagger;
  tagger.classes = 4;
  tagger.head_bias = true;
  tagger.embedding_mask = true;
  tagger.embedding_norm = true;
  ModelConfig detector = small("encoder");
  detector.head = HeadKind::kTagger;
  detector.classes = 1;
  detector.loss = "binary";
  detector.head_transform = true;
  detector.activation = Activation::kQuickGelu;
  ModelConfig labels = classifier("post", "mean");
  labels.loss = "binary";
  labels.activation = Activation::kRelu2;
  ModelConfig last = classifier("pre", "last");
  last.family = Family::kDecoder;
  ModelConfig largest = last;
  largest.pool = Pool::kLargest;
  largest.activation = Activation::kQuickGelu;
  ModelConfig fourier = small("encoder");
  fourier.wiring = Wiring::kPostNorm;
  fourier.attention = "fnet|flash";
  ModelConfig convolved = small("encoder");
  convolved.attention = "conv:width=3|flash";
  ModelConfig timed = small("decoder");
  timed.positions = PositionKind::kTemporal;
  timed.head = HeadKind::kTagger;
  timed.classes = 6;
  const BatchShape padded{.batch = 3, .length = 5, .padded = true};
  return {{"timed", timed, padded},
          {"detector", detector, padded},
          {"labels", labels, padded},
          {"decoder_last", last, padded},
          {"decoder_largest", largest, padded},
          {"convolved", convolved, padded},
          {"convolved_dropout", with_dropout(convolved), padded},
          {"fourier", fourier, {.batch = 2, .length = 6}},
          {"fourier_dropout", with_dropout(fourier), {.batch = 2, .length = 6}},
          {"tagger", tagger, padded},
          {"bert", bert(), {.batch = 3, .length = 6, .padded = true, .typed = true}},
          {"bert_dropout",
           with_dropout(bert()),
           {.batch = 2, .length = 6, .padded = true, .typed = true}},
          {"classifier_first", first, padded},
          {"classifier_mean", mean, padded},
          {"classifier_transformed_mean", transformed_mean, padded},
          {"roformer", roformer, {.batch = 2, .length = 7}}};
}

std::vector<ModelCase> translator_cases() {
  ModelConfig post = translator("post");
  post.positions = PositionKind::kSinusoidal;
  post.activation = Activation::kRelu;
  ModelConfig pre = translator("pre");
  pre.norm = NormKind::kRms;
  pre.activation = Activation::kGelu;
  pre.gated = true;
  pre.kv_heads = 1;
  pre.tied = false;
  pre.attention = "full";
  pre.decoder_attention = "flash";
  pre.cross_attention = "full";
  pre.token_types = 2;
  pre.padding_token = 1;
  ModelConfig reversible = translator("reversible");
  reversible.heads = 2;
  reversible.positions = PositionKind::kRotary;
  reversible.embedding_norm = true;
  reversible.head_transform = true;
  reversible.head_activation = Activation::kSilu;
  ModelConfig two_tables = post;
  two_tables.attention_bias = false;
  two_tables.shared_table = false;
  const BatchShape wide{.batch = 2, .length = 4, .source_length = 7, .padded = true};
  const BatchShape tall{.batch = 3, .length = 6, .source_length = 3, .padded = true, .typed = true};
  return {{"translator_post", post, wide},
          {"translator_pre", pre, tall},
          {"translator_two_tables", two_tables, wide},
          {"translator_reversible", reversible, wide},
          {"translator_dropout", with_dropout(post), wide},
          {"translator_checkpointed", checkpointed(post), wide},
          {"translator_reversible_dropout", with_dropout(reversible), wide}};
}

ModelConfig frozen(ModelConfig c, std::size_t layers) {
  c.frozen_layers = layers;
  return c;
}

ModelConfig adapted(ModelConfig c) {
  c.lora_rank = 3;
  c.lora_alpha = 5.0F;
  return c;
}

// One full sequence, the others shorter and shorter; never empty.
std::vector<std::int32_t> some_lengths(std::size_t batch, std::size_t length) {
  std::vector<std::int32_t> lengths(batch);
  for (std::size_t b = 0; b < batch; ++b) {
    lengths[b] = static_cast<std::int32_t>(length > 2 * b ? length - 2 * b : 1);
  }
  return lengths;
}

std::vector<float> normals(std::size_t count, RandomKey key) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = random_normal(key, i);
  return values;
}

// One in seven is missing.
std::vector<float> some_values(std::size_t count, RandomKey key) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = i % 7 == 3 ? std::numeric_limits<float>::quiet_NaN() : random_normal(key, i);
  }
  return values;
}

std::vector<std::int32_t> draw(std::size_t count, std::size_t bound, RandomKey key) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::int32_t>(random_below(key, i, bound));
  }
  return values;
}

}  // namespace

std::vector<ModelCase> frozen_cases() {
  const BatchShape some{.batch = 2, .length = 7};
  const BatchShape typed{.batch = 3, .length = 6, .padded = true, .typed = true};
  const BatchShape wide{.batch = 2, .length = 4, .source_length = 7, .padded = true};
  return {{"frozen_one", frozen(gpt(), 1), some},
          {"frozen_all", frozen(with_dropout(gpt()), 2), some},
          {"frozen_checkpointed", checkpointed(frozen(deep(rotary_post()), 4)), some},
          {"frozen_bert", frozen(with_dropout(bert()), 1), typed},
          {"frozen_translator", frozen(translator("pre"), 1), wide},
          {"adapted_llama", adapted(llama()), some},
          {"adapted_bert", adapted(with_dropout(bert())), typed},
          {"adapted_reversible", adapted(reversible_decoder()), some},
          {"adapted_translator", checkpointed(adapted(translator("post"))), wide}};
}

std::vector<ModelCase> student_cases() {
  const auto student = [](ModelConfig c, const char* loss) {
    c.loss = loss;
    return c;
  };
  constexpr const char* kScores = "distillation:temperature=3,teacher_weight=0.6";
  constexpr const char* kStates =
      "distillation:temperature=1.5,teacher_weight=0.25,hidden_weight=0.8";
  const BatchShape some{.batch = 3, .length = 5, .padded = true};
  const BatchShape wide{.batch = 2, .length = 4, .source_length = 7, .padded = true};
  return {{"student_gpt", student(gpt(), kStates), some},
          {"student_llama", student(llama(), kScores), some},
          {"student_bert", student(with_dropout(bert()), kStates), some},
          {"student_reversible", student(reversible_decoder(), kStates), some},
          {"student_translator", student(translator("post"), kStates), wide}};
}

std::vector<ModelCase> perceptron_cases() {
  ModelConfig c = small("mlp");
  c.head = HeadKind::kClassifier;
  c.classes = 5;
  c.inputs = 11;
  c.max_length = 1;
  c.d_model = 17;
  c.activation = Activation::kRelu;
  ModelConfig plain = c;
  plain.layers = 1;
  plain.bias = false;
  ModelConfig dropped = c;
  dropped.layers = 3;
  dropped.activation = Activation::kGelu;
  dropped.dropout = 0.2F;
  dropped.head_bias = true;
  ModelConfig regressor = c;
  regressor.loss = "squared-error";
  regressor.head_bias = true;
  const BatchShape points{.batch = 7, .length = 1};
  return {{"perceptron", c, points},
          {"perceptron_plain", plain, points},
          {"perceptron_regression", regressor, points},
          {"perceptron_dropout", dropped, points}};
}

std::vector<ModelCase> staged_cases() {
  ModelConfig mean = small("encoder");
  mean.wiring = Wiring::kPostNorm;
  mean.layers = 3;
  mean.stages = "1|1";
  mean.token_types = 2;
  mean.embedding_types = false;
  ModelConfig maximum = mean;
  maximum.layers = 4;
  maximum.stages = "1|1|1";
  maximum.stage_pool = StagePool::kMax;
  maximum.stage_truncate = false;
  maximum.attention = "full|flash";
  ModelConfig apart = mean;
  apart.stage_cls = false;
  ModelConfig pooled = mean;
  pooled.unpooled_keys = false;
  pooled.attention = "fnet|flash";
  return {{"staged", mean, {.batch = 2, .length = 6, .padded = true, .typed = true}},
          {"staged_dropout", with_dropout(mean), {.batch = 2, .length = 7, .padded = true}},
          {"staged_maximum", maximum, {.batch = 2, .length = 7, .padded = true}},
          {"staged_pairs", apart, {.batch = 2, .length = 5, .padded = true}},
          {"staged_pooled_keys", pooled, {.batch = 2, .length = 6}}};
}

std::vector<ModelCase> expert_cases() {
  ModelConfig projected = small("encoder");
  projected.embedding_norm = true;
  projected.embedding_projection = true;
  projected.attention = "fnet";

  ModelConfig chosen = small("encoder");
  chosen.feed_forward = "experts:experts=3,top=2,capacity=1.5,balance=0.3|dense";
  ModelConfig switched = small("decoder");
  switched.wiring = Wiring::kReversible;
  switched.feed_forward = "experts:experts=2,capacity=0.75,balance=0.1";
  ModelConfig checkpointed = small("decoder");
  checkpointed.checkpointing = true;
  checkpointed.gated = true;
  checkpointed.feed_forward = "experts:experts=2,top=2,capacity=2,normalize=0";
  ModelConfig joined = small("decoder");
  joined.layers = 3;
  joined.gated = true;
  joined.feed_forward =
      "dense|experts:experts=3,top=2,capacity=0,balance=0.4,balance_of=stack,padding=1,width=7,"
      "shared=9,shared_gate=1,squares=0.05|experts:experts=3,top=1,capacity=0,balance=0.4,"
      "balance_of=stack,squares=0.05,normalize_one=1";
  ModelConfig grouped = small("decoder");
  grouped.gated = true;
  grouped.activation = Activation::kClamped;
  grouped.checkpointing = true;
  grouped.feed_forward =
      "dense|experts:experts=4,top=2,capacity=0,balance=0.2,score=sigmoid,groups=2,"
      "top_groups=1,group_score=two-best,scaling=1.5,width=5,shared=8,router_bias=1";
  ModelConfig released = small("encoder-decoder");
  released.decoder_layers = 2;
  released.feed_forward =
      "experts:experts=2,places=2,overflow=pass,padding=1,balance=0.3,balance_of=sequences,"
      "squares=0.1";
  return {
      {"fnet_projected", projected, {.batch = 2, .length = 5}},
      {"experts_joined", joined, {.batch = 3, .length = 5, .padded = true}},
      {"experts_grouped", grouped, {.batch = 3, .length = 7}},
      {"experts_released", released, {.batch = 4, .length = 8, .source_length = 8, .padded = true}},
      {"experts", chosen, {.batch = 3, .length = 5, .padded = true}},
      {"experts_switched", switched, {.batch = 2, .length = 7}},
      {"experts_checkpointed", checkpointed, {.batch = 2, .length = 6}}};
}

std::vector<ModelCase> pair_cases() {
  ModelConfig mean = classifier("pre", "mean");
  mean.head = HeadKind::kPairs;
  mean.head_bias = true;
  ModelConfig first = classifier("post", "first");
  first.head = HeadKind::kPairs;
  first.d_ff = 0;
  ModelConfig wide = classifier("reversible", "mean");
  wide.head = HeadKind::kPairs;
  wide.streams = StreamEnd::kConcat;
  ModelConfig span = small("encoder");
  span.head = HeadKind::kTagger;
  span.classes = 2;
  span.loss = "span";
  // Places are compared: what is added to all of them, as a last norm's shift is, has no gradient.
  span.norm = NormKind::kRms;
  ModelConfig masked_span = span;
  masked_span.loss = "span:masked=true";
  ModelConfig pretraining = bert();
  pretraining.pair_classes = 3;
  ModelConfig image = classifier("pre", "first");
  image.stem = StemKind::kPatches;
  image.channels = 2;
  image.image = 6;
  image.patch = 3;
  image.activation = Activation::kGelu;
  ModelConfig bare_image = classifier("post", "mean");
  bare_image.stem = StemKind::kPatches;
  bare_image.channels = 1;
  bare_image.image = 6;
  bare_image.patch = 2;
  bare_image.stem_bias = false;
  bare_image.class_token = false;
  bare_image.embedding_norm = true;
  ModelConfig sound = translator("pre");
  sound.stem = StemKind::kSound;
  sound.channels = 3;
  sound.max_source_length = 11;
  sound.attention = "flash:key_bias=false";
  ModelConfig weighted = classifier("post", "mean");
  weighted.loss = "weighted-sum";
  ModelConfig unbiased = gpt();
  unbiased.attention = "full:key_bias=false";
  ModelConfig frozen_sound = classifier("pre", "mean");
  frozen_sound.stem = StemKind::kSound;
  frozen_sound.channels = 5;
  const BatchShape padded{.batch = 3, .length = 5, .padded = true};
  return {{"span", span, padded},
          {"span_masked", masked_span, padded},
          {"pretraining", pretraining, {.batch = 3, .length = 6, .padded = true, .typed = true}},
          {"pretraining_dropout", with_dropout(pretraining), {.batch = 2, .length = 4}},
          {"image", image, {.batch = 2, .length = 5}},
          {"image_dropout", with_dropout(image), {.batch = 2, .length = 5}},
          {"image_mean", bare_image, {.batch = 3, .length = 9}},
          {"sound", sound, {.batch = 2, .length = 4, .source_length = 10, .padded = true}},
          {"unbiased_keys", unbiased, {.batch = 2, .length = 5}},
          {"weighted", weighted, padded},
          {"sound_classifier", frozen_sound, {.batch = 2, .length = 5}},
          {"pairs", mean, {.batch = 4, .length = 5, .padded = true}},
          {"pairs_first", with_dropout(first), {.batch = 2, .length = 6}},
          {"pairs_concat", wide, {.batch = 6, .length = 4, .padded = true}}};
}

namespace {

// Of released decoders: each field that one of them has.
std::vector<ModelCase> released_decoders() {
  ModelConfig gemma = llama();
  gemma.wiring = Wiring::kSandwich;
  gemma.head_width = 6;
  gemma.attention = "flash:before=2,scale=0.4,cap=2|flash:scale=0.4";
  gemma.query_norm = QueryNorm::kHead;
  gemma.rotary = "|base=90,scaling=linear,factor=4";
  gemma.logit_cap = 1.5F;
  ModelConfig olmo = llama();
  olmo.wiring = Wiring::kReordered;
  olmo.query_norm = QueryNorm::kWhole;
  olmo.rotary = "scaling=yarn,factor=8,original=16,fast=2,slow=0.5";
  ModelConfig oss = llama();
  oss.bias = true;
  oss.output_bias = false;
  oss.attention = "flash:before=3,sinks=true|flash:sinks=true";
  oss.rotary = "width=2,scaling=llama3,factor=4,original=20|none";
  ModelConfig neox = small("decoder");
  neox.wiring = Wiring::kParallel;
  neox.positions = PositionKind::kRotary;
  neox.rotary_base = 50.0F;
  neox.rotary_interleaved = false;
  neox.rotary = "width=2";
  ModelConfig phi = neox;
  phi.wiring = Wiring::kParallelShared;
  phi.projection_bias = false;
  phi.shared_layers = true;
  phi.logit_scale = 0.25F;
  phi.rotary = "scaling=longrope,factor=2,original=4,short=1;1.5,long=2;3";
  ModelConfig plain = small("decoder");  // OLMo's norms, GPT-J's head
  plain.norm_weight = plain.norm_bias = false;
  plain.tied = false;
  plain.head_constant_bias = true;
  plain.feed_forward_bias = false;
  ModelConfig shifts = small("decoder");
  shifts.norm_weight = false;
  shifts.attention = "flash:distances=alibi|flash:distances=alibi,slope=0.3";
  shifts.positions = PositionKind::kNone;
  ModelConfig opt = small("decoder");
  opt.embedding_width = 8;
  opt.embedding_projects_tokens = true;
  opt.embedding_projection_bias = false;
  opt.head_transform = true;
  opt.head_transform_bias = opt.head_activates = false;
  opt.output_width = 8;
  ModelConfig cohere = small("decoder");
  cohere.norm_bias = false;
  cohere.positions = PositionKind::kRotary;
  cohere.rotary = "scaling=dynamic,factor=3,original=5";
  cohere.heads = 2;
  const BatchShape some{.batch = 2, .length = 7};
  const BatchShape padded{.batch = 3, .length = 6, .padded = true};
  return {{"released_sandwich", gemma, some},
          {"released_sandwich_dropout", with_dropout(gemma), padded},
          {"released_reordered", olmo, padded},
          {"released_sinks", oss, some},
          {"released_parallel", neox, some},
          {"released_parallel_dropout", with_dropout(neox), padded},
          {"released_parallel_shared", phi, some},
          {"released_parallel_short", phi, {.batch = 2, .length = 4}},
          {"released_plain_norms", plain, padded},
          {"released_shifts", shifts, padded},
          {"released_projected_tokens", opt, some},
          {"released_no_shifts", cohere, some}};
}

std::vector<ModelCase> released_others() {
  ModelConfig electra = bert();
  electra.embedding_width = 8;
  electra.output_width = 8;
  electra.embedding_mask = true;
  electra.shared_layers = true;
  electra.layers = 3;
  ModelConfig states = small("encoder");
  states.head = HeadKind::kStates;
  states.loss = "squared-error";
  states.first_norm = false;
  states.positions = PositionKind::kSinusoidalHalves;
  ModelConfig pooled = states;
  pooled.head_transform = true;
  pooled.head_activation = Activation::kTanh;
  pooled.output_width = 5;
  pooled.pool = Pool::kMean;
  pooled.wiring = Wiring::kSandwich;
  pooled.first_norm = true;
  ModelConfig both = states;
  both.wiring = Wiring::kReversible;
  both.first_norm = true;
  both.streams = StreamEnd::kConcat;
  ModelConfig t5 = translator("pre");
  t5.norm = NormKind::kRms;
  t5.attention = "flash:scale=1,distances=buckets,buckets=6,span=9";
  t5.decoder_attention = "flash:scale=1,distances=buckets,buckets=4,span=6,two_sided=false";
  t5.cross_attention = "flash:scale=1";
  t5.positions = PositionKind::kNone;
  t5.head_width = 5;
  t5.bias = false;
  ModelConfig bart = translator("post");
  bart.decoder_heads = 2;
  bart.decoder_d_ff = 11;
  bart.max_length = 10;
  bart.max_source_length = 9;
  bart.embedding_norm = true;
  bart.decoder_norm_first = true;
  bart.head_constant_bias = true;
  ModelConfig turned = translator("parallel");
  turned.positions = PositionKind::kRotary;
  turned.heads = 3;
  turned.decoder_heads = 2;
  turned.max_length = 30;
  turned.max_source_length = 9;
  turned.query_norm = QueryNorm::kHead;
  ModelConfig one = turned;
  one.wiring = Wiring::kParallelShared;
  const BatchShape padded{.batch = 3, .length = 5, .padded = true};
  const BatchShape typed{.batch = 3, .length = 6, .padded = true, .typed = true};
  const BatchShape wide{.batch = 2, .length = 4, .source_length = 7, .padded = true};
  const BatchShape tall{.batch = 2, .length = 12, .source_length = 3, .padded = true};
  return {{"released_electra", electra, typed},
          {"released_states", states, padded},
          {"released_states_pooled", pooled, padded},
          {"released_states_concat", both, padded},
          {"released_t5", t5, wide},
          {"released_bart", bart, wide},
          {"released_turned_sides", turned, tall},
          {"released_parallel_reader", one, tall}};
}

}  // namespace

std::vector<ModelCase> released_cases() {
  std::vector<ModelCase> all = released_decoders();
  for (const ModelCase& c : released_others()) all.push_back(c);
  return all;
}

std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> all = decoder_cases();
  for (const auto& more : {encoder_cases(), translator_cases()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<ModelConfig> models_around(const Mechanism& mechanism) {
  const Abilities able = mechanism.abilities("");
  std::vector<ModelConfig> models;
  for (const Family family : {Family::kEncoder, Family::kDecoder, Family::kEncoderDecoder}) {
    if (family == Family::kDecoder && !able.causal) continue;
    for (const Wiring wiring : {Wiring::kPostNorm, Wiring::kPreNorm, Wiring::kReversible}) {
      ModelConfig& c = models.emplace_back();
      c.family = family;
      c.wiring = wiring;
      c.layers = 2;
      c.decoder_layers = family == Family::kEncoderDecoder ? 1 : 0;
      c.d_model = 24;
      c.heads = 3;
      c.vocab = 19;
      c.max_length = 150;
      c.attention = mechanism.name;
      if (!able.causal) c.decoder_attention = "flash";
      if (!able.cross) c.cross_attention = "flash";
    }
  }
  return models;
}

std::size_t sequences_for(const ModelConfig& config, std::size_t batch) {
  return config.head == HeadKind::kPairs ? batch + batch % 2 : batch;
}

void expect_same(const Work& counted, const Work& predicted, const std::string& where) {
  EXPECT_EQ(counted.maccs, predicted.maccs) << where;
  for (std::size_t k = 0; k < kKinds; ++k) {
    EXPECT_EQ(counted.other[k], predicted.other[k])
        << where << ' ' << name_of(static_cast<Kind>(k));
  }
}

namespace {

// Images have as many rows as they have, and what an encoder reads in place of tokens no padding.
BatchShape shape_for(const ModelConfig& c, BatchShape shape) {
  if (c.stem == StemKind::kTokens) return shape;
  const bool both = c.family == Family::kEncoderDecoder;
  if (!both) shape.padded = false;
  if (c.stem == StemKind::kSound) return shape;
  const std::size_t side = c.image / c.patch;
  (both ? shape.source_length : shape.length) = side * side + (c.class_token ? 1 : 0);
  return shape;
}

}  // namespace

BatchData::BatchData(const ModelConfig& config, const BatchShape& asked, std::uint64_t seed)
    : shape_(shape_for(config, asked)) {
  const BatchShape& shape = shape_;
  const std::size_t rows = shape.batch * shape.length;
  tokens = draw(rows, config.vocab, derive(seed, "tokens"));
  const std::size_t frames =
      config.family == Family::kEncoderDecoder ? shape.source_length : shape.length;
  features.resize(shape.batch * (config.stem == StemKind::kPatches
                                     ? config.channels * config.image * config.image
                                 : config.stem == StemKind::kSound ? 2 * config.channels * frames
                                                                   : config.inputs));
  for (std::size_t i = 0; i < features.size(); ++i) {
    features[i] = random_normal(derive(seed, "features"), i);
  }
  if (config.positions == PositionKind::kTemporal) {
    for (std::size_t i = 0; i < rows; ++i) {
      times.push_back(0.7F * static_cast<float>(i % shape.length) +
                      random_uniform(derive(seed, "times"), i));
    }
  }
  if (shape.padded) lengths = some_lengths(shape.batch, shape.length);
  if (shape.typed) types = draw(rows, config.token_types, derive(seed, "types"));
  if (config.family == Family::kEncoderDecoder) {
    source = draw(shape.batch * shape.source_length, config.vocab, derive(seed, "source"));
    if (shape.padded && config.stem == StemKind::kTokens) {
      source_lengths = some_lengths(shape.batch, shape.source_length);
    }
  }
  const bool of_sequences = config.pools();
  const std::size_t answers = config.output_rows(shape.batch, shape.length);
  targets = draw(answers, config.outputs(), derive(seed, "targets"));
  if (config.pair_classes > 0) {
    sentence_targets = draw(shape.batch, config.pair_classes, derive(seed, "sentences"));
    if (shape.batch > 1) sentence_targets[1] = -1;
  }
  if (config.loss == "binary") {
    targets = draw(answers * config.outputs(), 2, derive(seed, "targets"));
  }
  if (config.loss.starts_with("span")) {
    draw_spans(config, seed);
    return;
  }
  if (config.loss == "squared-error") {
    values = some_values(targets.size() * config.outputs(), derive(seed, "values"));
  }
  if (config.loss == "weighted-sum") {
    values = normals(targets.size() * config.outputs(), derive(seed, "values"));
  }
  if (config.loss.starts_with("distillation")) {
    const std::size_t width = (config.streams == StreamEnd::kConcat ? 2 : 1) * config.d_model;
    teacher_scores = normals(targets.size() * config.outputs(), derive(seed, "teacher"));
    teacher_states = normals(targets.size() * width, derive(seed, "states"));
  }
  answers_rows_ = !of_sequences;
  if (of_sequences) return;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t b = i / shape.length;
    const bool padding = shape.padded && i % shape.length >= static_cast<std::size_t>(lengths[b]);
    if (padding || (rows > 4 && i % 5 == 3)) targets[i] = -1;
    if (padding && config.padding_token >= 0) {
      tokens[i] = static_cast<std::int32_t>(config.padding_token);
    }
  }
}

void BatchData::draw_spans(const ModelConfig& config, std::uint64_t seed) {
  answers_rows_ = false;
  const bool masked = config.loss.ends_with("masked=true") && shape_.padded;
  targets.clear();
  for (std::size_t i = 0; i < 2 * shape_.batch; ++i) {
    const std::size_t places = masked ? static_cast<std::size_t>(lengths[i / 2]) : shape_.length;
    const auto at = random_below(derive(seed, "targets"), i, places + 1);
    targets.push_back(at == places ? -1 : static_cast<std::int32_t>(at));
  }
}

Batch BatchData::view() const {
  if (!shape_.packed) return padded();
  return pack(padded(), answers_rows_ ? Answers::kOfRows : Answers::kOfSequences, packed_);
}

Batch BatchData::padded() const {
  return {.batch = shape_.batch,
          .length = shape_.length,
          .tokens = tokens,
          .features = features,
          .times = times,
          .targets = targets,
          .sentence_targets = sentence_targets,
          .values = values,
          .teacher_scores = teacher_scores,
          .teacher_states = teacher_states,
          .lengths = lengths,
          .token_types = types,
          .source_length = shape_.source_length,
          .source = source,
          .source_lengths = source_lengths};
}

}  // namespace longspan::testing
