# inflight_add_plugin(NAME SOURCES...): NAME.ifp.so, built as a plugin should be: one exported symbol, no unique symbols
# (they would survive dlclose and be shared between versions), no fused multiply-adds that differ between compilers.
# Needs the target inflight::plugin (the header).
function(inflight_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".ifp.so" C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PRIVATE inflight::plugin)
  target_compile_options(${name} PRIVATE -ffp-contract=off
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fno-gnu-unique> $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
  target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL
    -Wl,--version-script=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/inflight_plugin.map)
endfunction()
