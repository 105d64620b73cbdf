// A driver from before most functions were invented.
extern "C" {
[[gnu::visibility("default")]] int cuInit(unsigned) { return 0; }
[[gnu::visibility("default")]] int cuDriverGetVersion(int* version) {
  *version = 3000;
  return 0;
}
}
