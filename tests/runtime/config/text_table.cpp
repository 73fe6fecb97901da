// Tables and text on as many columns as there are.
#include "runtime/config/text_table.h"

#include "tests/support/catch.h"

namespace meshwork::text_table_test {
namespace {

TextTable table() {
  TextTable table({"path", "decided by", "bytes"}, {2});
  table.add({"hidden_1/kernel", "key hidden_1/kernel (configs/a.yaml:7:3)", "1024"});
  table.add({"b", "replicated", "8"});
  return table;
}

}  // namespace

TEST_CASE("columns are as wide as their widest cells where there is room") {
  const std::string whole =
      "  path             decided by                                bytes\n"
      "  hidden_1/kernel  key hidden_1/kernel (configs/a.yaml:7:3)   1024\n"
      "  b                replicated                                    8\n";
  CHECK(table().text() == whole);
  CHECK(table().text(2, 66) == whole);
}

TEST_CASE("cells take several lines where there is no room") {
  CHECK(table().text(2, 50) ==
        "  path             decided by                bytes\n"
        "  hidden_1/kernel  key hidden_1/kernel        1024\n"
        "                   (configs/a.yaml:7:3)\n"
        "  b                replicated                    8\n");
}

TEST_CASE("columns that find no room stand in a further table, behind the first column") {
  TextTable table({"epoch", "accuracy", "loss", "val_accuracy", "val_loss"}, {0, 1, 2, 3, 4});
  table.add({"1", "0.5", "2.25", "0.25", "3"});
  table.add({"10", "0.75", "1.5", "0.5", "2.125"});
  CHECK(table.text(2, 0).find("  epoch  accuracy  loss  val_accuracy  val_loss\n") == 0);
  CHECK(table.text(2, 40) ==
        "  epoch  accuracy  loss  val_accuracy\n"
        "      1       0.5  2.25          0.25\n"
        "     10      0.75   1.5           0.5\n"
        "  epoch  val_loss\n"
        "      1         3\n"
        "     10     2.125\n");
  // Narrower than any two columns: one at a time.
  CHECK(table.text(2, 4).find("  epoch  accuracy\n") == 0);
  CHECK(table.text(2, 4).find("  epoch  val_loss\n") != std::string::npos);
}

TEST_CASE("lines are broken at spaces, and what is broken off stands further in") {
  CHECK(wrapped("short\n  one two three four\nend", 12) ==
        "short\n  one two\n    three\n    four\nend");
  CHECK(wrapped("  one two three four\n", 0) == "  one two three four\n");
  CHECK(wrapped("unbreakable_as_it_is x\n", 5) == "unbreakable_as_it_is x\n");
}

}  // namespace meshwork::text_table_test
