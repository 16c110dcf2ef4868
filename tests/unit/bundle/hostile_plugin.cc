// A filter plugin that reveals when it is loaded: it creates the file named by DGX_TEST_MARK.
#include <H5PLextern.h>
#include <hdf5.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>

namespace {

__attribute__((constructor)) void leave_a_mark() {
  if (const char* mark = std::getenv("DGX_TEST_MARK")) std::ofstream(mark) << "loaded";
}

std::size_t pass_on(unsigned, std::size_t, const unsigned[], std::size_t size, std::size_t*, void**) {
  return size;
}

}  // namespace

extern "C" {

H5PLUGIN_DLL H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
H5PLUGIN_DLL const void* H5PLget_plugin_info(void) {
  static const H5Z_class2_t kClass{H5Z_CLASS_T_VERS, 40000, 1, 1, "hostile", nullptr, nullptr, pass_on};
  return &kClass;
}

}  // extern "C"
