#include "longspan/kernels/versions.h"

#include <dnnl.h>
#include <fmt/core.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace longspan {

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

std::string highway_version() { return fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH); }

std::vector<std::int64_t> kernel_targets() { return hwy::SupportedAndGeneratedTargets(); }

}  // namespace longspan
