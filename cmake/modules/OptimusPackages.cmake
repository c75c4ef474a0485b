# `cpack` makes Debian packages of what is installed (OptimusInstall.cmake):
# optimus-runtime trains, and optimus compiles.

set(CPACK_GENERATOR DEB)
set(OPTIMUS_MAINTAINER "The Optimus authors <optimus@example.org>" CACHE STRING
  "Who answers for the packages of Debian: a name and an address")
set(CPACK_PACKAGE_CONTACT "${OPTIMUS_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Of the libraries that programs and plugins are linked with.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(debian ${PROJECT_SOURCE_DIR}/cmake/debian)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE exceptions)
string(REGEX REPLACE "^.*---- LLVM Exceptions" "---- LLVM Exceptions" exceptions "${exceptions}")

# optimus_package(PACKAGE COMPONENTS C… SECTION S DEPENDS D SUMMARY S TEXT T)
macro(optimus_package package)
  cmake_parse_arguments(ARG "" "SECTION;DEPENDS;RECOMMENDS;SUGGESTS;SUMMARY;TEXT" "COMPONENTS" ${ARGN})
  string(TOUPPER ${package} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${ARG_SECTION})
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARG_DEPENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${ARG_RECOMMENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS "${ARG_SUGGESTS}")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_TEXT}")
  foreach(component ${ARG_COMPONENTS})
    string(TOUPPER ${component} part)
    set(CPACK_COMPONENT_${part}_GROUP ${package})
    list(APPEND CPACK_COMPONENTS_ALL ${component})
  endforeach()
  # Papers of a package, and the findings of lintian that are meant.
  set(package_name ${package})
  set(papers ${CMAKE_BINARY_DIR}/packages/${package})
  foreach(paper changelog copyright)
    configure_file(${debian}/${paper}.in ${papers}/${paper} @ONLY)
  endforeach()
  execute_process(COMMAND gzip -9nfk ${papers}/changelog COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${papers}/copyright ${papers}/changelog.gz
    DESTINATION share/doc/${package} COMPONENT ${package}-papers EXCLUDE_FROM_ALL)
  install(FILES ${debian}/${package}.overrides RENAME ${package}
    DESTINATION share/lintian/overrides COMPONENT ${package}-papers EXCLUDE_FROM_ALL)
endmacro()

optimus_package(optimus-runtime SECTION science
  COMPONENTS runtime python runtime-pages optimus-runtime-papers
  # The module is for one version of Python.
  DEPENDS "python3 (>= 3.11), python3 (<< 3.12), python3-numpy, libxxhash0"
  RECOMMENDS "python3-plotly"
  SUGGESTS "openmpi-bin, python3-uvicorn, python3-prometheus-client, python3-jinja2"
  SUMMARY "trains and serves transformers compiled by Optimus"
  TEXT "Runs model libraries on ranks: threads of one process, or processes.\nNo compiler is needed: libraries may come from another machine.")
optimus_package(optimus SECTION devel
  COMPONENTS compiler compiler-pages optimus-papers
  DEPENDS "optimus-runtime (= ${PROJECT_VERSION}), binutils | lld | gcc | clang"
  SUMMARY "compiles transformers for 2D meshes of devices"
  TEXT "Differentiates a program for one device, shards it, and plans every byte\nof memory and communication ahead.")
include(CPack)
