// A pass that is watched, layer by layer.
#include "longspan/kernels/rows/vector.h"
#include "longspan/models/model.h"

namespace longspan {

namespace {

class FirstNotFinite final : public Watch {
 public:
  explicit FirstNotFinite(bool both) : both_(both) {}
  void see(std::string_view layer, ConstMatrix x) override {
    if (!found_.empty()) return;
    for (std::size_t r = 0; r < x.rows; ++r) {
      if (all_finite(x.row(r))) continue;
      found_ = name(Place::now(), layer);
      return;
    }
  }
  const std::string& found() const { return found_; }

 private:
  // Where there are two stacks, of which.
  std::string name(const Place& place, std::string_view layer) const {
    std::string where(layer);
    if (place.block) where += fmt::format(" of block {}", *place.block + 1);
    if (both_) where += fmt::format(" of the {}", name_of(place.part));
    return where;
  }

  bool both_;
  std::string found_;
};

}  // namespace

std::string Model::first_not_finite(const Batch& batch) {
  FirstNotFinite watch(has_encoder() && has_decoder());
  step_.watch = &watch;
  try {
    const ConstMatrix scores = logits(batch);
    const Place::Part part(ModelPart::kHead);
    watch.see(Head::kMeter, scores);
  } catch (...) {
    step_.watch = nullptr;
    throw;
  }
  step_.watch = nullptr;
  return watch.found();
}

}  // namespace longspan
