# The folders of `cmake --install`, below any prefix that may be moved later:
#   bin/                                tools, of C++ and of Python
#   lib/optimus/                        plugins of the runtime
#   lib/python3/dist-packages/optimus/  the Python package, with its module
#   share/                              manual pages, completion in shells
# Tools find the rest from their own place.

set(OPTIMUS_PLUGINS lib/optimus)
set(OPTIMUS_PYTHON_PACKAGES lib/python3/dist-packages)

# Where the compiler's tools find MLIR, outside of the system's folders.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
# `cpack` would build the tests, too.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
# CMake would say so of each file.
set(CMAKE_INSTALL_MESSAGE LAZY)

# All that is installed, without tests.
add_custom_target(optimus-tools)

# optimus_install_tool(TARGET COMPONENT): runtime, or compiler.
function(optimus_install_tool target component)
  add_dependencies(optimus-tools ${target})
  set_property(GLOBAL APPEND PROPERTY OPTIMUS_TOOLS_OF_${component} ${target})
  install(TARGETS ${target} RUNTIME DESTINATION bin COMPONENT ${component})
endfunction()

# optimus_add_python_tool(NAME MODULE): a program of Python, beside the others in
# the build and where it is installed.
function(optimus_add_python_tool name module)
  set(template ${PROJECT_SOURCE_DIR}/cmake/python-tool.in)
  set(permissions OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(folders "$here/../python:${PROJECT_SOURCE_DIR}/python")
  configure_file(${template} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}
    @ONLY FILE_PERMISSIONS ${permissions})
  set(folders "$here/../${OPTIMUS_PYTHON_PACKAGES}")
  configure_file(${template} ${CMAKE_CURRENT_BINARY_DIR}/installed/${name}
    @ONLY FILE_PERMISSIONS ${permissions})
  install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/installed/${name}
    DESTINATION bin COMPONENT python)
  set_property(GLOBAL APPEND PROPERTY OPTIMUS_TOOLS_OF_runtime ${name})
endfunction()

# The package; its module installs itself where it is built.
function(optimus_install_python)
  set(package ${OPTIMUS_PYTHON_PACKAGES}/optimus)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/optimus
    DESTINATION ${OPTIMUS_PYTHON_PACKAGES} COMPONENT python
    PATTERN __pycache__ EXCLUDE)
  # Where the package looks for tools, and its module for plugins.
  install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${package}\")
    file(MAKE_DIRECTORY \"\${folder}/lib\")
    file(CREATE_LINK ../../../../bin \"\${folder}/bin\" SYMBOLIC)
    file(CREATE_LINK ../../../../optimus \"\${folder}/lib/optimus\" SYMBOLIC)"
    COMPONENT python)
endfunction()

# optimus_install_pages(): of all tools, in components of their own,
# runtime-pages and compiler-pages. They come from the tools' own --help.
function(optimus_install_pages)
  if(CMAKE_CROSSCOMPILING)
    message(STATUS "No manual pages: tools of another machine do not say what they take")
    return()
  endif()
  foreach(component runtime compiler)
    get_property(of_${component} GLOBAL PROPERTY OPTIMUS_TOOLS_OF_${component})
  endforeach()
  string(REPLACE ";" "," all "${of_runtime};${of_compiler}")
  foreach(component runtime compiler)
    string(REPLACE ";" " " tools "${of_${component}}")
    if(tools)
      install(CODE "
        execute_process(COMMAND_ERROR_IS_FATAL ANY
          COMMAND \"${PROJECT_SOURCE_DIR}/tools/pages/write-pages\"
            --binaries \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}\" --see ${all}
            --output \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\" ${tools})"
        COMPONENT ${component}-pages)
    endif()
  endforeach()
endfunction()
