// K-means in Hamming space (Lloyd): codes of up to 64 bits, distance = popcount(a xor b), the
// centre of a cluster has the majority of its members' bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longspan {

// assignment[i] = the centre nearest to codes[i]; of equally near ones the first. At most 2²⁴
// centres.
void nearest_codes(std::span<const std::uint64_t> codes, std::span<const std::uint64_t> centres,
                   std::int32_t* assignment);

// `iterations` times: every code goes to its nearest centre, then every centre moves to the
// majority of its members (a tie gives 0; a centre without members stays). Centres start at codes
// that are evenly spaced. Stops early once nothing moves, which changes no result. With as many
// centres as codes every code is its own cluster. `counts` is scratch: hamming_scratch(clusters)
// integers.
std::size_t hamming_scratch(std::size_t clusters);
void hamming_kmeans(std::span<const std::uint64_t> codes, std::size_t iterations,
                    std::span<std::uint64_t> centres, std::int32_t* assignment,
                    std::int32_t* counts);

}  // namespace longspan
