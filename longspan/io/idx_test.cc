#include "longspan/io/idx.h"

#include <gtest/gtest.h>

#include <string>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace idx_test {

using testing::message_of;
using testing::TemporaryDirectory;

const std::string kGood(
    "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
    "abcdef",
    18);

std::string refusal(const std::string& bytes) {
  const TemporaryDirectory scratch;
  testing::write_bytes(scratch / "x", bytes);
  return message_of([&] { read_idx(scratch / "x"); });
}

TEST(Idx, ReadsShapeAndElements) {
  const TemporaryDirectory scratch;
  testing::write_bytes(scratch / "x", kGood);
  const IdxArray array = read_idx(scratch / "x");
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(std::string(array.data.begin(), array.data.end()), "abcdef");
}

TEST(Idx, RefusesWhatIsWrong) {
  EXPECT_NE(refusal("").find("[idx]"), std::string::npos);
  for (std::size_t cut = 0; cut < kGood.size(); ++cut) {
    EXPECT_NE(refusal(kGood.substr(0, cut)).find("[idx]"), std::string::npos) << cut;
  }
  EXPECT_NE(refusal(kGood + "g").find("19 bytes; its shape needs 18"), std::string::npos);
  std::string floats = kGood;
  floats[2] = 0x0D;
  EXPECT_NE(refusal(floats).find("no IDX file of unsigned bytes"), std::string::npos);
  std::string huge = kGood;
  huge.replace(4, 8, 8, '\xFF');
  EXPECT_NE(refusal(huge).find("too short"), std::string::npos);
  std::string flat = kGood;
  flat[3] = 0;
  EXPECT_NE(refusal(flat).find("no IDX"), std::string::npos);
}

}  // namespace idx_test
}  // namespace longspan
