# What every target of this project shares: warnings, include root, static runtime.
add_library(ration_options INTERFACE)
target_include_directories(ration_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_options(ration_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  $<$<BOOL:${RATION_WERROR}>:-Werror>)
if(RATION_STATIC)
  target_link_options(ration_options INTERFACE -static-libstdc++ -static-libgcc)
endif()

# Links with link-time optimisation; GCC's in as many processes as there are cores.
set(RATION_LINK_TIME $<IF:$<CXX_COMPILER_ID:GNU>,-flto=auto,-flto>)

# For rooms that work at a person's pace: they compile in two thirds of the time. GCC sees optionals that are not set
# there; where it optimises more it does not.
set(RATION_LESS_OPTIMISED $<$<CONFIG:RelWithDebInfo,Release>:-O1> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

# ration_library(NAME SOURCES... [DEPENDS ...]): a static library of one room.
function(ration_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ration_options ${ARG_DEPENDS})
endfunction()

# ration_test(NAME SOURCES... [DEPENDS ...] [LABELS ...]): a GoogleTest program; every case becomes a ctest.
function(ration_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ration_options ${ARG_DEPENDS} GTest::gtest_main Threads::Threads)
  # What is tested is optimised, the test need not be: it compiles in half the time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
endfunction()
