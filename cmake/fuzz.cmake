# Fuzz targets, one stem each: tests/fuzz/fuzz_NAME.cc. The folder is the list of them.
#
#   fuzz_test    a test like any other: their corpora and some mutants, with any compiler
#   fuzzers      with LONGSPAN_FUZZ (clang): fuzz/NAME under libFuzzer, which `make fuzz` runs
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.cc)
list(FILTER fuzz_sources EXCLUDE REGEX "fuzz_test\\.cc$")
set(fuzz_base
  tests/fuzz/fuzzing.cc tests/fuzz/tensors_file.cc tests/fuzz/tree.cc tests/fuzz/use_model.cc)

set(fuzz_names ${fuzz_sources})
list(TRANSFORM fuzz_names REPLACE ".*/fuzz_(.*)\\.cc$" "\\1")
list(JOIN fuzz_names ")\nLONGSPAN_FUZZ_TARGET(" fuzz_list)
file(CONFIGURE OUTPUT generated/fuzz_targets.inc
     CONTENT "LONGSPAN_FUZZ_TARGET(@fuzz_list@)\n" @ONLY)
longspan_tests(fuzz_test 2 CHECKED SOURCES tests/fuzz/fuzz_test.cc ${fuzz_sources} ${fuzz_base})
target_include_directories(fuzz_test_objects PRIVATE ${PROJECT_BINARY_DIR}/generated)

if(LONGSPAN_FUZZ)
  add_custom_target(fuzzers)
  add_library(longspan_fuzz_base OBJECT ${fuzz_base})
  target_link_libraries(longspan_fuzz_base PUBLIC longspan_test_options)
  foreach(name ${fuzz_names})
    add_executable(fuzz_${name} tests/fuzz/fuzz_${name}.cc tests/fuzz/libfuzzer_main.cc)
    set_target_properties(fuzz_${name} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    target_compile_definitions(fuzz_${name} PRIVATE LONGSPAN_FUZZ_TARGET=fuzz_${name})
    target_link_libraries(fuzz_${name} PRIVATE longspan_fuzz_base longspan_test_base longspan)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers fuzz_${name})
  endforeach()
endif()
