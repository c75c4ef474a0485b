# Wrappers that hide the noise of CMake: every target of ours gets the same
# warnings, sanitizers and language mode.

add_library(OptimusWarnings INTERFACE)
target_compile_options(OptimusWarnings INTERFACE
  -Wall -Wextra -Wno-unused-parameter)
# Clang warns of what g++'s own headers call.
target_compile_options(OptimusWarnings INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
if(NOT OPTIMUS_FUZZERS)
  target_compile_options(OptimusWarnings INTERFACE -Werror)
endif()
# In one unit with others a source counts as a header, and a header's types may
# not use what is local to it.
if(CMAKE_UNITY_BUILD)
  target_compile_options(OptimusWarnings INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(OPTIMUS_SANITIZER)
  # Objects of the compiler, which has no RTTI, are used where there is some, and
  # would not be known there.
  add_compile_options(-fsanitize=${OPTIMUS_SANITIZER} -fno-sanitize=vptr
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${OPTIMUS_SANITIZER})
endif()
if(OPTIMUS_FUZZERS)
  # What is covered guides the fuzzers.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# optimus_precompile(NAME HEADERS... [LINK LIB...]): common headers, parsed once
# for the targets that optimus_use_headers(TARGET NAME) names.
function(optimus_precompile name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${PROJECT_SOURCE_DIR}/cmake/PrecompiledHeaders.cpp)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} OptimusWarnings)
  target_precompile_headers(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  # Clang would write when each header was changed: ccache would then find no
  # object again after a checkout.
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

function(optimus_use_headers target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
  # Programs are compiled as libraries are, or the headers would not fit them.
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()

# The slowest headers to parse of the runtime and its tests.
find_package(nlohmann_json REQUIRED)
set(headers <chrono> <filesystem> <fstream> <functional> <map> <mutex>
  <nlohmann/json.hpp> <optional> <set> <sstream> <thread>)
optimus_precompile(OptimusHeaders ${headers} LINK nlohmann_json::nlohmann_json)
if(OPTIMUS_ENABLE_TESTS)
  find_package(GTest REQUIRED)
  optimus_precompile(OptimusTestHeaders ${headers} <gmock/gmock.h> <gtest/gtest.h>
    LINK nlohmann_json::nlohmann_json GTest::gmock)
  # Optimised, tests take twice as long to compile, under a sanitizer four times;
  # what is tested stays optimised.
  target_compile_options(OptimusTestHeaders PRIVATE -O0)
endif()

# A static library that needs neither MLIR nor CUDA.
#   optimus_add_library(NAME SOURCES... [INCLUDES DIR...] [LINK LIB...])
function(optimus_add_library name)
  cmake_parse_arguments(ARG "" "" "INCLUDES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${ARG_INCLUDES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE OptimusWarnings)
  optimus_use_headers(${name} OptimusHeaders)
endfunction()

# A part of the runtime opened on demand by optimus-run, if their stamps are
# equal. What is for tests is not where programs look for plugins.
#   optimus_add_plugin(NAME SOURCES... [FOR_TESTS] [LINK LIB...])
function(optimus_add_plugin name)
  cmake_parse_arguments(ARG "FOR_TESTS" "" "LINK" ${ARGN})
  add_library(${name} MODULE ${ARG_UNPARSED_ARGUMENTS}
    $<TARGET_OBJECTS:OptimusPluginStamp>)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} OptimusWarnings)
  if(NOT ARG_FOR_TESTS)
    set_target_properties(${name} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${OPTIMUS_PLUGINS})
    add_dependencies(optimus-tools ${name})
    install(TARGETS ${name} LIBRARY DESTINATION ${OPTIMUS_PLUGINS} COMPONENT runtime)
  endif()
endfunction()

# A GoogleTest program, its tests registered one by one with ctest. OPTIMIZED is
# for tests with references that compute for longer than they compile. COST is the
# seconds of its longest test: ctest begins with what costs most.
#   optimus_add_unittest(NAME SOURCES... [OPTIMIZED] [COST SECONDS] [LINK LIB...])
function(optimus_add_unittest name)
  if(NOT OPTIMUS_ENABLE_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "OPTIMIZED" "" "" ${ARGN})
  optimus_add_gtest(${name} ${ARG_UNPARSED_ARGUMENTS})
  if(NOT ARG_OPTIMIZED OR OPTIMUS_SANITIZER)
    optimus_use_headers(${name} OptimusTestHeaders)
    target_compile_options(${name} PRIVATE -O0)
  endif()
endfunction()

# The same without what the compiler needs to be told.
function(optimus_add_gtest name)
  cmake_parse_arguments(ARG "" "COST" "LINK" ${ARGN})
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} OptimusWarnings GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unittests)
  # Values of parameters are printed with addresses, which differ by build.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 300 COST ${ARG_COST})
endfunction()
