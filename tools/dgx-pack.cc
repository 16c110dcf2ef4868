// dgx-pack: make a dataset bundle from users' own data files. dgx-pack(1).
#include <fmt/format.h>

#include <algorithm>

#include "dgx/cli/tool.h"
#include "dgx/jobs/pack.h"

namespace {

using namespace dgx;

/// The options that name two arrays in a file; `word` is what the file calls the name of an array.
template <class Source>
void declare_arrays(cli::Command& command, Source& source, const std::string& value,
                    const std::string& word) {
  command.required("--x", value, source.x, word + " of the samples");
  command.option("--y", value, source.y, word + " of labels or targets");
}

void declare_source(cli::Command& command, jobs::CsvSource& source) {
  command.positional("FILE", source.file, "a table as text, one sample per line");
  command.required("--label", "COLUMN", source.table.label,
                   "the labels' column: its name, or its number from 1");
  command.flag("--header", source.table.header, "the first line has the columns' names");
  command.choice("--delimiter", {"comma", "tab", "semicolon", "space"}, source.delimiter,
                 "delimiter between two fields");
  command.option("--columns", "LIST", source.table.columns,
                 "columns of x: names, numbers and ranges, such as 2-785");
  command.choice("--type", {"f32", "u8", "i64"}, source.dtype, "type of x");
}

void declare_source(cli::Command& command, jobs::ImagesSource& source) {
  command.positional("DIR", source.folder, "a folder of PNG and JPEG files for each class");
}

void declare_source(cli::Command& command, jobs::IdxSource& source) {
  command.required("--images", "FILE", source.images, "IDX file of the samples, plain or gzip");
  command.required("--labels", "FILE", source.labels, "IDX file of the labels");
}

void declare_source(cli::Command& command, jobs::NpySource& source) {
  command.required("--x", "FILE", source.x, "NPY file of the samples");
  command.option("--y", "FILE", source.y, "NPY file of labels or targets");
}

void declare_source(cli::Command& command, jobs::NpzSource& source) {
  command.positional("FILE", source.file, "NPZ archive, as numpy.savez writes it");
  declare_arrays(command, source, "NAME", "name of the array");
}

void declare_source(cli::Command& command, jobs::SafetensorsSource& source) {
  command.positional("FILE", source.file, "a safetensors file");
  declare_arrays(command, source, "NAME", "name of the tensor");
}

void declare_source(cli::Command& command, jobs::Hdf5Source& source) {
  command.positional("FILE", source.file, "any HDF5 file");
  declare_arrays(command, source, "PATH", "path inside it of the dataset");
}

void declare_source(cli::Command& command, jobs::TokensSource& source) {
  command.positional("FILE", source.file, "NPY file of a row of integers, or with --raw nothing but tokens");
  command.required("--context", "N", source.context, "tokens per sample");
  command.choice("--raw", {"u16", "u32"}, source.raw, "type of the tokens, little-endian");
}

void declare_source(cli::Command& command, jobs::TextSource& source) {
  command.positional("FILE", source.file, "text whose bytes are the tokens");
  command.required("--context", "N", source.context, "tokens per sample");
}

/// The form of the value of --field: a name, and where the source has the field.
std::string field_value(const auto&) { return "NAME=FILE"; }
std::string field_value(const jobs::NpzSource&) { return "NAME=NAME"; }
std::string field_value(const jobs::SafetensorsSource&) { return "NAME=NAME"; }
std::string field_value(const jobs::Hdf5Source&) { return "NAME=PATH"; }

void declare_changes(cli::Command& command, jobs::PackOptions& options, std::optional<std::string>& round,
                     bool& plain) {
  command.choice("--round", {"f32"}, round, "round f64 numbers to the nearest f32");
  command.option("--shape", "SIZES", options.shape, "shape of a sample, such as 1,28,28");
  command.flag("--shuffle", options.shuffle, "put the samples into an order drawn from --seed");
  command.option("--seed", "S", options.seed, "seed of --shuffle and --split");
  command.option("--skip", "N", options.skip, "leave out the first N samples");
  command.option("--first", "N", options.first, "then keep only the first N samples");
  command.option("--split", "P", options.split, "shuffle, and put a share P of the samples into DATA.h5");
  command.option("--rest", "REST.h5", options.rest, "bundle of the other samples of --split");
  command.flag("--normalise", options.normalise, "give each channel mean 0 and standard deviation 1");
  command.option("--like", "TRAIN.h5", options.like, "take scale, shift and classes from another bundle");
  command.option("--scale", "S", options.scale,
                 "a stored number v means v * S + T; or S,S,S, one per channel");
  command.option("--shift", "T", options.shift, "see --scale");
  command.at_most_one({"--normalise", "--like", "--scale"});
  command.flag("--plain", plain,
               "store the numbers uncompressed, where dgx reads single rows and h5py needs no plugin");
  command.output(options.output, "DATA.h5", cli::Need::kRequired);
  command.writes({"--rest"});
  command.only_with({"--seed"}, {"--shuffle", "--split"});
  command.not_with({"--shift"}, {"--normalise", "--like"});
  command.skip_existing(options.skip_existing);
}

cli::Cell values_cell(const bundle::Summary& summary, DType dtype) {
  const bool is_float = dtype == DType::kF32;
  const auto text = [&](double value) {
    return is_float ? fmt::format("{:.6g}", value) : fmt::format("{}", static_cast<std::int64_t>(value));
  };
  const auto value = [&](double number) {
    return is_float ? json::Output(number) : json::Output(static_cast<std::int64_t>(number));
  };
  return {json::Output::Object{
              {"least", value(summary.least)}, {"greatest", value(summary.greatest)}, {"mean", summary.mean}},
          fmt::format("{} to {}, mean {:.6g}", text(summary.least), text(summary.greatest), summary.mean)};
}

void print_classes(cli::Out& out, const jobs::Packed& made) {
  constexpr std::size_t kMostRows = 100;
  const auto& names = made.info.classes;
  if (made.classes.size() > kMostRows) {
    const auto [fewest, most] = std::minmax_element(made.classes.begin(), made.classes.end());
    const auto count = static_cast<std::int64_t>(made.classes.size());
    out.field("classes", cli::Cell(json::Object{{"count", count}, {"fewest", *fewest}, {"most", *most}},
                                   fmt::format("{}, {} to {} samples each", count, *fewest, *most)));
    return;
  }
  cli::Table table{names.empty() ? std::vector<std::string>{"class", "samples"}
                                 : std::vector<std::string>{"class", "name", "samples"}};
  for (std::size_t i = 0; i < made.classes.size(); ++i) {
    std::vector<cli::Cell>& row = table.rows.emplace_back();
    row.emplace_back(i);
    if (!names.empty()) row.emplace_back(names[i]);
    row.emplace_back(made.classes[i]);
  }
  out.field("classes", std::move(table));
}

std::string type_text(const bundle::FieldInfo& field) {
  return std::string(name_of(field.dtype)) + to_string(field.shape);
}

/// The fields besides x and y, in a table: their names are the user's.
void print_other_fields(cli::Out& out, const jobs::Packed& made) {
  cli::Table table{{"name", "type", "values"}};
  for (const auto& [name, field] : made.info.fields) {
    if (name == "x" || name == "y") continue;
    table.rows.push_back({name, type_text(field), values_cell(made.values.at(name), field.dtype)});
  }
  if (!table.rows.empty()) out.field("fields", std::move(table));
}

/// Scales and shifts in the form in which --scale and --shift take them.
void print_affines(cli::Out& out, const bundle::DatasetInfo& info) {
  std::vector<float> scales{info.scale}, shifts{info.shift};
  if (!info.channels.empty()) scales.clear(), shifts.clear();
  for (const bundle::Affine& channel : info.channels) {
    scales.push_back(channel.scale);
    shifts.push_back(channel.shift);
  }
  const auto cell = [](const std::vector<float>& list) {
    return cli::Cell(json::Output::Array(list.begin(), list.end()), fmt::format("{}", fmt::join(list, ",")));
  };
  out.field("scale", cell(scales));
  out.field("shift", cell(shifts));
}

void print(cli::Out& out, const jobs::Packed& made, const jobs::PackOptions& options) {
  const bundle::DatasetInfo& info = made.info;
  out.field("samples", info.samples);
  out.field("x", type_text(info.x()));
  out.field("x_values", values_cell(made.values.at("x"), info.x().dtype));
  if (const bundle::FieldInfo* const y = info.find("y")) {
    out.field("y", type_text(*y));
    if (made.classes.empty()) out.field("y_values", values_cell(made.values.at("y"), y->dtype));
  }
  if (!made.classes.empty()) print_classes(out, made);
  print_other_fields(out, made);
  if (options.normalise || options.like) print_affines(out, info);
  out.field("dataset", info.digest);
}

/// The command of one source.
template <class Source>
struct Pack {
  Source source;
  jobs::PackOptions options;
  std::optional<std::string> round;
  bool plain = false;

  void declare(cli::Command& command) {
    declare_source(command, source);
    command.option("--field", field_value(source), options.fields,
                   "a field besides x and y, and where it is; repeat for more");
    declare_changes(command, options, round, plain);
  }
  Result<cli::Verdict> run(cli::Out& out) {
    if (round) options.rounding = bundle::Rounding::kF32;
    if (plain) options.storage = bundle::Storage::kPlain;
    DGX_TRY(const auto made, jobs::pack(source, options, out.brief_job()));
    for (const jobs::Packed& one : made) {
      if (&one != &made.front()) out.next();
      if (one.existed) out.note_skipped(one.file);
      if (made.size() > 1) out.field("file", one.file);
      print(out, one, options);
    }
    return cli::Verdict::kDone;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-pack", "make a dataset bundle, whose digest a task can bind");
  tool.add<Pack<jobs::CsvSource>>("csv", "pack a table as text (CSV, TSV)");
  tool.add<Pack<jobs::ImagesSource>>("images", "pack a folder of images for each class");
  tool.add<Pack<jobs::IdxSource>>("idx", "pack IDX files (MNIST and its relatives)");
  tool.add<Pack<jobs::NpySource>>("npy", "pack NumPy arrays");
  tool.add<Pack<jobs::NpzSource>>("npz", "pack arrays of a NumPy archive");
  tool.add<Pack<jobs::SafetensorsSource>>("safetensors", "pack tensors of a safetensors file");
  tool.add<Pack<jobs::Hdf5Source>>("hdf5", "pack datasets of an HDF5 file");
  tool.add<Pack<jobs::TokensSource>>("tokens", "pack tokens with next-token targets");
  tool.add<Pack<jobs::TextSource>>("text", "pack a text as byte tokens with next-token targets");
  return tool.run(argc, argv);
}
