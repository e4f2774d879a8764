# One executable and one CTest per *_test.cc, so that a test can be built and run alone.
find_package(GTest REQUIRED)

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS longspan/*_test.cc tests/*_test.cc)
file(GLOB testing_sources CONFIGURE_DEPENDS longspan/testing/*.cc)
list(FILTER testing_sources EXCLUDE REGEX "_test\\.cc$")
if(testing_sources)
  add_library(longspan_testing STATIC ${testing_sources})
  target_link_libraries(longspan_testing PUBLIC longspan OpenMP::OpenMP_CXX PkgConfig::hwy GTest::gtest)
endif()

foreach(source ${test_sources})
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE longspan GTest::gtest_main OpenMP::OpenMP_CXX PkgConfig::hwy
                                        nlohmann_json::nlohmann_json
                                        $<TARGET_NAME_IF_EXISTS:longspan_testing>)
  target_compile_definitions(${name} PRIVATE
    LONGSPAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LONGSPAN_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
endforeach()
