# One test program per folder: longspan/attention and what is nested in it → attention_test. CTest
# runs a program in shards, so that both cores have something to do;
# `build/tests/attention_test --gtest_filter=…` runs a part of it.
#
# The tests beside the code run a second time, label `checked`, on a library that the address and
# undefined-behaviour sanitizers watch. It alone is compiled again: the tests are the same objects,
# and what they allocate is watched all the same.
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(sanitizers -fsanitize=address,undefined)
# Alignment and pointer arithmetic are not checked, which x86 forgives and which takes a third of the
# time; kernels are large functions of many branches, where every check takes minutes to compile,
# and most of all that of the stack, on which they have little but vectors.
# Warnings are the other library's: with one instruction set, Highway's names are not apart.
longspan_library(longspan_checked ONE_TARGET
  FLAGS ${sanitizers} -fno-sanitize=null,object-size,vptr,alignment,pointer-overflow
        -fno-sanitize-recover=all
        -fno-omit-frame-pointer -O1 -D_GLIBCXX_ASSERTIONS
  KERNEL_FLAGS -fno-sanitize=bounds,shift,return --param asan-stack=0 -w)
target_link_options(longspan_checked PUBLIC ${sanitizers})
set_target_properties(longspan_checked longspan_checked_kernels PROPERTIES EXCLUDE_FROM_ALL ON)
add_custom_target(checked_tests)

# What every test is compiled with. GoogleTest's headers are most of a small test's compile time, so
# they are compiled once; a larger precompiled header takes longer to load than to read. Optimising a
# test takes longer than it saves, but for those that compute definitions in long loops.
set(computing kernels_test attention_test)
add_library(longspan_test_options INTERFACE)
target_compile_features(longspan_test_options INTERFACE cxx_std_20)
target_compile_options(longspan_test_options INTERFACE $<$<CONFIG:RelWithDebInfo>:-g0>)
target_include_directories(longspan_test_options INTERFACE ${PROJECT_SOURCE_DIR})
target_link_libraries(longspan_test_options
  INTERFACE longspan_options OpenMP::OpenMP_CXX PkgConfig::hwy fmt::fmt GTest::gtest GTest::gmock
            nlohmann_json::nlohmann_json)
target_compile_definitions(longspan_test_options INTERFACE
  LONGSPAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LONGSPAN_BINARY_DIR="${PROJECT_BINARY_DIR}")

file(GLOB testing_sources CONFIGURE_DEPENDS longspan/testing/*.cc)
list(FILTER testing_sources EXCLUDE REGEX "_test\\.cc$")
add_library(longspan_test_base OBJECT ${testing_sources})
target_link_libraries(longspan_test_base PUBLIC longspan_test_options)
target_compile_options(longspan_test_base PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
target_precompile_headers(longspan_test_base PRIVATE <gtest/gtest.h>)
longspan_unite(longspan_test_base)

# One program: the objects of its tests on one of the two libraries, run in shards.
function(longspan_test_program program library shards label)
  cmake_parse_arguments(test "" "" "OBJECTS" ${ARGN})
  add_executable(${program})
  set_target_properties(${program} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${program} PRIVATE ${test_OBJECTS} longspan_test_base ${library}
                                           GTest::gtest_main)
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    set(name ${program}_${shard})
    add_test(NAME ${name} COMMAND ${program})
    # Several tests with several threads each share the cores: threads that spin while they wait
    # for one take minutes where threads that sleep take milliseconds.
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS ${label} ENVIRONMENT
      "OMP_WAIT_POLICY=passive;GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard};ASAN_OPTIONS=allocator_may_return_null=1")
  endforeach()
endfunction()

# longspan_tests(PROGRAM SHARDS [CHECKED] [CLI] SOURCES …)
function(longspan_tests program shards)
  cmake_parse_arguments(test "CHECKED;CLI" "" "SOURCES" ${ARGN})
  add_library(${program}_objects OBJECT ${test_SOURCES})
  target_link_libraries(${program}_objects PUBLIC longspan_test_options)
  if(program IN_LIST computing)
    target_precompile_headers(${program}_objects PRIVATE <gtest/gtest.h>)
  else()
    target_compile_options(${program}_objects PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
    target_precompile_headers(${program}_objects REUSE_FROM longspan_test_base)
  endif()
  longspan_unite(${program}_objects)
  longspan_test_program(${program} longspan ${shards} plain OBJECTS ${program}_objects)
  if(test_CHECKED)
    longspan_test_program(${program}_checked longspan_checked ${shards} checked
                          OBJECTS ${program}_objects)
    set_target_properties(${program}_checked PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(checked_tests ${program}_checked)
  endif()
  if(test_CLI AND TARGET longspan_cli)
    add_dependencies(${program} longspan_cli)
  endif()
endfunction()

# Beside the code: paths are relative, so that no folder above the project can look like one of it.
file(GLOB_RECURSE beside RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS longspan/*_test.cc)
set(folders ${beside})
list(TRANSFORM folders REPLACE "^longspan/([^/]+)/.*" "\\1")
list(REMOVE_DUPLICATES folders)
foreach(folder ${folders})
  set(sources ${beside})
  list(FILTER sources INCLUDE REGEX "^longspan/${folder}/")
  list(LENGTH sources count)
  math(EXPR shards "(${count} + 2) / 3")
  longspan_tests(${folder}_test ${shards} CHECKED SOURCES ${sources})
endforeach()

# What spans folders: the command line, whole training runs, golden vectors, the process's memory.
file(GLOB cli_tests CONFIGURE_DEPENDS tests/cli/*_test.cc)
longspan_tests(cli_test 6 CLI SOURCES ${cli_tests})
# What the tests of faults preload into the program.
add_library(failing_calls MODULE tests/cli/failing_calls.cc)
set_target_properties(failing_calls PROPERTIES PREFIX ""
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(failing_calls PRIVATE longspan_options ${CMAKE_DL_LIBS})
add_dependencies(cli_test failing_calls)
file(GLOB run_tests CONFIGURE_DEPENDS tests/runs/*_test.cc)
longspan_tests(runs_test 4 CLI SOURCES ${run_tests})
longspan_tests(vectors_test 1 SOURCES tests/vectors/golden_test.cc)
longspan_tests(released_test 1 SOURCES tests/released/released_test.cc)
file(GLOB memory_tests CONFIGURE_DEPENDS tests/memory/*_test.cc)
longspan_tests(memory_test 1 CLI SOURCES ${memory_tests})
# The worked example of the documentation, with its test.
file(GLOB example_sources CONFIGURE_DEPENDS examples/*.cc)
longspan_tests(examples_test 1 SOURCES ${example_sources})

# Readers of files, given hostile ones.
include(cmake/fuzz.cmake)

# What is checked about the text of the project.
add_test(NAME layering
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/check_layers.py ${PROJECT_SOURCE_DIR})
add_test(NAME layering_can_fail
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/layering/check_layers_test.py)
find_program(CLANG_FORMAT clang-format)
if(CLANG_FORMAT)
  add_test(NAME format COMMAND ${PROJECT_SOURCE_DIR}/tools/check_format.sh)
endif()

# The commands that the documentation shows.
if(TARGET longspan_cli)
  add_test(NAME documentation
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/check_docs.py
                   ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  set_tests_properties(documentation PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive TIMEOUT 600)
endif()

# A ten-line program built against the installed tree.
add_test(NAME consumer
         COMMAND ${CMAKE_COMMAND} -D build=${PROJECT_BINARY_DIR} -D source=${PROJECT_SOURCE_DIR}
                 -D compiler=${CMAKE_CXX_COMPILER} -D flags=${CMAKE_CXX_FLAGS}
                 -P ${PROJECT_SOURCE_DIR}/tests/consumer/run.cmake)

# Golden vectors: golden_check DIR compares the build with any folder of them.
file(GLOB golden_sources CONFIGURE_DEPENDS tests/vectors/golden_*.cc)
list(FILTER golden_sources EXCLUDE REGEX "_test\\.cc$")
add_executable(golden_check ${golden_sources} longspan/testing/recall_rule.cc)
longspan_unite(golden_check)
target_link_libraries(golden_check PRIVATE longspan longspan_options nlohmann_json::nlohmann_json)
add_test(NAME golden COMMAND golden_check ${PROJECT_SOURCE_DIR}/tests/golden)
add_dependencies(vectors_test golden_check)
set_tests_properties(golden PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive TIMEOUT 600)

# The page of a comparison: its bundle built anew from the locked sources, and the page in a browser.
# Both run in a copy of apps/web, so that nothing is installed into the source tree.
add_executable(render_page tests/render_page.cc)
set_target_properties(render_page PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(render_page PRIVATE longspan longspan_options nlohmann_json::nlohmann_json)
set(web ${PROJECT_SOURCE_DIR}/apps/web)
add_test(NAME page_packages COMMAND ${web}/test/install.sh ${web} ${PROJECT_BINARY_DIR}/web)
add_test(NAME page_bundle COMMAND ${web}/test/rebuild.sh ${web} ${PROJECT_BINARY_DIR}/web)
add_test(NAME page_browser
         COMMAND ${web}/test/browse.sh ${PROJECT_BINARY_DIR}/web $<TARGET_FILE:render_page>
                 ${PROJECT_SOURCE_DIR}/data/quality/recall.json)
set_tests_properties(page_packages PROPERTIES FIXTURES_SETUP page_packages)
set_tests_properties(page_bundle page_browser PROPERTIES FIXTURES_REQUIRED page_packages)
set_tests_properties(page_packages page_bundle page_browser PROPERTIES TIMEOUT 600)

# What takes long begins early, so that both cores have something to do until the end.
set_tests_properties(page_packages page_browser PROPERTIES COST 1000)
set_tests_properties(documentation consumer PROPERTIES COST 900)
