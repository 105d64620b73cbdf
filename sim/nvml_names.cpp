// Every other name of the management library answers NVML_ERROR_NOT_SUPPORTED.
#define RATION_NVML_SYMBOL(index, symbol, ...) \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int symbol() { return 3; }
#include "driver/nvml_table.inc"
