# find_package(longspan) → longspan::longspan; headers, library and the command line.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/longspan)

install(TARGETS longspan EXPORT longspan ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET longspan_cli)
  install(TARGETS longspan_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/longspan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "testing" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT longspan NAMESPACE longspan:: FILE longspan-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/longspan-config.cmake.in
                              ${PROJECT_BINARY_DIR}/longspan-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/longspan-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/longspan-config.cmake
              ${PROJECT_BINARY_DIR}/longspan-config-version.cmake
        DESTINATION ${package_dir})
