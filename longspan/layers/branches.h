// The branches that a block can have, one line each.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/option_text.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/feed_forward.h"
#include "longspan/layers/multi_head_attention.h"

namespace longspan {

// What all blocks of a stack have in common; a branch takes what it needs.
struct BlockConfig {
  MultiHeadAttentionConfig attention;
  FeedForwardConfig feed_forward;
};

// Where a branch stands.
struct BranchSite {
  Parameters& parameters;
  const BlockConfig& block;
  std::string name;  // of its parameters: "encoder.0.attention"
  std::string stack;
  std::size_t layer = 0;
  std::size_t step = 1;  // tokens of the model's input from one of its keys to the next
};

// What a branch is to its block.
enum class BranchRole : std::uint8_t { kMixer, kReader, kFeedForward };

struct BranchKind {
  std::string_view name;
  BranchRole role;
  std::string_view
      place;  // its parameters are "<block>.<place>.…", its norm's "<block>.<place>_norm.…"
  std::string_view meter;    // what its work is filed under
  std::string_view summary;  // one line
  // `options` is what stands behind "name:".
  std::unique_ptr<Branch> (*make)(std::string_view options, const BranchSite& site);
  std::string_view page = {};                      // of the documentation
  std::vector<OptionText> (*options)() = nullptr;  // null: it has none
  bool heads = false;                              // it has queries and keys, which may be rotated
  bool comparable = true;                          // rules may compare two of its passes
};
std::span<const BranchKind> branch_kinds();

// Of "name" or "name:options"; null where there is none.
const BranchKind* find_branch(std::string_view specification);
std::unique_ptr<Branch> make_branch(std::string_view specification, const BranchSite& site);

// What work is filed under of the branch whose parameters are in this place.
std::string_view meter_at(std::string_view place);

// The branch that mixes tokens: "attention:" with a mechanism, or a mixer's own name. Throws Error
// for a branch that does not.
std::string mixer_of(std::string_view specification);
// Throws Error for what is no feed-forward.
std::string feed_forward_of(std::string_view specification);

}  // namespace longspan
