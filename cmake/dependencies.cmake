# Libraries from outside, all Debian packages, each behind one target named inflight_dep_<name> (the names of layers.txt).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenCL REQUIRED)
find_package(CLBlast REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(MD REQUIRED IMPORTED_TARGET libmd)
pkg_check_modules(TOML REQUIRED IMPORTED_TARGET tomlplusplus)

function(inflight_dependency name)
  add_library(inflight_dep_${name} INTERFACE)
  target_link_libraries(inflight_dep_${name} INTERFACE ${ARGN})
endfunction()

inflight_dependency(fmt fmt::fmt)
inflight_dependency(pcre2 PkgConfig::PCRE2)
inflight_dependency(utf8proc PkgConfig::UTF8PROC)
inflight_dependency(nlohmann nlohmann_json::nlohmann_json)
inflight_dependency(xxhash PkgConfig::XXHASH)
inflight_dependency(opencl OpenCL::OpenCL)
# Its header; the library is loaded when it is wanted (src/ops/clblast.cpp).
inflight_dependency(clblast)
target_include_directories(inflight_dep_clblast INTERFACE $<TARGET_PROPERTY:clblast,INTERFACE_INCLUDE_DIRECTORIES>)
inflight_dependency(dl ${CMAKE_DL_LIBS})
inflight_dependency(md PkgConfig::MD)
inflight_dependency(cli11 CLI11::CLI11)
inflight_dependency(toml PkgConfig::TOML)
# Of Boost only headers: Asio, and Beast's HTTP parser.
inflight_dependency(boost Boost::headers)
target_compile_definitions(inflight_dep_boost INTERFACE BOOST_ERROR_CODE_HEADER_ONLY)
# The same in every file that sees OpenCL, else one-definition trouble. 1.2 is all that is called; and Debian 12's
# opencl.hpp does not compile with 300 and a minimum of 120.
target_compile_definitions(inflight_dep_opencl INTERFACE CL_TARGET_OPENCL_VERSION=120
  CL_HPP_TARGET_OPENCL_VERSION=120 CL_HPP_MINIMUM_OPENCL_VERSION=120 CL_HPP_ENABLE_EXCEPTIONS)
