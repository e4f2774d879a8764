# Installs the build tree into a scratch prefix, builds the consumer against it and runs it.
set(work ${build}/consumer)
file(REMOVE_RECURSE ${work})
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -S ${source}/tests/consumer -B ${work}/build -G Ninja
    -D examples=${source}/examples/library
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_CXX_FLAGS=${flags}
    -D CMAKE_PREFIX_PATH=${work}/prefix -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
foreach(example attention model run)
  run(${work}/build/${example} WORKING_DIRECTORY ${work})
endforeach()
run(${work}/build/pretrained ${source}/tests/data/stories260k)
if(EXISTS ${work}/prefix/bin/longspan)
  run(${work}/prefix/bin/longspan version)
endif()
