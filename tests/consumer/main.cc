// The smallest program that uses the installed library.
#include <cstdio>
#include <vector>

#include "longspan/base/parallel.h"
#include "longspan/base/random.h"

int main() {
  std::vector<float> x(1000);
  longspan::parallel_ranges(x.size(), 100, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) x[i] = longspan::random_normal(1, i);
  });
  double sum = 0;
  for (const float value : x) sum += value * value;
  std::printf("variance %.3f\n", sum / 1000);
  return sum > 800 && sum < 1200 ? 0 : 1;
}
