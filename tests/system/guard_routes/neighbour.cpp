extern "C" [[gnu::visibility("default")]] int neighbour() { return 42; }
