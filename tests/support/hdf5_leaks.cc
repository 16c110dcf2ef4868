// HDF5 1.10 leaks memory of its own on broken metadata, which these tests use on purpose; our leaks still
// count.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
