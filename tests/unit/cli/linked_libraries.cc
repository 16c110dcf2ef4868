// The list of libraries that dgx_program() writes for a program.
namespace dgx::cli {
extern const char* const kLinkedLibraries;
const char* const kLinkedLibraries = "";
}  // namespace dgx::cli
