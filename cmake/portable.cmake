# Compiles for servers older than this machine, and for aarch64: zig's clang with the symbols of the glibc that
# RATION_TARGET names (x86_64-linux-gnu.2.17), and the libraries of Debian's archives unpacked under RATION_LIBRARIES.
# Used by `./dev package`; everything else is compiled by GCC.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RATION_TARGET RATION_LIBRARIES RATION_ZIG)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR ${RATION_TARGET})
set(CMAKE_SYSTEM_NAME Linux)

# CMake names a tool by one path.
set(tools ${CMAKE_BINARY_DIR}/portable)
foreach(tool ar ranlib)
  file(CONFIGURE OUTPUT ${tools}/${tool} CONTENT "#!/bin/sh\nexec ${RATION_ZIG} ${tool} \"$@\"\n")
  file(CHMOD ${tools}/${tool} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  string(TOUPPER ${tool} variable)
  set(CMAKE_${variable} ${tools}/${tool})
endforeach()
set(CMAKE_C_COMPILER ${RATION_ZIG} cc -target ${RATION_TARGET})
set(CMAKE_CXX_COMPILER ${RATION_ZIG} c++ -target ${RATION_TARGET})
set(CMAKE_ASM_COMPILER ${CMAKE_C_COMPILER})

set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${RATION_LIBRARIES})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(headers ${RATION_LIBRARIES}/usr/include)
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-isystem ${headers} -isystem ${headers}/${CMAKE_LIBRARY_ARCHITECTURE}")
endforeach()
# What is packaged carries no symbols, and no path of the machine that made it.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(paths "-ffile-prefix-map=${CMAKE_BINARY_DIR}=. -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${RATION_LIBRARIES}=.")
foreach(language C CXX ASM)
  set(CMAKE_${language}_FLAGS_RELEASE "-O2 -DNDEBUG ${paths}" CACHE STRING "")
endforeach()
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s -pie")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s")
