// The binary version of CIFAR-10 (Krizhevsky 2009): records of a label and 3·32·32 bytes, all red
// ones first, then green, then blue.
#pragma once

#include <filesystem>

#include "longspan/tasks/images.h"

namespace longspan {

// Whether the directory has data_batch_1.bin.
bool has_cifar(const std::filesystem::path& directory);

struct CifarSets {
  ImageSet training;  // of data_batch_1.bin, data_batch_2.bin, …
  ImageSet test;      // of test_batch.bin
};
// As grey images: 0.299 red + 0.587 green + 0.114 blue, rounded. Throws Error for what is none.
CifarSets read_cifar(const std::filesystem::path& directory);

}  // namespace longspan
