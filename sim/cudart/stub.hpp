// The macros that names.py uses, for a name without an implementation and for a name that is an alias of another.
#pragma once

namespace ration::cudart {
int not_simulated(const char* function) noexcept;
}

#define STUB(name) \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int name() { return ration::cudart::not_simulated(#name); }
#if defined(__x86_64__)
#define RATION_JUMP "jmp "
#elif defined(__aarch64__)
#define RATION_JUMP "b "
#endif
#define TWIN(twin, base)                                                                                       \
  asm(".text\n.globl " #twin "\n.type " #twin ", @function\n" #twin ":\n\t" RATION_JUMP #base "\n.size " #twin \
      ", . - " #twin "\n");
