// The steps of k-means in Hamming space (Lloyd): codes of up to 64 bits, distance = popcount(a xor
// b), the centre of a cluster has the majority of its members' bits. On the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longspan {

// assignment[i] = the centre nearest to codes[i]; of equally near ones the first. At most 2²⁴
// centres.
void nearest_codes(std::span<const std::uint64_t> codes, std::span<const std::uint64_t> centres,
                   std::int32_t* assignment);

// Centres at codes that are evenly spaced.
void spaced_codes(std::span<const std::uint64_t> codes, std::span<std::uint64_t> centres);

// Every centre moves to the majority of its members' bits: a tie gives 0, a centre without members
// stays. `counts` is scratch, majority_scratch(clusters) integers.
std::size_t majority_scratch(std::size_t clusters);
void majority_codes(std::span<const std::uint64_t> codes, const std::int32_t* assignment,
                    std::span<std::uint64_t> centres, std::int32_t* counts);

}  // namespace longspan
