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

// kGood by gzip -9.
const std::string kPackedGood(
    "\037\213\010\000\000\000\000\000\002\003\143\140\340\140\142\140\140\000\141\346\304\244\344"
    "\224\324\064\000\203\332\106\057\022\000\000\000",
    35);
// Of a shape of 2^30 bytes, and three of them.
const std::string kPackedHuge(
    "\037\213\010\000\000\000\000\000\002\003\143\140\340\140\164\140\140\140\110\114\112\006\000"
    "\303\376\233\222\013\000\000\000",
    31);

TEST(Idx, DimensionsAreNotZero) {
  const TemporaryDirectory scratch;
  const std::string path = (scratch / "x").string();
  testing::write_bytes(path, std::string("\0\0\x08\x02\0\0\0\x03\0\0\0\0", 12) + "abc");
  EXPECT_EQ(message_of([&] { read_idx(path); }),
            "[idx] " + path + ": dimension 2 is 0; need at least 1");
}

TEST(Idx, IsUnpacked) {
  const TemporaryDirectory scratch;
  testing::write_bytes(scratch / "x.gz", kPackedGood);
  const IdxArray array = read_idx(scratch / "x.gz");
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(std::string(array.data.begin(), array.data.end()), "abcdef");
}

TEST(Idx, DamagedPackedFilesAreSentences) {
  const TemporaryDirectory scratch;
  const std::string path = (scratch / "x.gz").string();
  const auto why = [&](const std::string& bytes) {
    testing::write_bytes(path, bytes);
    return message_of([&] { read_idx(path); });
  };
  for (std::size_t size = 0; size < kPackedGood.size(); ++size) {
    EXPECT_EQ(why(kPackedGood.substr(0, size)),
              "[idx] " + path + ": ends within what is packed; the file is truncated");
  }
  EXPECT_EQ(why(kGood), "[idx] " + path + ": incorrect header check; need a gzip file");
  EXPECT_EQ(why(kPackedGood + "x"), "[idx] " + path + ": more bytes than its shape needs");
  std::string other = kPackedGood;
  other[other.size() - 8] = static_cast<char>(other[other.size() - 8] ^ 1);
  EXPECT_EQ(why(other), "[idx] " + path + ": incorrect data check; need a gzip file");
  EXPECT_EQ(why(kPackedHuge),
            "[idx] " + path + ": 31992 bytes for dimension 1 of 1073741824; the file is too short");
}

}  // namespace idx_test
}  // namespace longspan
