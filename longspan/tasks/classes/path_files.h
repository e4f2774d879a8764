// The published images of Pathfinder (Long Range Arena, lra_release; Linsley et al. 2018), as they
// are unpacked. A directory is one level, curv_baseline, curv_contour_length_9 or …_14:
//
//   metadata/N.npy        in spite of its name a text, a line per image: its directory, its file, a
//                         number, the label (1: the marks are connected), more numbers
//   imgs/N/sample_I.png   the images, all of one size
//
// Of every ten images in order of the lines one is for validation and one for testing, drawn by
// their place alone, so that labels in any order fall into all splits. One image may be empty and is
// left out: of the published ones curv_baseline/imgs/0/sample_172.png of 32x32 pixels is.
#pragma once

#include <filesystem>

#include "longspan/tasks/classes/class_task.h"

namespace longspan {

// Whether the directory, or one in it, has a directory `metadata`.
bool has_path_files(const std::filesystem::path& directory);

// Images stay in their files. Throws Error, "[pathfinder] metadata/0.npy:12: …".
LabelledSplits read_path_files(const std::filesystem::path& directory);

}  // namespace longspan
