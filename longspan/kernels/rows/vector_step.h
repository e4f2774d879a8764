// What the vector code of Adam's step needs to know. Internal to the kernels.
#pragma once

namespace longspan::detail {
// Adam's constants of one step, in the arrangement
//   w −= (η/(1 − β₁^t))·m / (√v·(1/√(1 − β₂^t)) + ε).
struct AdamConstants {
  float gradient_scale;
  float added_decay;  // λ, added to the gradient; 0 for AdamW
  float keep;         // 1 − η·λ for AdamW, else 1
  float beta1;
  float new1;  // 1 − β₁
  float beta2;
  float new2;  // 1 − β₂
  float rate;
  float root_scale;
  float epsilon;
};
}  // namespace longspan::detail
