// Where the record of a comparison and its page are kept.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "longspan/io/process_lock.h"
#include "output_file.h"

namespace longspan::cli {

// What the user says about places.
struct ComparePlaces {
  std::string out;
  std::string add, render, against;
  Existing existing = Existing::kKept;
};

// Where the results go, checked before anything is measured: to --out, to the record that is added
// to, or to a name that is free.
std::filesystem::path place_of(const ComparePlaces& places);

// Where the page of --render goes; `kept`: it is there already, and stays.
struct RenderedPage {
  std::filesystem::path path;
  bool kept = false;

  void write(const std::string& page, const Common& common) const;
};
RenderedPage rendered_page(const ComparePlaces& places);

// The record as JSON, and the page beside it. What cannot be saved is shown all the same; the
// complaint comes last.
class Results {
 public:
  // `known`: a record that is added to; what this program does not know of it stays in it.
  Results(std::filesystem::path path, nlohmann::json known);

  void save(const nlohmann::json& record, const std::string& page);
  // Says where they are; throws SystemError where they are not.
  void finish(const Common& common) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  ProcessLock lock_;
  nlohmann::json known_;
  std::string problem_;
};

// On standard error, unless --quiet.
void note(const Common& common, const std::string& text);

}  // namespace longspan::cli
