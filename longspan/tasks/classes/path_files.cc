#include "longspan/tasks/classes/path_files.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/random.h"
#include "longspan/io/file.h"
#include "longspan/io/grey_png.h"
#include "longspan/io/text_lines.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPathFiles = "pathfinder";
constexpr std::string_view kMetadata = "metadata";
constexpr std::uint64_t kMostPngBytes = std::uint64_t{64} << 20U;

std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::vector<fs::path> all;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory, failed)) all.push_back(entry.path());
  require(!failed, "[{}] {} could not be read: {}", kPathFiles, directory.string(),
          failed.message());
  // 9.npy comes before 10.npy.
  std::ranges::sort(all, {}, [](const fs::path& p) {
    const std::string name = p.filename().string();
    return std::pair(name.find_first_not_of("0123456789"), name);
  });
  return all;
}

bool has_metadata(const fs::path& directory) {
  std::error_code ignored;
  return fs::is_directory(directory / kMetadata, ignored);
}

// The one level that is meant.
fs::path only_level(const fs::path& directory) {
  if (has_metadata(directory)) return directory;
  std::vector<fs::path> levels = sorted_entries(directory);
  std::erase_if(levels, [](const fs::path& p) { return !has_metadata(p); });
  std::string names;
  for (const fs::path& level : levels) {
    names += (names.empty() ? "" : ", ") + level.filename().string();
  }
  require(levels.size() == 1, "[{}] {} has {}; need one of them in --data", kPathFiles,
          directory.string(), names);
  return levels.front();
}

// What a line says: the words that matter are its first four.
struct PathLine {
  fs::path image;
  std::int32_t label = 0;
};

PathLine path_line(const TextLine& line) {
  std::array<std::string_view, 4> words;
  std::string_view left = line.text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    line.require(!left.empty(), "{} words; need a directory, a file, a number and the label", i);
    const std::size_t end = std::min(left.find(' '), left.size());
    words[i] = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  const bool known = words[3] == "0" || words[3] == "1";
  line.require(known, "the label '{}'; need 0 or 1", printable(words[3]));
  PathLine said{fs::path(words[0]) / fs::path(words[1]), words[3] == "1" ? 1 : 0};
  const bool inside =
      said.image.is_relative() && std::ranges::find(said.image, fs::path("..")) == said.image.end();
  line.require(inside, "the image '{}'; need one below the directory of {}",
               printable(said.image.string()), kMetadata);
  return said;
}

bool parse_png_pixels(std::string_view bytes, std::vector<std::uint8_t>& tokens) {
  try {
    tokens = grey_png("image", bytes).pixels;
  } catch (const Error&) {
    return false;
  }
  return true;
}

class PathReader {
 public:
  explicit PathReader(fs::path level)
      : level_(std::move(level)),
        files_(std::make_shared<ExampleFiles>(kPathFiles)),
        all_(files_) {}

  void lines(const fs::path& metadata) {
    read_lines(kPathFiles, metadata, [&](const TextLine& line) {
      line.require(!line.text.starts_with("\x93NUMPY"),
                   "an array of NumPy; need lines of a directory, a file, a number and the label");
      add(line, path_line(line));
    });
  }

  LabelledSplits found() && { return std::move(all_); }

 private:
  void add(const TextLine& line, const PathLine& said) {
    const fs::path path = level_ / said.image;
    std::error_code ignored;
    line.require(fs::is_regular_file(path, ignored),
                 "there is no {}; need all images that are named", path.string());
    const std::string bytes = read_file(kPathFiles, path, kMostPngBytes);
    if (bytes.empty()) {
      line.require(!empty_, "{} is empty, and not the first that is; need images", path.string());
      empty_ = true;
      return;
    }
    GreyImage image;
    try {
      image = grey_png(path.string(), bytes);
    } catch (const Error& e) {
      line.fail(e.what());
    }
    if (width_ == 0) {
      width_ = image.width;
      height_ = image.height;
    }
    line.require(image.width == width_ && image.height == height_,
                 "{} has {}x{} pixels; the first image has {}x{}", said.image.string(), image.width,
                 image.height, width_, height_);
    const FilePlace place{0, static_cast<std::uint32_t>(bytes.size()),
                          files_->add(path, &parse_png_pixels)};
    next().add(place, image.pixels.size(), said.label);
  }

  Labelled& next() {
    const std::uint64_t ten = seen_ / 10;
    const std::uint64_t place = seen_++ % 10;
    const RandomKey key = derive(0, kPathFiles);
    const std::uint64_t validation = random_below(key, ten, 10);
    const std::uint64_t test = (validation + 1 + random_below(derive(key, "test"), ten, 9)) % 10;
    return place == validation ? all_.validation : place == test ? all_.test : all_.training;
  }

  fs::path level_;
  std::shared_ptr<ExampleFiles> files_;
  LabelledSplits all_;
  std::size_t width_ = 0;
  std::size_t height_ = 0;
  std::uint64_t seen_ = 0;
  bool empty_ = false;
};

}  // namespace

bool has_path_files(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) return false;
  return has_metadata(directory) ||
         std::ranges::any_of(sorted_entries(directory),
                             [](const fs::path& p) { return has_metadata(p); });
}

LabelledSplits read_path_files(const fs::path& directory) {
  const fs::path level = only_level(directory);
  PathReader reader(level);
  bool any = false;
  for (const fs::path& file : sorted_entries(level / kMetadata)) {
    if (file.extension() != ".npy") continue;
    reader.lines(file);
    any = true;
  }
  require(any, "[{}] {} has no .npy files; need one at least", kPathFiles,
          (level / kMetadata).string());
  return std::move(reader).found();
}

}  // namespace longspan
