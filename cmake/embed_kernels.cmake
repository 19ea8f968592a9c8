# cmake -DOUTPUT=file.cpp -DFOLDER=cl_kernels -P embed_kernels.cmake: every *.cl of the folder as bytes in one C++ file.
file(GLOB files ${FOLDER}/*.cl)
set(arrays "")
set(rows "")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} identifier)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char ${identifier}[] = {${bytes}0};\n")
  string(APPEND rows "  if (name == \"${name}\") return {reinterpret_cast<const char*>(${identifier}), sizeof(${identifier}) - 1};\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/embed_kernels.cmake.
#include \"base/error.h\"
#include \"device/program.h\"
namespace inflight {
namespace {
${arrays}}  // namespace
std::string_view kernel_source(std::string_view name) {
${rows}  fail(ErrorCode::NotFound, \"no kernel file '{}'\", name);
}
}  // namespace inflight
")
