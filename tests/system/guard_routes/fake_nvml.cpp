// An NVML with every function of the table; those that do something stand in fake_nvml_special.cpp.
extern "C" {
#define RATION_NVML_SYMBOL(index, symbol, ...) \
  [[gnu::weak, gnu::visibility("default")]] int symbol() { return 0; }
#include "guard/nvml_symbols.inc"
#undef RATION_NVML_SYMBOL
}
