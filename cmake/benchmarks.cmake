# What `make bench` drives: longspan's side of the comparison with its peers.
add_executable(bench_worker ${PROJECT_SOURCE_DIR}/benchmarks/bench_worker.cc
               ${PROJECT_SOURCE_DIR}/benchmarks/model_jobs.cc)
target_link_libraries(bench_worker PRIVATE longspan longspan_options nlohmann_json::nlohmann_json)
