# cmake -DOUTPUT=file.cpp -DFOLDER=src/server/page -P embed_page.cmake: index.html with its style and scripts put where it
# names them, and widget.html, each as one text in a C++ file.
file(READ ${FOLDER}/index.html page)
foreach(part style.css chat.js live.js)
  file(READ ${FOLDER}/${part} text)
  string(REPLACE "/*${part}*/" "${text}" page "${page}")
endforeach()
set(html ${OUTPUT}.html)
file(WRITE ${html} "${page}")
file(READ ${html} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
file(READ ${FOLDER}/widget.html hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," widget_bytes "${hex}")
file(WRITE ${OUTPUT} "// Made by cmake/embed_page.cmake.
#include \"server/web_page.h\"
namespace inflight::server {
namespace {
constexpr char kPage[] = {${bytes}};
constexpr char kWidget[] = {${widget_bytes}};
}  // namespace
std::string_view web_page() { return {kPage, sizeof kPage}; }
std::string_view widget_page() { return {kWidget, sizeof kWidget}; }
}  // namespace inflight::server
")
