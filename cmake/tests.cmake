# One executable and one CTest per *_test.cc, so that a test can be built and run alone.
#
# Labels: `quick` are the tests beside the code, less those that LONGSPAN_NOT_QUICK matches. They
# are what runs under the sanitizers, where everything takes several times as long; the target
# quick_tests builds them and nothing else.
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(LONGSPAN_NOT_QUICK "^$" CACHE STRING "Tests beside the code that the sanitizers need not run")

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS longspan/*_test.cc apps/*_test.cc tests/*_test.cc)
# The worked example of the documentation, with its test.
file(GLOB example_sources CONFIGURE_DEPENDS examples/*.cc)
file(GLOB testing_sources CONFIGURE_DEPENDS longspan/testing/*.cc)
list(FILTER testing_sources EXCLUDE REGEX "_test\\.cc$")

# What every test compiles and links with. GoogleTest's header is most of a small test's compile
# time, so it is compiled once.
add_library(longspan_test_base STATIC ${testing_sources})
target_link_libraries(longspan_test_base
  PUBLIC longspan longspan_options OpenMP::OpenMP_CXX PkgConfig::hwy GTest::gtest GTest::gmock
         nlohmann_json::nlohmann_json)
target_compile_definitions(longspan_test_base PUBLIC
  LONGSPAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LONGSPAN_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_precompile_headers(longspan_test_base PRIVATE <gtest/gtest.h>)

add_executable(examples_test ${example_sources})
set_target_properties(examples_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(examples_test PRIVATE longspan_test_base GTest::gtest_main)
add_test(NAME examples COMMAND examples_test)

add_custom_target(quick_tests)
foreach(source ${test_sources})
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE longspan_test_base GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM longspan_test_base)
  add_test(NAME ${name} COMMAND ${name})
  # Several tests with several threads each share the cores: threads that spin while they wait for
  # one take minutes where threads that sleep take milliseconds.
  set_tests_properties(${name} PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive TIMEOUT 600)
  if(source MATCHES "/longspan/[^/]+/[^/]+$" AND NOT name MATCHES "${LONGSPAN_NOT_QUICK}")
    set_tests_properties(${name} PROPERTIES LABELS quick)
    add_dependencies(quick_tests ${name})
  endif()
  # Tests that span folders drive the command line.
  if(TARGET longspan_cli AND source MATCHES "/tests/")
    add_dependencies(${name} longspan_cli)
  endif()
endforeach()

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
file(GLOB golden_sources CONFIGURE_DEPENDS tests/golden_*.cc)
list(FILTER golden_sources EXCLUDE REGEX "_test\\.cc$")
add_executable(golden_check ${golden_sources})
target_link_libraries(golden_check PRIVATE longspan longspan_options nlohmann_json::nlohmann_json)
add_test(NAME golden COMMAND golden_check ${PROJECT_SOURCE_DIR}/tests/golden)
add_dependencies(golden_test golden_check)
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
         COMMAND ${web}/test/browse.sh ${PROJECT_BINARY_DIR}/web $<TARGET_FILE:render_page>)
set_tests_properties(page_packages PROPERTIES FIXTURES_SETUP page_packages)
set_tests_properties(page_bundle page_browser PROPERTIES FIXTURES_REQUIRED page_packages)
set_tests_properties(page_packages page_bundle page_browser PROPERTIES TIMEOUT 600)
