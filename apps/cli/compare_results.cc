#include "compare_results.h"

#include <fmt/core.h>

#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "longspan/io/json_file.h"

namespace longspan::cli {

namespace {

void write_page(const std::filesystem::path& path, const std::string& page) {
  AtomicFile file("compare", path);
  file.write(page);
  file.commit();
}

}  // namespace

std::filesystem::path place_of(const ComparePlaces& p) {
  std::filesystem::path path = !p.out.empty()   ? std::filesystem::path(p.out)
                               : !p.add.empty() ? std::filesystem::path(p.add)
                                                : free_name("compare.json");
  require(path.extension() != ".html",
          "[compare] --out is '{}'; need another ending for the record: the page ends in .html",
          path.string());
  std::error_code ignored;
  const bool added = !p.add.empty() && std::filesystem::equivalent(path, p.add, ignored);
  const Existing existing = added ? Existing::kReplaced : p.existing;
  check_output("compare", path, existing);
  check_output("compare", page_of(path), existing);
  return path;
}

RenderedPage rendered_page(const ComparePlaces& p) {
  require(p.out.empty() || std::filesystem::path(p.out).extension() == ".html",
          "[compare] --out is '{}'; need a name that ends in .html for the page", p.out);
  RenderedPage page{page_of(p.out.empty() ? p.render : p.out)};
  std::error_code ignored;
  page.kept = p.out.empty() && p.existing == Existing::kKept &&
              std::filesystem::is_regular_file(page.path, ignored);
  if (!page.kept) check_output("compare", page.path, p.existing);
  return page;
}

void RenderedPage::write(const std::string& page, const Common& common) const {
  if (!kept) write_page(path, page);
  note(common,
       fmt::format("page: {}{}", path.string(), kept ? ", as it was; --overwrite renews it" : ""));
}

Results::Results(std::filesystem::path path, nlohmann::json known)
    : path_(std::move(path)), lock_("compare", lock_of(path_), path_), known_(std::move(known)) {}

void Results::save(const nlohmann::json& record, const std::string& page) {
  try {
    nlohmann::json whole = known_;
    whole.update(record, true);
    write_json(path_, whole);
    write_page(page_of(path_), page);
    problem_.clear();
  } catch (const std::exception& e) {
    problem_ = e.what();
  }
}

void Results::finish(const Common& common) const {
  if (!problem_.empty()) {
    throw SystemError(fmt::format("[compare] the results were not saved: {}", problem_));
  }
  note(common, fmt::format("results: {}\npage:    {}", path_.string(), page_of(path_).string()));
}

void note(const Common& common, const std::string& text) {
  if (!common.quiet) fmt::print(stderr, "{}\n", text);
}

}  // namespace longspan::cli
