// Checks that every attention mechanism must pass, from its abilities; exact ones are also compared
// with the reference. Mechanisms are named as on the command line: "bigbird:block=8".
#pragma once

#include <string_view>
#include <vector>

#include "longspan/testing/attention_problem.h"

namespace longspan::testing {

// Cases of every combination that the abilities allow, at sizes around a tile.
std::vector<AttentionCase> cases_for(const Abilities& abilities);

// Values and gradients against the double reference.
void check_exact(const AttentionMaker& attention, const AttentionCase& c);
// The meter and the arena against cost().
void check_cost(const AttentionMaker& attention, const AttentionCase& c);
// One, two and three threads give the same bits, and cost what cost() says.
void check_threads(const AttentionMaker& attention, const AttentionCase& c);
// Tokens from t on do not change outputs before t.
void check_causal(const AttentionMaker& attention, const AttentionCase& c);
// Tokens beyond the key lengths change nothing, whether overwritten or cut off.
void check_padding(const AttentionMaker& attention, const AttentionCase& c);
// A sequence does not see its neighbours in the batch.
void check_batch(const AttentionMaker& attention, const AttentionCase& c);
// The last tokens alone, with a cache of what went before, have the rows of the whole, and cost
// what cost() says; any number of threads gives the same bits.
void check_decode(const AttentionMaker& attention);
// Heads in columns and heads in planes give the same bits.
void check_layout(const AttentionMaker& attention, const AttentionCase& c);

// All of the above, as far as the abilities go.
void check_attention(const AttentionMaker& attention);

}  // namespace longspan::testing
