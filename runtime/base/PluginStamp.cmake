# Writes the source of a stamp:
#   cmake -DCONTRACT=FILE -DSTAMP=FILE.cpp -P PluginStamp.cmake
file(SHA256 ${CONTRACT} hash)
string(SUBSTRING ${hash} 0 16 stamp)
configure_file(${CMAKE_CURRENT_LIST_DIR}/PluginStamp.cpp.in ${STAMP} @ONLY)
