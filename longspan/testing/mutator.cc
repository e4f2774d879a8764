#include "longspan/testing/mutator.h"

#include <algorithm>
#include <string_view>

namespace longspan::testing {

std::string Mutator::mutate(std::string bytes) {
  const std::size_t edits = 1 + below(4);
  for (std::size_t i = 0; i < edits; ++i) edit(bytes);
  return bytes;
}

void Mutator::edit(std::string& bytes) {
  static constexpr std::string_view kWords[] = {"0",
                                                "-1",
                                                "18446744073709551615",
                                                "9223372036854775808",
                                                "1e308",
                                                "{",
                                                "}",
                                                "[",
                                                "]",
                                                "\"",
                                                ",",
                                                ":",
                                                "null",
                                                "''",
                                                "()",
                                                "\\u0000",
                                                "\xFF",
                                                "F16"};
  const std::size_t at = below(bytes.size() + 1);
  const std::size_t count = std::min(below(16), bytes.size() - at);
  switch (below(7)) {
    case 0:  // one bit
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:  // one byte
      if (at < bytes.size()) bytes[at] = static_cast<char>(below(256));
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.erase(at, count);
      break;
    case 4:
      bytes.insert(at, bytes.substr(at, count));
      break;
    case 5:
      bytes.insert(at, kWords[below(std::size(kWords))]);
      break;
    default: {  // one digit, which keeps the syntax and changes the meaning
      const std::size_t digit = bytes.find_first_of("0123456789", at);
      if (digit != std::string::npos) bytes[digit] = static_cast<char>('0' + below(10));
    }
  }
}

}  // namespace longspan::testing
