// Two texts and a class, from the files that people have.
//
//   lines with tabs   label, id, id, text, text, as the Long Range Arena's pairs of articles of the
//                     ACL Anthology (new_aan_pairs.train.tsv); or label, text, text. A line of titles
//                     that begins with "label" is left out.
//   lines of JSON     {"text1": …, "text2": …, "label": …}, and perhaps "split"
//
// A label is a whole number, also written 1.0. A field between double quotes loses them, and two of
// them within it are one; everything else is taken as it stands, as the published reader does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "longspan/tasks/task.h"

namespace longspan {

struct PairedText {
  std::string first;
  std::string second;
  std::int32_t label = 0;
  std::optional<Split> split;  // where the data say so
};

inline constexpr std::int32_t kMostPairClasses = 65536;

// Calls `each` for every pair of a file, with the first `bytes` of both texts. Throws Error,
// "[who] file:line: …", for a line that is none.
void read_paired_texts(std::string_view who, const std::filesystem::path& path, std::size_t bytes,
                       const std::function<void(const PairedText&)>& each);

}  // namespace longspan
