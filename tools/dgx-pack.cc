// dgx-pack: make a dataset bundle from users' own data files. dgx-pack(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/pack.h"

namespace {

using namespace dgx;

void declare_common(cli::Command& command, jobs::PackOptions& options) {
  command.option("--scale", "S", options.scale, "a stored number v means v * S + T");
  command.option("--shift", "T", options.shift, "see --scale");
  command.option("--first", "N", options.first, "keep only the first N samples");
  command.output(options.output, "DATA.h5", cli::Need::kRequired);
}

void print_field(cli::Out& out, std::string_view name, DType dtype, const Shape& shape) {
  out.field(name, std::string(name_of(dtype)) + to_string(shape));
}

Result<cli::Verdict> print(cli::Out& out, Result<bundle::DatasetInfo> made) {
  DGX_TRY(const bundle::DatasetInfo info, std::move(made));
  out.field("samples", info.samples);
  print_field(out, "x", info.x_dtype, info.x_shape);
  print_field(out, "y", info.y_dtype, info.y_shape);
  out.field("dataset", info.digest);
  return cli::Verdict::kDone;
}

struct Idx {
  jobs::PackOptions options;
  std::string images, labels;

  void declare(cli::Command& command) {
    command.required("--images", "FILE", images, "IDX file of the samples, plain or gzip");
    command.required("--labels", "FILE", labels, "IDX file of the labels");
    declare_common(command, options);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    return print(out, jobs::pack_idx(images, labels, options, out.brief_job()));
  }
};

struct Npy {
  jobs::PackOptions options;
  std::string x, y;

  void declare(cli::Command& command) {
    command.required("--x", "FILE", x, "NPY file of the samples");
    command.required("--y", "FILE", y, "NPY file of labels or targets");
    declare_common(command, options);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    return print(out, jobs::pack_npy(x, y, options, out.brief_job()));
  }
};

struct Text {
  jobs::PackOptions options;
  std::string file;
  std::int64_t context = 0;

  void declare(cli::Command& command) {
    command.positional("FILE", file, "text whose bytes are the tokens");
    command.required("--context", "N", context, "tokens per sample");
    declare_common(command, options);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    return print(out, jobs::pack_text(file, context, options, out.brief_job()));
  }
};

struct Hdf5 {
  jobs::PackOptions options;
  std::string file, x, y;

  void declare(cli::Command& command) {
    command.positional("FILE", file, "any HDF5 file");
    command.required("--x", "PATH", x, "path of the dataset of the samples inside it");
    command.required("--y", "PATH", y, "path of the dataset of labels or targets");
    declare_common(command, options);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    return print(out, jobs::pack_hdf5(file, x, y, options, out.brief_job()));
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-pack", "make a dataset bundle, whose digest a task can bind");
  tool.add<Idx>("idx", "pack IDX files (MNIST and its relatives)");
  tool.add<Npy>("npy", "pack NumPy arrays");
  tool.add<Text>("text", "pack a text as byte tokens with next-token targets");
  tool.add<Hdf5>("hdf5", "pack two datasets of an HDF5 file");
  return tool.run(argc, argv);
}
