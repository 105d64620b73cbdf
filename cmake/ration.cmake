# What every target of this project shares: warnings, include root, static runtime.
add_library(ration_options INTERFACE)
target_include_directories(ration_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/libration ${CMAKE_SOURCE_DIR}/libration/include)
target_compile_options(ration_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  $<$<BOOL:${RATION_WERROR}>:-Werror>)
if(RATION_STATIC)
  target_link_options(ration_options INTERFACE -static-libstdc++ -static-libgcc)
endif()

# Links with link-time optimisation; GCC's in as many processes as there are cores.
set(RATION_LINK_TIME $<IF:$<CXX_COMPILER_ID:GNU>,-flto=auto,-flto>)

# For rooms that work at a person's pace, or twice a second: in a build for tests they compile in three quarters of the
# time. GCC sees optionals that are not set there; where it optimises more it does not. Packages are -O2 throughout.
set(RATION_LESS_OPTIMISED $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

# A unity build: several files compiled as one, in half the time. What one of them has in `namespace {` is then seen by
# the others: the compiler refuses two that are alike, `./dev lint` one that hides what a header declares.
set(RATION_UNITY 8 CACHE STRING "How many files of a large room or a unit test are compiled as one; 1: each by itself")
function(ration_unity target)
  if(RATION_UNITY GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${RATION_UNITY})
  endif()
endfunction()

# ration_library(NAME [UNITY] SOURCES... [DEPENDS ...]): a static library of one room. UNITY: of a large one.
function(ration_library name)
  cmake_parse_arguments(ARG "UNITY" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ration_options ${ARG_DEPENDS})
  if(ARG_UNITY)
    ration_unity(${name})
  endif()
endfunction()

# ration_test(NAME SOURCES... [DEPENDS ...] [LABELS ...]): a GoogleTest program; every case becomes a ctest.
function(ration_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ration_options ration_case_limit ${ARG_DEPENDS} GTest::gtest_main Threads::Threads)
  ration_unity(${name})
  # What is tested is optimised, the test need not be: it compiles in half the time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "unit;${ARG_LABELS}" TIMEOUT 300)
endfunction()
