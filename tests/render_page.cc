// render_page RECORD.json PAGE.html: the page of a comparison, for the tests in a browser.
#include <fmt/core.h>

#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "longspan/io/json_file.h"
#include "longspan/report/page.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    fmt::print(stderr, "usage: render_page RECORD.json PAGE.html\n");
    return 2;
  }
  const longspan::CompareRecord record =
      longspan::compare_record_from(argv[1], longspan::read_json(argv[1]));
  std::ofstream out(argv[2], std::ios::binary);
  out << longspan::comparison_page(record);
  return out.flush() ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "render_page: {}\n", error.what());
  return 1;
}
