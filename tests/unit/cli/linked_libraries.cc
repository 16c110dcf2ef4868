// What dgx_program() writes for programs.
namespace dgx::cli {
extern const char* const kLinkedLibraries;
const char* const kLinkedLibraries = "";
}  // namespace dgx::cli
