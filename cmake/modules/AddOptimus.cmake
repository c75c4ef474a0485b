# Wrappers that hide the noise of CMake: every target of ours gets the same
# warnings, sanitizers and language mode.

add_library(OptimusWarnings INTERFACE)
target_compile_options(OptimusWarnings INTERFACE
  -Wall -Wextra -Wno-unused-parameter)
# Clang, which only the fuzzers need, warns of g++'s own headers.
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

# A static library that needs neither MLIR nor CUDA.
#   optimus_add_library(NAME SOURCES... [INCLUDES DIR...] [LINK LIB...])
function(optimus_add_library name)
  cmake_parse_arguments(ARG "" "" "INCLUDES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${ARG_INCLUDES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE OptimusWarnings)
endfunction()

# A GoogleTest program, its tests registered one by one with ctest.
#   optimus_add_unittest(NAME SOURCES... [LINK LIB...])
function(optimus_add_unittest name)
  if(NOT OPTIMUS_ENABLE_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} OptimusWarnings GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unittests)
  # GoogleTest's templates take much longer to compile otherwise, under a
  # sanitizer four times; what is tested stays optimised.
  set(optimization -O1)
  if(OPTIMUS_SANITIZER)
    set(optimization -O0)
  endif()
  target_compile_options(${name} PRIVATE ${optimization})
  # Values of parameters are printed with addresses, which differ by build.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 300)
endfunction()
