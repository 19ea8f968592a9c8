# One set of warnings and sanitizers for all of our code.
# -Wno-restrict: GCC 12 sees overlaps in std::string that are not there (its bug 105651).
# -Wdouble-promotion: Clang's calls double{x}, which says what is meant, an implicit conversion, too.
# -Wno-deprecated-declarations: Clang's are of what libstdc++ 12 itself calls in std::ranges::stable_sort().
# -Wno-missing-field-initializers: in designated initialisers the fields left out are meant to be.
add_library(inflight_options INTERFACE)
target_compile_options(inflight_options INTERFACE -Wall -Wextra -Wshadow -Wundef -Wformat=2
  $<$<CXX_COMPILER_ID:GNU>:-Wdouble-promotion> -fno-math-errno
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>> $<$<BOOL:${INFLIGHT_DEVELOPER_MODE}>:-Werror>)
# a*b+c is rounded twice wherever the source says so: host twins of device arithmetic depend on it.
target_compile_options(inflight_options INTERFACE -ffp-contract=off)
if(INFLIGHT_SANITIZE)
  # -Wno-maybe-uninitialized: with sanitizers GCC 12 loses sight of what guards an optional's value (Boost.Beast's headers).
  # -Wno-tsan: of fences, which Boost.Asio has beside the locks that are seen.
  target_compile_options(inflight_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-tsan>)
  add_compile_options(-fsanitize=${INFLIGHT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${INFLIGHT_SANITIZE})
  add_compile_definitions(_GLIBCXX_ASSERTIONS INFLIGHT_SANITIZED)
endif()
