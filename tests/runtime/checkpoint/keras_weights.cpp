// Keras's weights files: what is written is read, and what is no such file is said.
#include "runtime/checkpoint/keras_weights.h"

#include <filesystem>
#include <fstream>

#include "collectives/error.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "tests/support/catch.h"

namespace meshwork::keras_weights_test {

namespace {

namespace fs = std::filesystem;

const std::vector<float> kernel{1, 2, 3, 4, 5, 6};
const std::vector<float> bias{0.5f, -0.0f, 1e-40f};

fs::path small_file() {
  const fs::path file = fs::current_path() / "small.weights.h5";
  KerasWeightsWriter writer(file);
  writer.write("layers/dense/vars/0", {2, 3}, kernel);
  writer.write("layers/dense/vars/1", {3}, bias);
  for (int i = 0; i < 11; ++i) {
    const float value = static_cast<float>(i);
    writer.write("optimizer/vars/" + std::to_string(i + 1), {}, std::span(&value, 1));
  }
  writer.write_integer("optimizer/vars/0", 1234);
  writer.finish();
  return file;
}

std::string refusal(const fs::path& file) {
  try {
    (void)KerasWeightsReader(file);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("what was written is read, whole and by block, and numbers are ordered as numbers") {
  const KerasWeightsReader reader(small_file());
  REQUIRE(reader.arrays().size() == 14);
  CHECK(reader.arrays()[4].place == "optimizer/vars/2");
  CHECK(reader.arrays()[13].place == "optimizer/vars/11");
  const KerasArray* array = reader.find("layers/dense/vars/0");
  REQUIRE(array != nullptr);
  CHECK(array->shape == Shape{2, 3});
  std::vector<float> all(6);
  reader.read(*array, whole(array->shape), all);
  CHECK(all == kernel);
  std::vector<float> block(2);
  reader.read(*array, {{0, 2}, {1, 2}}, block);
  CHECK(block == std::vector<float>{2, 5});
  std::vector<float> others(3);
  reader.read(*reader.find("layers/dense/vars/1"), {{0, 3}}, others);
  CHECK(others == bias);
  CHECK(reader.read_number("optimizer/vars/0") == 1234);
  CHECK(reader.find("layers/dense/vars/2") == nullptr);
  CHECK_THROWS_WITH(reader.read_number("layers/dense/vars/0"),
                    Catch::Contains("layers/dense/vars/0 is not one number"));
}

TEST_CASE("a file has its name only when it is finished") {
  const fs::path file = fs::current_path() / "unfinished.weights.h5";
  fs::remove(file);
  {
    KerasWeightsWriter writer(file);
    writer.write("layers/dense/vars/0", {2, 3}, kernel);
  }
  CHECK_FALSE(fs::exists(file));
  CHECK_FALSE(fs::exists(file.string() + ".meshwork-unfinished"));
  CHECK_THROWS_WITH(
      KerasWeightsWriter(fs::current_path() / "nowhere" / "a.weights.h5"),
      Catch::Contains("a.weights.h5.meshwork-lock: cannot be created: there is no folder"));
  CHECK_THROWS_WITH(KerasWeightsWriter(fs::current_path()), Catch::Contains("is a directory"));
}

TEST_CASE("what is no file of Keras's weights is said to be what it is") {
  const fs::path folder = fs::current_path();
  CHECK_THAT(refusal(folder / "nowhere.weights.h5"), Catch::Contains("there is no such file"));
  CHECK_THAT(refusal(folder),
             Catch::Contains("is a directory; a file of Keras's weights is expected"));
  std::ofstream(folder / "text.weights.h5") << "seed: 7\n";
  CHECK_THAT(refusal(folder / "text.weights.h5"), Catch::Contains("is no HDF5 file"));
  std::ofstream(folder / "empty.weights.h5") << "";
  CHECK_THAT(refusal(folder / "empty.weights.h5"), Catch::Contains("is empty"));
  const fs::path cut = folder / "cut.weights.h5";
  fs::copy_file(small_file(), cut, fs::copy_options::overwrite_existing);
  fs::resize_file(cut, fs::file_size(cut) / 2);
  CHECK_THAT(refusal(cut), Catch::Contains("truncated or damaged"));
}

TEST_CASE("HDF5 files that are something else are refused") {
  const auto made = [](const std::string& name, auto&& fill) {
    const Hdf5Guard guard;
    const fs::path file = fs::current_path() / name;
    const Hdf5File opened(check_hdf5(
        H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "created", name));
    fill(opened.native());
    return file;
  };
  CHECK_THAT(refusal(made("nothing.h5", [](hid_t) {})), Catch::Contains("has no weights of Keras"));
  CHECK_THAT(refusal(made("data.h5",
                          [](hid_t file) {
                            (void)create_dataset(file, "images", H5T_IEEE_F32LE, {2}, "data");
                          })),
             Catch::Contains("has no weights of Keras"));
  CHECK_THAT(refusal(made("old.h5",
                          [](hid_t file) {
                            write_attribute(file, "layer_names", std::string("d1"), "old");
                          })),
             Catch::Contains("has the layout of Keras 2"));
  CHECK_THAT(refusal(made("checkpoint.h5",
                          [](hid_t file) {
                            write_attribute(file, "format", std::string("meshwork checkpoint"),
                                            "checkpoint");
                          })),
             Catch::Contains("is a checkpoint of Meshwork"));
  CHECK_THAT(refusal(made("named.h5",
                          [](hid_t file) {
                            (void)create_dataset(file, "d/vars/kernel", H5T_IEEE_F32LE, {2}, "n");
                          })),
             Catch::Contains("d/vars/kernel stands among arrays that are called 0, 1"));
  CHECK_THAT(refusal(made("texts.h5",
                          [](hid_t file) {
                            (void)create_dataset(file, "d/vars/0", H5T_C_S1, {2}, "texts");
                          })),
             Catch::Contains("the elements of d/vars/0 are not numbers"));
  CHECK_THAT(refusal(made("linked.h5",
                          [](hid_t file) {
                            H5Lcreate_soft("/d/vars/0", file, "other", H5P_DEFAULT, H5P_DEFAULT);
                          })),
             Catch::Contains("other is a link out of the file"));
  // Two links from each of a few groups to the next one would make more places than can be visited.
  CHECK_THAT(refusal(made("circles.h5",
                          [](hid_t file) {
                            (void)create_group(file, "a/b", "circles");
                            H5Lcreate_hard(file, "a", file, "a/b/again", H5P_DEFAULT, H5P_DEFAULT);
                            H5Lcreate_hard(file, "a", file, "a/more", H5P_DEFAULT, H5P_DEFAULT);
                          })),
             Catch::Contains("a/b/again is a group with a second place in the file"));
}

TEST_CASE("numbers of other types are read as float32") {
  const fs::path file = fs::current_path() / "types.weights.h5";
  {
    const Hdf5Guard guard;
    const Hdf5File opened(check_hdf5(
        H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "created", "types"));
    const double numbers[2] = {0.1, -3};
    for (const auto& [place, type] :
         {std::pair{"d/vars/0", H5T_IEEE_F64BE}, std::pair{"d/vars/1", H5T_STD_I16LE}}) {
      const Hdf5Dataset dataset = create_dataset(opened.native(), place, type, {2}, "types");
      REQUIRE(H5Dwrite(dataset.native(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       numbers) >= 0);
    }
  }
  const KerasWeightsReader reader(file);
  std::vector<float> values(2);
  reader.read(*reader.find("d/vars/0"), {{0, 2}}, values);
  CHECK(values == std::vector<float>{0.1f, -3});
  reader.read(*reader.find("d/vars/1"), {{0, 2}}, values);
  CHECK(values == std::vector<float>{0, -3});
}

TEST_CASE(
    "the two slots of some stand in pairs, maxima and other optimizers' slots behind each other") {
  const KerasOptimizer adam{true, {"m", "v", "v_max"}, {"a", "b", "c"}};
  CHECK(keras_slot_place(adam, 0, 0) == "optimizer/vars/2");
  CHECK(keras_slot_place(adam, 1, 0) == "optimizer/vars/3");
  CHECK(keras_slot_place(adam, 0, 2) == "optimizer/vars/6");
  CHECK(keras_slot_place(adam, 2, 0) == "optimizer/vars/8");
  CHECK(keras_slot_place(adam, 2, 2) == "optimizer/vars/10");
  CHECK(keras_optimizer_arrays(adam) == 11);
  for (const auto& [first, second] :
       {std::pair("m", "u"), std::pair("accumulated_grad", "accumulated_delta_var"),
        std::pair("accumulator", "linear")}) {
    const KerasOptimizer pairs{true, {first, second}, {"a", "b", "c"}};
    CHECK(keras_slot_place(pairs, 1, 0) == "optimizer/vars/3");
    CHECK(keras_slot_place(pairs, 0, 2) == "optimizer/vars/6");
  }
  const KerasOptimizer rmsprop{false, {"velocity", "momentum"}, {"a", "b", "c"}};
  CHECK(keras_slot_place(rmsprop, 0, 0) == "optimizer/vars/1");
  CHECK(keras_slot_place(rmsprop, 1, 1) == "optimizer/vars/5");
  CHECK(keras_optimizer_arrays(rmsprop) == 7);
  CHECK(keras_optimizer_arrays({true, {}, {"a"}}) == 2);
  const KerasOptimizer nadam{true, {"m", "v"}, {"a", "b"}, {0.25}};
  CHECK(keras_number_place(nadam, 0) == "optimizer/vars/6");
  CHECK(keras_optimizer_arrays(nadam) == 7);
  const KerasOptimizer averaged{true, {"m", "v", "v_max", "average"}, {"a", "b", "c"}, {0.5}};
  CHECK(keras_slot_place(averaged, 3, 0) == "optimizer/vars/2");
  CHECK(keras_slot_place(averaged, 3, 2) == "optimizer/vars/4");
  CHECK(keras_slot_place(averaged, 0, 0) == "optimizer/vars/5");
  CHECK(keras_slot_place(averaged, 1, 2) == "optimizer/vars/10");
  CHECK(keras_slot_place(averaged, 2, 0) == "optimizer/vars/11");
  CHECK(keras_number_place(averaged, 0) == "optimizer/vars/14");
}

}  // namespace meshwork::keras_weights_test
