# Finds MLIR and wraps its CMake functions.

# The packaged MLIR is linked through libMLIR.so; the package does not export
# how it was built, and static and shared MLIR in one process break type ids.
set(MLIR_LINK_MLIR_DYLIB ON)
set(LLVM_LINK_LLVM_DYLIB ON)
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "expected MLIR 22 (Debian: libmlir-22-dev), found ${LLVM_VERSION} in ${MLIR_DIR}")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# add_mlir_doc writes below this folder.
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(LLVM_EXTERNAL_LIT ${LLVM_TOOLS_BINARY_DIR}/lit)
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# TableGen reads the folder's include path, not a target's. SYSTEM, so that
# warnings in MLIR's headers are not ours.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include)

separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_library(OptimusMLIRFlags INTERFACE)
target_compile_definitions(OptimusMLIRFlags INTERFACE ${LLVM_DEFINITIONS_LIST})
target_compile_options(OptimusMLIRFlags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)

# MLIR's headers are most of what the compilation of a source takes: they are
# parsed once for all libraries, tools and tests of the compiler. With these
# too, g++'s file would be above a gigabyte, which takes seconds to read.
set(headers_of_clang)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  set(headers_of_clang
    <mlir/Dialect/LLVMIR/LLVMDialect.h>
    <mlir/Dialect/LLVMIR/NVVMDialect.h>
    <mlir/Dialect/Math/IR/Math.h>
    <mlir/Dialect/SCF/IR/SCF.h>
    <mlir/Dialect/Vector/IR/VectorOps.h>
    <optimus/Dialect/CCL/IR/CCL.h>
    <optimus/Dialect/Exec/IR/Exec.h>
    <optimus/Dialect/Optimus/IR/Optimus.h>)
endif()
set(headers_of_mlir
  <llvm/Support/FormatVariadic.h>
  <llvm/Support/JSON.h>
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/OpImplementation.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Interfaces/FunctionInterfaces.h>
  <mlir/Interfaces/InferTypeOpInterface.h>
  <mlir/Pass/PassManager.h>
  ${headers_of_clang})
# optimus_use_mlir(TARGET [HEADERS]): the settings of every target with MLIR's
# headers, which are parsed for it already where they are precompiled.
function(optimus_use_mlir target)
  # Type ids of MLIR's traits are one symbol in the process: hidden, ours would
  # differ from libMLIR's and trait queries would answer no.
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default
    VISIBILITY_INLINES_HIDDEN OFF)
  add_dependencies(${target} OptimusTableGen)
  if(ARGC GREATER 1)
    optimus_use_headers(${target} ${ARGV1})
  endif()
endfunction()

optimus_precompile(OptimusMLIRHeaders ${headers_of_mlir}
  LINK OptimusMLIRFlags OptimusSupport)
optimus_use_mlir(OptimusMLIRHeaders)
if(OPTIMUS_ENABLE_TESTS)
  # Of tests that are not optimised, as those of AddOptimus.cmake.
  optimus_precompile(OptimusMLIRTestHeaders ${headers_of_mlir}
    <gmock/gmock.h> <gtest/gtest.h>
    LINK OptimusMLIRFlags OptimusSupport GTest::gmock)
  target_compile_options(OptimusMLIRTestHeaders PRIVATE -O0)
  optimus_use_mlir(OptimusMLIRTestHeaders)
endif()

# A library of the compiler.
#   optimus_add_mlir_library(NAME SOURCES... [LINK LIB...] [DEPENDS TARGET...])
function(optimus_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  optimus_use_mlir(${name} OptimusMLIRHeaders)
  # Each source has a DEBUG_TYPE of its own, in one unit with others too.
  set_target_properties(${name} PROPERTIES UNITY_BUILD_CODE_AFTER_INCLUDE "#undef DEBUG_TYPE")
  target_link_libraries(${name} PUBLIC OptimusMLIRFlags ${ARG_LINK} PRIVATE OptimusWarnings)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# A program of the compiler, linked with the shared MLIR and LLVM.
#   optimus_add_mlir_tool(NAME SOURCES... [LINK LIB...])
function(optimus_add_mlir_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  optimus_use_mlir(${name} OptimusMLIRHeaders)
  target_link_libraries(${name} PRIVATE
    OptimusMLIRFlags OptimusWarnings ${ARG_LINK} OptimusTool OptimusOutOfMemory MLIR LLVM)
endfunction()

# A GoogleTest program of the compiler's libraries, not optimised either.
#   optimus_add_mlir_unittest(NAME SOURCES... [LINK LIB...])
function(optimus_add_mlir_unittest name)
  optimus_add_gtest(${name} ${ARGN})
  optimus_use_mlir(${name} OptimusMLIRTestHeaders)
  target_compile_options(${name} PRIVATE -O0)
  target_link_libraries(${name} PRIVATE OptimusMLIRFlags MLIR LLVM)
endfunction()
