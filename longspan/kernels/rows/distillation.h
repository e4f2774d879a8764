// What a student learns from a teacher (Hinton et al. 2015; Sanh et al. 2019), over the rows whose
// target y counts: s are the student's scores and t the teacher's, T a temperature, w a weight.
//
//   p = softmax(t/T)     q = softmax(s/T)     o = softmax(s)
//   L = (1 − w)·(−log o[y]) + w·T²·KL(p ‖ q)
//   ∂L/∂s = (1 − w)·(o − 1[y]) + w·T·(q − p)
//
// and of hidden states, h the student's and g the teacher's, of the same width d
//
//   D = 1 − cos(h, g)     ∂D/∂h = (cos(h, g)·h/|h| − g/|g|) / |h|
//
// Counted for every row that counts: 24 FLOPs (kSoftmax) per score, three softmaxes, their scaling,
// the divergence and the gradient; of hidden states 3·d MACCs forward and 5·d backward.
#pragma once

#include "longspan/kernels/rows/softmax.h"

namespace longspan {

struct Softening {
  float temperature = 1.0F;  // T
  float weight = 1.0F;       // w
};

// In place: the student's scores become the gradient of scale·ΣL (rows that are ignored: zeros).
CrossEntropy distil(Matrix scores, ConstMatrix teacher, const Targets& targets,
                    const Softening& softening, float scale);

// ΣD.
double cosine_distance(ConstMatrix h, ConstMatrix g, const Targets& targets);
// dh += scale·∂ΣD/∂h.
void cosine_distance_backward(ConstMatrix h, ConstMatrix g, const Targets& targets, float scale,
                              Matrix dh);

}  // namespace longspan
