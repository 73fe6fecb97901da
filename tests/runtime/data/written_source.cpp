// Sources as configurations write them.
#include "runtime/data/written_source.h"

#include "runtime/config/load.h"
#include "runtime/data/hdf5_handles.h"
#include "runtime/pages.h"
#include "tests/runtime/data/numpy.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

namespace meshwork::from_config_test {

namespace {

std::shared_ptr<const Source> source(const std::string& text, const SourceContext& context) {
  Catalog catalog;
  add_runtime(catalog);
  return catalog.make<SharedWrittenSource>(parse_config(text, "test.yaml"))->open(context);
}

std::shared_ptr<const Source> source(const std::string& text,
                                     const std::vector<std::string>& inputs = {"input"}) {
  return source(text, SourceContext{.inputs = inputs, .seed = 5});
}

// A data set of numbers of the type `stored`, `columns` in a row, or one without columns.
void add_dataset(const std::string& file, const char* name, hid_t stored,
                 const std::vector<double>& values, hsize_t columns = 0) {
  const Hdf5Guard guard;
  const bool there = std::filesystem::exists(file);
  const Hdf5File handle(there ? H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                              : H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  const hsize_t lengths[2] = {values.size() / std::max<hsize_t>(columns, 1), columns};
  const Hdf5Dataspace space(H5Screate_simple(columns == 0 ? 1 : 2, lengths, nullptr));
  const Hdf5Dataset dataset(H5Dcreate2(handle.native(), name, stored, space.native(), H5P_DEFAULT,
                                       H5P_DEFAULT, H5P_DEFAULT));
  REQUIRE(H5Dwrite(dataset.native(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                   values.data()) >= 0);
}

// A data set of `rows` by `columns` ones.
void add_ones(const std::string& file, const char* name, hsize_t rows, hsize_t columns) {
  add_dataset(file, name, H5T_IEEE_F32LE, std::vector<double>(rows * columns, 1.0), columns);
}

}  // namespace

namespace {

struct Nothing {};
template <class Visitor>
void describe(Nothing&, Visitor&) {}

}  // namespace

TEST_CASE("a kind that opens no source is an error with its place") {
  Catalog catalog;
  add_source<Nothing>(
      catalog, "void",
      [](const ConfigNode&, const Nothing&, const SourceContext&) -> std::shared_ptr<const Source> {
        return nullptr;
      });
  const auto made = catalog.make<SharedWrittenSource>(parse_config("{kind: void}", "test.yaml"));
  CHECK_THROWS_WITH(made->open(SourceContext{}),
                    "test.yaml:1:1: the kind \"void\" has opened no source: it gave null");
}

TEST_CASE("a synthetic source has the fields and values that its options say") {
  const auto made = source(
      "{kind: synthetic, rows: 9, features: {kind: uniform, type: uint8, low: 3, high: 5, "
      "shape: [2, 3]}, targets: {kind: classes, classes: 4}}");
  CHECK(made->rows() == 9);
  CHECK(made->field(0) == Field{"input", {2, 3}, ElementType::uint8, FieldRole::feature});
  CHECK(made->field(1) == Field{"targets", {}, ElementType::int32, FieldRole::target});
  for (const std::uint8_t value :
       test::read_block<std::uint8_t>(*made, 0, {0, 8}, {{0, 2}, {0, 3}})) {
    CHECK((value == 3 || value == 4));
  }
}

TEST_CASE("a synthetic source is that of the run's seed unless it says another") {
  const auto values = [](const std::string& more) {
    const auto made = source("{kind: synthetic, rows: 2, features: {shape: [3]}" + more + "}");
    return test::read_block<float>(*made, 0, {0, 1}, {{0, 3}});
  };
  CHECK(values("") == values(", seed: 5"));
  CHECK(values("") != values(", seed: 6"));
}

TEST_CASE("an option that the kind of a field does not have is an error") {
  CHECK_THROWS_WITH(source("{kind: synthetic, rows: 2, features: {shape: [3], low: 1}}"),
                    Catch::Contains("test.yaml:1:") && Catch::Contains("\"low\""));
  CHECK_THROWS_WITH(source("{kind: synthetic, rows: 2, features: {kind: uniform}}"),
                    Catch::Contains("\"shape\" is missing"));
  CHECK_THROWS_WITH(source("{kind: synthetic, rows: 2, features: {shape: [4000]}, "
                           "targets: {kind: linear_classes, classes: 2000000000}}"),
                    Catch::Contains("test.yaml:1:1") && Catch::Contains("weights"));
}

TEST_CASE("features by name come in the order of the model's inputs") {
  const std::string text =
      "{kind: synthetic, rows: 2, features: {b: {shape: [3]}, a: {shape: [2]}}}";
  const auto made = source(text, {"a", "b"});
  CHECK(made->field(0).name == "a");
  CHECK(made->field(0).shape == Shape{2});
  CHECK(made->field(1).shape == Shape{3});
  CHECK_THROWS_WITH(source(text, {"a", "b", "c"}),
                    Catch::Contains("no feature") && Catch::Contains("\"c\""));
  CHECK_THROWS_WITH(source(text, {"a", "bb"}), Catch::Contains("unknown input of the model \"b\""));
  CHECK_THROWS_WITH(source("{kind: synthetic, rows: 2, features: {shape: [3]}}", {"a", "b"}),
                    Catch::Contains("a map with a feature for each"));
}

TEST_CASE("HDF5 data sets are features and targets, one or several") {
  const test::Folder folder("from_config");
  const std::string file = folder / "data.h5";
  add_ones(file, "x", 6, 4);
  add_ones(file, "extra", 6, 2);
  add_ones(file, "y", 6, 1);
  const auto one =
      source("{kind: hdf5, features: \"" + file + ":/x\", targets: \"" + file + ":/y\"}");
  CHECK(one->rows() == 6);
  CHECK(one->field(0).shape == Shape{4});
  CHECK(one->target_count() == 1);
  const auto two =
      source("{kind: hdf5, features: {left: \"" + file + ":x\", right: \"" + file + ":extra\"}}",
             {"right", "left"});
  CHECK(two->field(0).shape == Shape{2});
  CHECK(two->target_count() == 0);
  CHECK_THROWS_WITH(source("{kind: hdf5, features: \"" + file + "\"}"),
                    Catch::Contains("test.yaml:1:24"));
  CHECK_THROWS_WITH(source("{kind: hdf5, features: \"" + file + ":/z\"}"),
                    Catch::Contains("test.yaml:1:1") && Catch::Contains("/z"));
}

TEST_CASE("arrays of NumPy are features and targets, one or several") {
  const test::Folder folder("from_config");
  test::write_file(folder / "a.npy", test::npy_bytes(test::npy_header("|u1", "(3, 2)"), "abcdef"));
  test::write_file(folder / "b.npy", test::npy_bytes(test::npy_header("|u1", "(3,)"), "ghi"));
  const auto one = source("{kind: npy, features: from_config/a.npy, targets: from_config/b.npy}");
  CHECK(one->field(0) == Field{"input", {2}, ElementType::uint8, FieldRole::feature});
  CHECK(one->field(1) == Field{"targets", {}, ElementType::uint8, FieldRole::target});
  const auto two =
      source("{kind: npy, features: {left: from_config/a.npy, right: from_config/b.npy}}",
             {"right", "left"});
  CHECK(two->field(0).name == "right");
  CHECK(two->field(0).shape.empty());
  CHECK(two->target_count() == 0);
  CHECK_THROWS_WITH(source("{kind: npy, features: from_config/c.npy}"),
                    Catch::Contains("test.yaml:1:1: from_config/c.npy: there is no such file"));
  CHECK_THROWS_WITH(source("{kind: npy, features: from_config/a.npy}", {"a", "b"}),
                    Catch::Contains("the model has 2 inputs"));
  CHECK_THROWS_WITH(
      source("{kind: npy, target: x, features: from_config/a.npy}"),
      Catch::Contains("did you mean \"targets\"") && Catch::Contains("(meshwork reference npy)"));
  if (!test::has_numpy()) return;
  test::run_numpy("numpy.savez('from_config/ab.npz', a=numpy.ones((3, 2)), b=numpy.arange(3))");
  const auto named =
      source("{kind: npz, file: from_config/ab.npz, features: {left: a, right: b}, targets: b}",
             {"right", "left"});
  CHECK(named->field(1) == Field{"left", {2}, ElementType::float32, FieldRole::feature});
  CHECK(named->field(2) == Field{"targets", {}, ElementType::int64, FieldRole::target});
  CHECK_THROWS_WITH(source("{kind: npz, file: from_config/ab.npz, features: c}"),
                    Catch::Contains("test.yaml:1:1: from_config/ab.npz: there is no member"));
}

TEST_CASE("fields that may not be rounded keep float64") {
  const test::Folder folder("from_config");
  test::write_file(folder / "x.npy", test::npy_bytes(test::npy_header("<f8", "(2,)"),
                                                     test::elements_of<double>({0.1, 0x1p60})));
  test::write_file(folder / "t.csv", "a,b\n0.1,2\n16777217.5,3\n");
  const auto check = [&](const std::string& text, const std::vector<double>& values) {
    INFO(text);
    const std::vector<std::string> inputs{"input"}, exact{"targets"};
    const auto opened = source(text, SourceContext{.inputs = inputs, .exact = exact});
    CHECK(opened->field(0).type == ElementType::float32);
    REQUIRE(opened->field(1).type == ElementType::float64);
    CHECK(test::read_all<double>(*opened, 1) == values);
  };
  check("{kind: npy, features: from_config/x.npy, targets: from_config/x.npy}", {0.1, 0x1p60});
  check("{kind: csv, file: from_config/t.csv, features: a, targets: a}", {0.1, 16777217.5});
  add_dataset(folder / "data.h5", "x", H5T_IEEE_F64LE, {0.1, 16777217.5});
  check("{kind: hdf5, features: \"from_config/data.h5:/x\", targets: \"from_config/data.h5:/x\"}",
        {0.1, 16777217.5});
  if (!test::has_numpy()) return;
  test::run_numpy("numpy.savez('from_config/x.npz', x=numpy.array([0.1, 16777217.5]))");
  check("{kind: npz, file: from_config/x.npz, features: x, targets: x}", {0.1, 16777217.5});
}

TEST_CASE("windows of a text are the feature and the targets of a model with one input") {
  const test::Folder folder("from_config");
  test::write_file(folder / "a", "abcdefghij");
  test::write_file(folder / "b", "klmnopqrst");
  const auto one = source("{kind: text, file: from_config/a, length: 3}");
  CHECK(one->rows() == 3);
  CHECK(one->field(0) == Field{"input", {3}, ElementType::uint8, FieldRole::feature});
  CHECK(one->field(1) == Field{"targets", {3}, ElementType::uint8, FieldRole::target});
  const auto part = source(
      "{kind: text, file: [from_config/a, from_config/b], length: 3, stride: 2, from: 0.5, "
      "to: 0.8}");
  CHECK(part->rows() == 2);
  CHECK(test::read_block<std::uint8_t>(*part, 1, {1}, {{0, 3}}) ==
        std::vector<std::uint8_t>{'n', 'o', 'p'});
  const auto documents = source(
      "{kind: text, file: [from_config/a, from_config/b], length: 3, stride: 8, document_end: 0}");
  CHECK(test::read_block<std::uint8_t>(*documents, 0, {1}, {{0, 3}}) ==
        std::vector<std::uint8_t>{'i', 'j', 0});
  CHECK_THROWS_WITH(source("{kind: text, file: from_config/a, length: 3, document_end: -1}"),
                    Catch::Contains("document_end: expected an integer of at least 0"));
  const std::string ending = "{kind: text, file: from_config/a, length: 3, document_end: 1}";
  const std::vector<std::string> input{"input"};
  const std::vector<std::int64_t> same{0, 1}, other{0, 2};
  CHECK(source(ending, {.inputs = input, .document_ends = same})->rows() == 3);
  CHECK_THROWS_WITH(
      source(ending, {.inputs = input, .document_ends = other}),
      "test.yaml:1:60: document_end: files end with 1, and documents of the model with 0, 2");
  CHECK_THROWS_WITH(source("{kind: text, file: from_config/a, length: 10}"),
                    Catch::Contains("test.yaml:1:1: from_config/a: 10 tokens"));
  CHECK_THROWS_WITH(source("{kind: text, file: [], length: 3}"),
                    Catch::Contains("test.yaml:1:20: file: the list is empty"));
  CHECK_THROWS_WITH(source("{kind: text, file: from_config/a}"),
                    Catch::Contains("\"length\" is missing"));
  CHECK_THROWS_WITH(source("{kind: text, file: from_config/a, length: 3, from: 0.5, to: 0.5}"),
                    Catch::Contains("test.yaml:1:52: from: 0.5 is not before 0.5, which"));
  CHECK_THROWS_WITH(source("{kind: text, file: from_config/a, length: 3}", {"a", "b"}),
                    Catch::Contains("the model has 2 inputs"));
}

TEST_CASE("columns of a table are features and targets by name") {
  const test::Folder folder("from_config");
  test::write_file(folder / "t.csv", "a;b;city\n1;2.5;Rome\n3;4.5;Oslo\n");
  const std::string table = "{kind: csv, file: from_config/t.csv, separator: ;, ";
  const auto one = source(table + "features: [a, b], targets: city}");
  CHECK(one->field(0) == Field{"input", {2}, ElementType::float32, FieldRole::feature});
  CHECK(one->field(1) == Field{"targets", {}, ElementType::int32, FieldRole::target});
  CHECK(test::read_all<std::int32_t>(*one, 1) == std::vector<std::int32_t>{1, 0});
  const auto two =
      source(table + "features: {left: [a], right: city}, categories: {city: [Rome, Oslo]}}",
             {"right", "left"});
  CHECK(test::read_all<std::int32_t>(*two, 0) == std::vector<std::int32_t>{0, 1});
  CHECK(two->field(1).shape == Shape{1});
  CHECK(test::read_all<std::int32_t>(*source(table + "features: a, categories: [a]}"), 0) ==
        std::vector<std::int32_t>{0, 1});
  CHECK_THROWS_WITH(source(table + "features: []}"), Catch::Contains("the list is empty"));
  CHECK_THROWS_WITH(source(table + "features: {input: c}}"),
                    Catch::Contains("test.yaml:1:1: from_config/t.csv: there is no column \"c\""));
  CHECK_THROWS_WITH(source("{kind: csv, file: from_config/t.csv, separator: ab, features: a}"),
                    Catch::Contains("expected one character"));
  const std::vector<Categories> known{{"city", {"Oslo", "Paris", "Rome"}}};
  const std::vector<std::string> inputs{"input"};
  const auto other = source(table + "features: city}",
                            SourceContext{.inputs = inputs, .seed = 5, .categories = &known});
  CHECK(test::read_all<std::int32_t>(*other, 0) == std::vector<std::int32_t>{2, 0});
}

TEST_CASE("every kind has weights of samples, behind targets or without") {
  const test::Folder folder("from_config");
  const auto weights = [](const std::shared_ptr<const Source>& made, bool with_targets) {
    CHECK(made->target_count() == (with_targets ? 1 : 0));
    REQUIRE(made->weights_field() == (with_targets ? 2 : 1));
    const Field& field = made->field(*made->weights_field());
    CHECK(field.name == "sample_weights");
    CHECK(field.role == FieldRole::weight);
    return field;
  };
  test::write_file(folder / "x.npy", test::npy_bytes(test::npy_header("|u1", "(3,)"), "abc"));
  test::write_file(folder / "w.npy", test::npy_bytes(test::npy_header("|u1", "(3,)"), "ghi"));
  test::write_file(folder / "few.npy", test::npy_bytes(test::npy_header("|u1", "(2,)"), "gh"));
  const std::string npy = "{kind: npy, features: from_config/x.npy, ";
  const auto of_npy =
      source(npy + "targets: from_config/x.npy, sample_weights: from_config/w.npy}");
  CHECK(weights(of_npy, true).shape.empty());
  CHECK(test::read_all<std::uint8_t>(*of_npy, 2) == std::vector<std::uint8_t>{'g', 'h', 'i'});
  (void)weights(source(npy + "sample_weights: from_config/w.npy}"), false);
  CHECK_THROWS_WITH(source(npy + "sample_weights: from_config/few.npy}"),
                    Catch::Contains("test.yaml:1:1") && Catch::Contains("3 samples") &&
                        Catch::Contains("from_config/few.npy holds 2; expected equal numbers"));
  const std::string h5 = folder / "data.h5";
  add_ones(h5, "x", 6, 4);
  add_ones(h5, "w", 6, 1);
  CHECK(weights(
            source("{kind: hdf5, features: \"" + h5 + ":/x\", sample_weights: \"" + h5 + ":/w\"}"),
            false)
            .shape == Shape{1});
  test::write_file(folder / "t.csv", "a,b,city\n1,2.5,Rome\n3,4.5,Oslo\n");
  const std::string csv = "{kind: csv, file: from_config/t.csv, features: a, targets: city, ";
  const auto of_csv = source(csv + "sample_weights: b}");
  CHECK(weights(of_csv, true).shape.empty());
  CHECK(test::read_all<float>(*of_csv, 2) == std::vector<float>{2.5f, 4.5f});
  CHECK_THROWS_WITH(source(csv + "sample_weights: city}"),
                    "test.yaml:1:82: sample_weights: the column holds texts; the weights of "
                    "samples are numbers");
  CHECK_THROWS_WITH(source(csv + "sample_weight: b}"),
                    Catch::Contains("did you mean \"sample_weights\"?"));
  (void)weights(source("{kind: synthetic, rows: 3, features: {shape: [2]}, targets: {kind: "
                       "classes, classes: 4}, sample_weights: {kind: uniform, low: 0, high: 2}}"),
                true);
  if (!test::has_numpy()) return;
  test::run_numpy("numpy.savez('from_config/xw.npz', x=numpy.ones((3, 2)), w=numpy.arange(3))");
  (void)weights(source("{kind: npz, file: from_config/xw.npz, features: x, sample_weights: w}"),
                false);
}

TEST_CASE("IDX data have one feature") {
  CHECK_THROWS_WITH(source("{kind: idx, images: a}", {"a", "b"}), Catch::Contains("2 inputs"));
  CHECK_THROWS_WITH(source("{kind: idx, labels: a}"), Catch::Contains("\"images\" is missing"));
}

}  // namespace meshwork::from_config_test
