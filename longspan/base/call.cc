#include "longspan/base/call.h"

#include <array>

namespace longspan {

thread_local int Dry::depth_ = 0;
thread_local Listener* Listener::current_ = nullptr;

std::string_view name_of(Op op) {
  constexpr std::array<std::string_view, kOps> kNames = {"product",
                                                         "activation",
                                                         "activation backward",
                                                         "gated",
                                                         "gated backward",
                                                         "norm",
                                                         "norm saved",
                                                         "norm backward",
                                                         "norm update",
                                                         "softmax",
                                                         "loss",
                                                         "loss forward",
                                                         "loss backward",
                                                         "add",
                                                         "move",
                                                         "column sums",
                                                         "dropout",
                                                         "rotary",
                                                         "fourier",
                                                         "gather",
                                                         "scatter",
                                                         "squares",
                                                         "step",
                                                         "attention forward",
                                                         "attention backward",
                                                         "attention update",
                                                         "inside"};
  return kNames[static_cast<std::size_t>(op)];
}

}  // namespace longspan
