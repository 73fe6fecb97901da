#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/load.h"
#include "runtime/config/reader.h"
#include "tests/support/catch.h"

namespace meshwork::override_test {

namespace {

const std::string document =
    "seed: 7\n"
    "model:\n"
    "  layers:\n"
    "    - Flatten:\n"
    "    - Dense: {name: d1, units: 200}\n"
    "    - Dropout: {rate: 0.4}\n"
    "    - Dense: {name: d2, units: 10}\n"
    "optimizer: {Adam: {learning_rate: 1e-3}}\n"
    "loss: MeanSquaredError\n"
    "data: {train: {kind: idx}}\n"
    "layout:\n"
    "  d1/kernel: [~, model]\n"
    "metrics: [Accuracy]\n"
    "log:\n";

ConfigNode with(const std::vector<ConfigOverride>& overrides) {
  return parse_config(document, "a.yaml", overrides);
}

// The value at `keys` after `overrides`, as YAML on one line.
std::string value(const ConfigOverride& change, const std::vector<std::string>& keys) {
  ConfigNode node = with({change});
  for (const std::string& key : keys) {
    node = node.is_sequence() ? node.elements().at(std::stoul(key)) : node.find(key).value();
  }
  std::string text = to_yaml(node);
  text.pop_back();
  return text;
}

}  // namespace

TEST_CASE("an override replaces a value, whatever its kind") {
  CHECK(value("seed=9", {"seed"}) == "9");
  CHECK(value("seed=", {"seed"}) == "~");
  CHECK(value("seed=a=b", {"seed"}) == "\"a=b\"");
  CHECK(value("seed=[1, {a: 2}]", {"seed", "1", "a"}) == "2");
  CHECK(value("optimizer=SGD", {"optimizer"}) == "SGD");
  CHECK(value("optimizer.Adam.learning_rate=0.1", {"optimizer", "Adam", "learning_rate"}) == "0.1");
}

TEST_CASE("an override makes what is not there") {
  CHECK(value("fit.epochs=3", {"fit", "epochs"}) == "3");
  CHECK(value("log.tensorboard=runs", {"log", "tensorboard"}) == "runs");
  CHECK(value("a.b.c.d=1", {"a", "b", "c", "d"}) == "1");
  CHECK(value("data.batch_size=64", {"data", "batch_size"}) == "64");
}

TEST_CASE("an override adds an element to a list") {
  CHECK(value("metrics[]=Precision", {"metrics"}) == "[Accuracy, Precision]");
  CHECK(value("extensions[]=\"a.so\"", {"extensions"}) == "[a.so]");
  CHECK(value("log[]=a", {"log"}) == "[a]");
  CHECK(value("fit.callbacks[].CSVLogger.filename=a.csv",
              {"fit", "callbacks", "0", "CSVLogger", "filename"}) == "a.csv");
  const ConfigNode twice = with({"extensions[]=a.so", "extensions[]=b.so"});
  CHECK(twice.find("extensions")->as<std::vector<std::string>>() ==
        std::vector<std::string>{"a.so", "b.so"});
  CHECK_THROWS_WITH(with({"seed[]=1"}), "--set seed[]: seed: [] needs a list, found 7");
  CHECK_THROWS_WITH(with({"optimizer[]=1"}), Catch::EndsWith("[] needs a list, found a map"));
}

TEST_CASE("the class of an object may be left out") {
  CHECK(value("optimizer.learning_rate=0.1", {"optimizer", "Adam", "learning_rate"}) == "0.1");
  CHECK(value("optimizer.beta_1=0.8", {"optimizer", "Adam", "beta_1"}) == "0.8");
  CHECK(value("loss.from_logits=true", {"loss", "MeanSquaredError", "from_logits"}) == "true");
  CHECK(value("loss.MeanSquaredError.name=m", {"loss", "MeanSquaredError", "name"}) == "m");
}

TEST_CASE("another class beside the one that is there makes two entries") {
  const ConfigNode root = with({"optimizer.SGD.learning_rate=0.1"});
  CHECK_THROWS_WITH(
      root.find("optimizer")->single_entry("an optimizer"),
      "a.yaml:8:12: optimizer: expected an optimizer, as Name: {option: value}, found a "
      "map with 2 entries (Adam, SGD); is the indentation right?");
}

TEST_CASE("elements of lists are found by index, by name and by class") {
  CHECK(value("model.layers[1].Dense.units=5", {"model", "layers", "1", "Dense", "units"}) == "5");
  CHECK(value("model.layers[1].units=5", {"model", "layers", "1", "Dense", "units"}) == "5");
  CHECK(value("model.layers.d2.units=5", {"model", "layers", "3", "Dense", "units"}) == "5");
  CHECK(value("model.layers.d2.use_bias=false", {"model", "layers", "3", "Dense", "use_bias"}) ==
        "false");
  CHECK(value("model.layers.Dropout.rate=0", {"model", "layers", "2", "Dropout", "rate"}) == "0");
  CHECK(value("model.layers.Flatten.name=f", {"model", "layers", "0", "Flatten", "name"}) == "f");
  CHECK(value("model.layers[2]=ReLU", {"model", "layers", "2"}) == "ReLU");
  CHECK(value("metrics.Accuracy.name=a", {"metrics", "0", "Accuracy", "name"}) == "a");
  CHECK(value("metrics[0]=TopK", {"metrics", "0"}) == "TopK");
}

TEST_CASE("names with dots are quoted") {
  CHECK(value("layout.\"f.*=kernel\"=[model]", {"layout", "f.*=kernel"}) == "[model]");
  CHECK(value("layout.'f.*/kernel'=[model]", {"layout", "f.*/kernel"}) == "[model]");
  CHECK(value("layout.d1/kernel=[model]", {"layout", "d1/kernel"}) == "[model]");
}

TEST_CASE("overrides apply in order and leave the rest") {
  const ConfigNode root = with({"seed=1", "fit.epochs=3", "seed=2", "fit.verbose=1"});
  CHECK(root.find("seed")->as<int>() == 2);
  CHECK(root.find("fit")->entries().size() == 2);
  CHECK(root.find("model")->find("layers")->elements().size() == 4);
  CHECK(root.entries().size() == 9);
}

TEST_CASE("errors about an overridden value name the override") {
  const ConfigNode root = with(
      {"optimizer.learning_rate=fast", "fit.epochs=0", {"mesh={data: two}", "--mesh data=two"}});
  CHECK_THROWS_WITH(
      root.find("optimizer")->single_entry().value.find("learning_rate")->as<double>(),
      "--set optimizer.learning_rate: optimizer.Adam.learning_rate: expected a number, "
      "found \"fast\"");
  CHECK_THROWS_WITH(root.find("fit")->find("epochs")->as<int>(positive),
                    "--set fit.epochs: expected a positive integer, found 0");
  CHECK_THROWS_WITH(with({"fit={epochs: 0}"}).find("fit")->find("epochs")->as<int>(positive),
                    "--set fit.epochs: expected a positive integer, found 0");
  CHECK_THROWS_WITH(root.find("mesh")->find("data")->as<int>(),
                    "--mesh data=two: mesh.data: expected an integer, found \"two\"");
}

TEST_CASE("a misspelled override is an unknown key to the reader") {
  const ConfigNode root = with({"optimizer.lerning_rate=0.1"});
  const ConfigNode adam = root.find("optimizer")->single_entry().value;
  ConfigReader reader(adam);
  CHECK(reader.node("learning_rate")->as<double>() == 1e-3);
  CHECK_THROWS_WITH(
      reader.finish(),
      "--set optimizer.lerning_rate: optimizer.Adam: unknown key \"lerning_rate\"; did "
      "you mean \"learning_rate\"? (known: learning_rate)");
}

TEST_CASE("an override that does not fit the document is an error") {
  CHECK_THROWS_WITH(with({"seed.a=1"}), "--set seed.a: seed: \"a\" needs a map, found 7");
  CHECK_THROWS_WITH(with({"data[0]=1"}), "--set data[0]: data: [0] needs a list, found a map");
  CHECK_THROWS_WITH(with({"new[0]=1"}), "--set new[0]: new: [0] needs a list, found nothing");
  CHECK_THROWS_WITH(
      with({"model.layers[4].units=1"}),
      "--set model.layers[4].units: model.layers: has no element [4]; it has 4, counted "
      "from 0");
  CHECK_THROWS_WITH(
      with({"model.layers.Dropuot.rate=1"}),
      "--set model.layers.Dropuot.rate: model.layers: no element is called \"Dropuot\"; "
      "did you mean \"Dropout\"?");
  CHECK_THROWS_WITH(
      with({"model.layers.Dense.units=1"}),
      "--set model.layers.Dense.units: model.layers: 2 elements are called \"Dense\"; "
      "take one by its index, such as [1]");
}

TEST_CASE("an override that is not path=value is an error") {
  const std::string expected = "; expected a path and its value, such as fit.epochs=3";
  CHECK_THROWS_WITH(with({"seed"}), "--set seed: \"=\" is missing" + expected);
  CHECK_THROWS_WITH(with({""}), "--set : a name is missing in the path" + expected);
  CHECK_THROWS_WITH(with({"=1"}), "--set =1: a name is missing in the path" + expected);
  CHECK_THROWS_WITH(with({"a..b=1"}), "--set a..b=1: a name is missing in the path" + expected);
  CHECK_THROWS_WITH(with({"a.=1"}), "--set a.=1: a name is missing in the path" + expected);
  CHECK_THROWS_WITH(with({"a]=1"}), "--set a]=1: unexpected ] in the path" + expected);
  CHECK_THROWS_WITH(with({"\"a=1"}), "--set \"a=1: a quote in the path is not closed" + expected);
  for (const std::string index : {"a[x]=1", "a[-1]=1", "a[1=1", "a[99999999999999999999]=1"}) {
    CHECK_THROWS_WITH(with({index}),
                      "--set " + index + ": an index is a number from 0 in brackets" + expected);
  }
}

TEST_CASE("a name in a path is text of a sensible length") {
  CHECK_THROWS_WITH(with({"a.\xff=1"}), "--set: byte 0xff in an override is no text in UTF-8");
  CHECK_THROWS_WITH(with({ConfigOverride("seed=\x1b", "--seed")}),
                    "--seed: byte 0x1b in an override is no text in UTF-8");
  CHECK_THROWS_WITH(
      with({std::string(251, 'k') + "=1"}),
      Catch::Contains(": a name in the path has more than 250 bytes; expected a path"));
}

TEST_CASE("a value that is no YAML is an error of its override") {
  CHECK_THROWS_WITH(with({"seed=[1"}),
                    "--set seed: not valid YAML: this list is not closed: expected \",\" or \"]\" "
                    "before the end");
  CHECK_THROWS_WITH(with({"mesh={a: 1, a: 2}"}), "--set mesh: key \"a\" is written twice");
}

TEST_CASE("overrides do not get around the limits") {
  std::string path = "a";
  for (int i = 0; i < 63; ++i) path += ".a";
  CHECK_THROWS_WITH(
      with({path + "=1"}),
      Catch::EndsWith(
          "makes the configuration larger than 200000 values of 8388608 bytes in 64 levels"));
  CHECK_THROWS_WITH(with({path + ".a=1"}), Catch::Contains("the path has more than 64 names"));
}

}  // namespace meshwork::override_test
