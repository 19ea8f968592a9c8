# cmake -DOUTPUT=file.cpp -DFOLDER=plugins/template -P embed_files.cmake: every *.in of the folder as text in one C++ file.
file(GLOB files ${FOLDER}/*.in)
set(arrays "")
set(rows "")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\.in$" "" name ${name})
  string(MAKE_C_IDENTIFIER ${name} identifier)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr char ${identifier}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", {${identifier}, sizeof(${identifier}) - 1}},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/embed_files.cmake.
#include \"cli/plugin_templates.h\"
namespace inflight::cli {
namespace {
${arrays}constexpr PluginTemplate kTemplates[] = {
${rows}};
}  // namespace
std::span<const PluginTemplate> plugin_templates() { return kTemplates; }
}  // namespace inflight::cli
")
