#include "longspan/base/meter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace longspan {
namespace meter_test {

TEST(Meter, OffCountsNothing) {
  EXPECT_EQ(Listener::current(), nullptr);
  report(product_call({}, 2, 3, 4).work);
  report(flops(Kind::kAdd, 5, 6));
  const Place::Scope scope("layer", Phase::kForward);
  report(product_call({}, 2, 3, 4).work);
  Meter meter;
  EXPECT_TRUE(meter.entries().empty());
  EXPECT_EQ(meter.at("layer", Phase::kForward), Work{});
}

TEST(Meter, FilesByLayerAndPhase) {
  Meter meter;
  const Meter::Use use(meter);
  EXPECT_EQ(Listener::current(), &meter);
  report(flops(Kind::kAdd, 1, 8));  // outside every scope
  {
    const Place::Scope outer("outer", Phase::kForward);
    report(5 * product_call({}, 2, 3, 4).work);
    {
      const Place::Scope inner("inner", Phase::kBackward);
      report(flops(Kind::kSoftmax, 7, 16));
    }
    report(flops(Kind::kSoftmax, 11, 16));  // the outer scope is current again
  }
  {
    const Place::Scope again("outer", Phase::kForward);
    report(flops(Kind::kSoftmax, 100, 0));
  }
  const Work outer = meter.at("outer", Phase::kForward);
  EXPECT_EQ(outer.maccs, 120U);
  EXPECT_EQ(outer[Kind::kSoftmax], 111U);
  EXPECT_EQ(outer.other_flops(), 111U);
  EXPECT_EQ(outer.flops(), 351U);
  EXPECT_EQ(outer.bytes[static_cast<std::size_t>(Kind::kMatmul)], 5U * 4 * (2 * 4 + 4 * 3 + 2 * 3));
  EXPECT_EQ(outer.total_bytes(), 5U * 4 * 26 + 16);
  EXPECT_EQ(meter.at("inner", Phase::kBackward)[Kind::kSoftmax], 7U);
  EXPECT_EQ(meter.at("inner", Phase::kForward), Work{});
  EXPECT_EQ(meter.at("", Phase::kForward)[Kind::kAdd], 1U);
  EXPECT_EQ(meter.total(Phase::kForward).other_flops(), 112U);
  EXPECT_EQ(meter.total(Phase::kBackward).flops(), 7U);
}

TEST(Meter, UsesNest) {
  Meter first;
  Meter second;
  {
    const Meter::Use use(first);
    const Place::Scope scope("layer", Phase::kForward);
    {
      const Meter::Use inner(second);
      const Place::Scope own("other", Phase::kForward);
      report(product_call({}, 1, 1, 1).work);
    }
    report(product_call({}, 1, 1, 2).work);
  }
  EXPECT_EQ(Listener::current(), nullptr);
  EXPECT_EQ(first.at("layer", Phase::kForward).maccs, 2U);
  EXPECT_EQ(second.at("other", Phase::kForward).maccs, 1U);
  EXPECT_EQ(second.total(Phase::kForward).maccs, 1U);
}

TEST(Meter, ClearForgets) {
  Meter meter;
  const Meter::Use use(meter);
  {
    const Place::Scope scope("layer", Phase::kUpdate);
    report(product_call({}, 1, 2, 3).work);
  }
  meter.clear();
  EXPECT_EQ(meter.at("layer", Phase::kUpdate), Work{});
  report(product_call({}, 1, 2, 3).work);
  EXPECT_EQ(meter.at("", Phase::kForward).maccs, 6U);
}

TEST(Meter, FilesByPartOfTheModel) {
  Meter meter;
  const Meter::Use use(meter);
  for (const ModelPart part : {ModelPart::kEncoder, ModelPart::kDecoder, ModelPart::kEncoder}) {
    const Place::Part where(part);
    const Place::Scope scope("layer", Phase::kForward);
    report(maccs(3));
  }
  EXPECT_EQ(meter.entries().at({ModelPart::kEncoder, "layer", Phase::kForward}).maccs, 6U);
  EXPECT_EQ(meter.entries().at({ModelPart::kDecoder, "layer", Phase::kForward}).maccs, 3U);
  EXPECT_EQ(meter.at("layer", Phase::kForward).maccs, 9U);
}

TEST(Place, IsRestored) {
  {
    const Place::Part part(ModelPart::kDecoder);
    const Place::Block block(11);
    const Place::Scope scope("mha", Phase::kBackward);
    EXPECT_EQ(Place::now().text(), "backward of block 12: mha");
    {
      const Place::Pass pass("standard pass");
      const Place::Scope inner("ffn", Phase::kForward);
      EXPECT_EQ(Place::now().text(), "standard pass of block 12: ffn");
    }
    EXPECT_EQ(Place::now().layer, "mha");
  }
  EXPECT_EQ(Place::now(), Place{});
}

TEST(Call, DryIsHeardAndNotDone) {
  Meter meter;
  bool done = false;
  const auto kernel = [&] {
    const Called called([] { return Call{.work = maccs(5)}; });
    if (called.dry()) return;
    done = true;
  };
  {
    const Meter::Use use(meter);
    const Dry dry;
    kernel();
  }
  EXPECT_FALSE(done);
  EXPECT_EQ(meter.total(Phase::kForward).maccs, 5U);
  kernel();
  EXPECT_TRUE(done);
  EXPECT_EQ(meter.total(Phase::kForward).maccs, 5U) << "nobody listens";
}

TEST(Call, MutedKernelsAreNotHeard) {
  Meter meter;
  const Meter::Use use(meter);
  {
    const Listener::Mute mute;
    report(maccs(5));
  }
  report(maccs(7));
  EXPECT_EQ(meter.total(Phase::kForward).maccs, 7U);
}

TEST(Work, AddsAndScales) {
  const Work a = maccs(3) + flops(Kind::kNorm, 5);
  const Work b = 4 * a;
  EXPECT_EQ(b.maccs, 12U);
  EXPECT_EQ(b[Kind::kNorm], 20U);
  EXPECT_EQ(b.flops(), 44U);
  EXPECT_TRUE(same_arithmetic(a + a, 2 * a));
  EXPECT_FALSE(same_arithmetic(a, b));
  EXPECT_FALSE(same_arithmetic(flops(Kind::kNorm, 5), flops(Kind::kAdd, 5))) << "kinds count";
  Work moved = a;
  moved.bytes[0] = 17;
  EXPECT_TRUE(same_arithmetic(a, moved)) << "bytes are measured, not predicted";
}

TEST(Meter, NamesAreDistinct) {
  EXPECT_EQ(name_of(Phase::kForward), "forward");
  EXPECT_EQ(name_of(Phase::kOptimizer), "optimizer");
  for (std::size_t a = 0; a < kKinds; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_NE(name_of(static_cast<Kind>(a)), name_of(static_cast<Kind>(b)));
    }
  }
}

TEST(Meter, LapsHoldWhatWasDoneAndNoMoreThanTheTimeThatPassed) {
  Meter meter;
  const Meter::Use use(meter);
  report(flops(Kind::kAdd, 1, 4));
  EXPECT_TRUE(meter.laps().empty());
  const auto begin = std::chrono::steady_clock::now();
  meter.time_laps();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  report(product_call({}, 2, 3, 5).work);
  report(flops(Kind::kSoftmax, 7, 8));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(meter.laps().size(), 2);
  EXPECT_EQ(meter.laps()[0].work.maccs, 30);
  EXPECT_GE(meter.laps()[0].seconds, 5e-3);
  EXPECT_EQ(meter.laps()[1].work[Kind::kSoftmax], 7);
  EXPECT_GE(meter.laps()[1].seconds, 0.0);
  EXPECT_LE(meter.laps()[0].seconds + meter.laps()[1].seconds, passed.count());
  meter.time_laps();
  EXPECT_TRUE(meter.laps().empty());
  EXPECT_EQ(meter.total(Phase::kForward).maccs, 30);  // the sums stay
}

}  // namespace meter_test
}  // namespace longspan
