# inflight::inflight is the library. With it comes the package inflight-plugin: inflight::plugin, the header that policies
# see, and inflight_add_plugin(NAME SOURCES...), which builds one.
include(CMakeFindDependencyMacro)
find_dependency(inflight-plugin PATHS ${CMAKE_CURRENT_LIST_DIR}/../inflight-plugin NO_DEFAULT_PATH)
include(${CMAKE_CURRENT_LIST_DIR}/inflight-targets.cmake)
