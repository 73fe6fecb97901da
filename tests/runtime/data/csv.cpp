// CSV files: what is read, and the place of everything that is wrong.
#include "runtime/data/csv.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <csignal>
#include <ctime>

#include "collectives/stop_signals.h"
#include "runtime/config/load.h"
#include "runtime/data/csv_scanner.h"
#include "tests/runtime/data/numpy.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

namespace meshwork::csv_test {
namespace {

using namespace meshwork::test;
using Texts = std::vector<std::string>;

constexpr const char* file = "table.csv";

CsvSource table(const std::string& text, const std::vector<CsvField>& fields,
                CsvTable options = {}) {
  write_file(file, text);
  options.path = file;
  return {options, fields};
}

CsvField column(const std::string& name, FieldRole role = FieldRole::feature) {
  return {.name = name, .columns = {name}, .role = role};
}

// What is said of column x of `text`, or of another.
std::string error_of(const std::string& text, const std::string& name = "x",
                     const CsvTable& options = {}) {
  try {
    (void)table(text, {column(name)}, options);
  } catch (const Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "no error";
}

std::vector<std::string> scanned(const std::string& text, char separator = ',') {
  write_file(file, text);
  CsvScanner scanner(file, separator);
  std::vector<std::string> rows;
  for (auto row = scanner.next(); !row.empty(); row = scanner.next()) {
    std::string line;
    for (const CsvValue& value : row) {
      line += fmt::format("{}{}:{}{}<{}>", line.empty() ? "" : " ", value.line, value.column,
                          value.quoted ? "q" : "", value.text);
    }
    rows.push_back(line);
  }
  return rows;
}

}  // namespace

TEST_CASE("values of a row know where they stand") {
  CHECK(scanned("a,b\n1,2\n") == Texts{"1:1<a> 1:3<b>", "2:1<1> 2:3<2>"});
  CHECK(scanned("a,b\r\n1,2") == Texts{"1:1<a> 1:3<b>", "2:1<1> 2:3<2>"});
  CHECK(scanned("\xEF\xBB\xBF"
                "a\n\n\nb\n\n") == Texts{"1:1<a>", "4:1<b>"});
  CHECK(scanned("a,,\n,") == Texts{"1:1<a> 1:3<> 1:4<>", "2:1<> 2:2<>"});
  CHECK(scanned("a;b,c", ';') == Texts{"1:1<a> 1:3<b,c>"});
  CHECK(scanned("é,b") == Texts{"1:1<é> 1:3<b>"});
  CHECK(scanned("").empty());
  CHECK(scanned("\n\r\n").empty());
}

TEST_CASE("quoted values hold separators, line ends and quotes") {
  CHECK(scanned("\"a,b\",\"c\nd\",\"e\"\"f\",\"\"\nx,5\" disk") ==
        Texts{"1:1q<a,b> 1:7q<c\nd> 2:4q<e\"f> 2:11q<>", "3:1<x> 3:3<5\" disk>"});
  CHECK_THROWS_WITH(scanned("a,b\n1,\"2\n3"), "table.csv:2:3: the quote has no end");
  CHECK_THROWS_WITH(scanned("a\n\"1\"2\n"),
                    Catch::StartsWith("table.csv:2:4: expected a separator ','"));
}

TEST_CASE("what is no text is an error") {
  CHECK_THROWS_WITH(scanned(std::string("a\n\0", 3)),
                    Catch::StartsWith("table.csv:2:1: a byte of"));
  CHECK_THROWS_WITH(scanned("a\rb\r"), Catch::StartsWith("table.csv:1:2: a carriage return"));
  CHECK_THROWS_WITH(scanned(std::string(17 << 20, 'x')), Catch::Contains("longer than"));
  CHECK_THROWS_WITH(scanned(std::string(200'000, ',')), Catch::Contains("more than 131072 values"));
}

TEST_CASE("columns are read by name, alone and as vectors") {
  const CsvSource source =
      table("id,a,b,y\n1,0.5,1,7\n2,-1e2,2,8\n\n3, +3 ,3,9\n",
            {{.name = "x", .columns = {"b", "a"}}, column("b"), column("y", FieldRole::target)});
  CHECK(source.rows() == 3);
  CHECK(source.field(0) == Field{.name = "x", .shape = {2}, .type = ElementType::float32});
  CHECK(read_all<float>(source, 0) == std::vector<float>{1, 0.5f, 2, -100, 3, 3});
  CHECK(read_block<float>(source, 0, {2, 0}, {{1, 2}}) == std::vector<float>{3, 0.5f});
  CHECK(source.field(1) == Field{.name = "b", .shape = {}, .type = ElementType::int32});
  CHECK(read_all<std::int32_t>(source, 1) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(source.target_count() == 1);
  CHECK(read_block<std::int32_t>(source, 2, {2}, {}) == std::vector<std::int32_t>{9});
  // Behind an empty line rows are not lines any more.
  CHECK(source.locate(2, 2) == "table.csv:y: sample 2");
  CHECK(table("x\n1\n2\n", {column("x")}).locate(0, 1) == "table.csv:3");
}

TEST_CASE("a list of one column is a vector of one") {
  const CsvSource source = table("x\n1\n", {{.name = "x", .columns = {"x"}, .vector = true}});
  CHECK(source.field(0).shape == Shape{1});
}

TEST_CASE("whole numbers are integers as long as all are") {
  const auto type = [](const std::string& values) {
    return table("x\n" + values, {column("x")}).field(0).type;
  };
  CHECK(type("1\n-2147483648\n2147483647\n") == ElementType::int32);
  CHECK(type("1\n2147483648\n") == ElementType::int64);
  CHECK(type("1\n9007199254740994\n") == ElementType::float32);
  CHECK(type("1\n1.0\n") == ElementType::int32);
  CHECK(type("1\n1.5\n") == ElementType::float32);
  const CsvSource large = table("x\n4294967296\n", {column("x")});
  CHECK(read_all<std::int64_t>(large, 0) == std::vector<std::int64_t>{4294967296});
}

TEST_CASE("texts get numbers by their order, whatever that of the rows") {
  const CsvSource source = table("city,x\nRome,1\nOslo,2\n\"Oslo\",3\n,4\nParis,5\n",
                                 {column("x"), column("city", FieldRole::target)});
  CHECK(read_all<std::int32_t>(source, 1) == std::vector<std::int32_t>{3, 1, 1, 0, 2});
  CHECK(source.categories() == std::vector<Categories>{{"city", {"", "Oslo", "Paris", "Rome"}}});
  CHECK(source.classes_by_construction(1) == 4);
  CHECK(source.classes_by_construction(0) == 0);
  CHECK(source.texts_of(1).size() == 4);
  CHECK(source.texts_of(0).empty());
  const CsvSource other = table("city,x\nOslo,1\nRome,2\n,3\nParis,4\n",
                                {column("x"), column("city", FieldRole::target)});
  CHECK(other.categories() == source.categories());
  CHECK(table("city\nOslo\nRome\n", {column("city")}).fingerprint() !=
        table("city\nOslo\nRom3\n", {column("city")}).fingerprint());
}

TEST_CASE("columns of numbers may be named as texts, with their order") {
  const CsvSource zip =
      table("zip\n20\n100\n20\n", {column("zip")}, {.categories = {{{"zip", std::nullopt}}}});
  CHECK(read_all<std::int32_t>(zip, 0) == std::vector<std::int32_t>{1, 0, 1});
  const CsvTable sizes{.categories = {{{"size", Texts{"small", "large"}}}}};
  CHECK(read_all<std::int32_t>(table("size\nlarge\nsmall\n", {column("size")}, sizes), 0) ==
        std::vector<std::int32_t>{1, 0});
  CHECK(error_of("size\nlarge\nlarg\n", "size", sizes) ==
        "table.csv:3:1: \"larg\" in column \"size\" is not among its 2 categories, those that are "
        "given; did you mean \"large\"?");
  CHECK_THAT(error_of("x,y\n1,2\n", "x", {.categories = {{{"y", std::nullopt}}}}),
             Catch::Contains("\"y\" is named under `categories` and used by no field"));
  CHECK_THAT(error_of("x\n1\n", "x", {.categories = {{{"x", Texts{"a", "a"}}}}}),
             Catch::Contains("\"a\" is given twice"));
}

TEST_CASE("a category is one line of letters") {
  CHECK(
      error_of("x\n\"a\nb\"\n") ==
      "table.csv:2:1: \"a\\nb\" in column \"x\": a category is one line of UTF-8, without control "
      "characters");
  CHECK_THAT(error_of("x\nM\xFCnchen\n"), Catch::Contains("one line of UTF-8"));
  CHECK_THAT(error_of("x\n" + std::string(257, 'a') + "\n"), Catch::Contains("256 bytes"));
  CHECK_THAT(error_of("\"x\ny\"\na\n", "x\ny"), Catch::Contains("the name of a category"));
}

TEST_CASE("given categories are such lines too") {
  const auto given = [](const std::string& text, const std::string& name = "x") {
    return CsvTable{.categories = {{{name, Texts{"a", text}}}}};
  };
  CHECK_THAT(error_of("x\na\n", "x", given("b\033[31m")), Catch::Contains("control characters"));
  CHECK_THAT(error_of("x\na\n", "x", given(std::string(257, 'b'))),
             Catch::Contains("256 bytes at most, and this one has 257"));
  CHECK(error_of("x\na\n", "x", given(std::string(256, 'b'))) == "no error");
  CHECK_THAT(error_of("\"x\ny\"\na\n", "x\ny", given("b", "x\ny")),
             Catch::Contains("the name of a category"));
  const auto configured = [](const std::string& text) {
    CsvCategories categories;
    from_config(parse_config(text, "c.yaml"), categories);
  };
  CHECK_THROWS_WITH(configured("city:\n  - Oslo\n  - \"Pa\\nris\"\n"),
                    Catch::StartsWith("c.yaml:3:5: ") && Catch::Contains("control characters"));
  CHECK_THROWS_WITH(configured("\"ci\\u001bty\": [Oslo]\n"),
                    Catch::StartsWith("c.yaml:1:") && Catch::Contains("the name of a category"));
  configured("city: [Oslo, Paris]\nzip: ~\n");
}

TEST_CASE("there are as many categories as checkpoints can keep") {
  const auto text = [](int count) {
    std::string all = "x\n";
    for (int i = 0; i < count; ++i) all += fmt::format("t{}\n", i);
    return all;
  };
  CHECK(error_of(text(65'536)) == "no error");
  CHECK(error_of(text(65'537)) ==
        "table.csv:65538:1: \"t65536\" in column \"x\": this is another category, and 65536 are "
        "the most");
  CHECK_THAT(error_of("x\nt\n", "x", {.categories = {{{"x", Texts(65'537, "t")}}}}),
             Catch::Contains("65537 categories, those that are given; 65536 are the most"));
}

TEST_CASE("other data use the numbers of the training data") {
  const std::vector<Categories> known{{"city", {"Oslo", "Paris", "Rome"}}};
  CHECK(read_all<std::int32_t>(table("city\nRome\n", {column("city")}, {.known = &known}), 0) ==
        std::vector<std::int32_t>{2});
  CHECK_THAT(error_of("city\nBerlin\n", "city", {.known = &known}),
             Catch::StartsWith("table.csv:2:1: \"Berlin\" in column \"city\" is not among its 3 "
                               "categories, those of the training data"));
  // What was numbers then is no text now.
  CHECK_THAT(error_of("x\na\n", "x", {.known = &known}), Catch::Contains("\"a\" is no number"));
}

TEST_CASE("a value that is not what its column holds is an error with its place") {
  CHECK(error_of("a,x\n1,2\n1,n/a\n") ==
        "table.csv:3:3: \"n/a\" is no number, but column \"x\" holds numbers from line 2 on, "
        "\"2\"; if it holds texts, name it under `categories`");
  CHECK(
      error_of("a,x\n1,n/a\n1,7\n") ==
      "table.csv:3:3: \"7\" is a number, but column \"x\" holds texts from line 2 on, \"n/a\"; if "
      "this is one too, name the column under `categories`");
  CHECK(error_of("a,x\n1,2\n1,\n") ==
        "table.csv:3:3: column \"x\" has no number here; add one, or delete the row");
  CHECK_THAT(error_of("a,x\n1,\n1,2\n"),
             Catch::StartsWith("table.csv:2:3: column \"x\" has no number"));
  CHECK_THAT(error_of("a,x\n1,\n1,\n"),
             Catch::StartsWith("table.csv:2:3: column \"x\" has no values"));
  for (const char* number : {"nan", "inf", "-Infinity", "1e39", "1e999"}) {
    CHECK_THAT(error_of(fmt::format("x\n1\n{}\n", number)),
               Catch::StartsWith("table.csv:3:1: ") && Catch::Contains("no finite number"));
  }
  for (const char* text : {"0x10", "1 2", "1e", "--1", "+-1", "1_000"}) {
    CHECK_THAT(error_of(fmt::format("x\n1\n{}\n", text)), Catch::Contains("is no number"));
  }
  for (const char* first : {"1", "1,5"}) {
    CHECK_THAT(error_of(fmt::format("x;a\n{};0\n1.234,5;0\n", first), "x", {.separator = ';'}),
               Catch::Contains("numbers are written with a point"));
  }
}

TEST_CASE("what is smaller than any double is no whole number and 0 in float32") {
  for (const char* number : {"1e-400", "-1e-330", "0.1e-99999999999999999999", "1000e-340"}) {
    const CsvSource source = table(fmt::format("x\n1\n{}\n", number), {column("x")});
    CHECK(read_all<float>(source, 0) == std::vector<float>{1, 0});
  }
  const std::string zeros(400, '0');
  CHECK(read_all<float>(table("x\n0." + zeros + "1\n", {column("x")}), 0) == std::vector<float>{0});
  CHECK(read_all<float>(table("x\n0." + zeros + "15e401\n", {column("x")}), 0) ==
        std::vector<float>{1.5f});
  for (const std::string& number : Texts{"1" + zeros, "0.001e312", "-1e99999999999999999999"}) {
    CHECK_THAT(error_of("x\n" + number + "\n"), Catch::Contains("no finite number"));
  }
}

TEST_CASE("the time of a table grows with its columns, not with their square") {
  const auto seconds_of = [](std::int64_t count) {
    std::string text, row;
    CsvField all{.name = "x"};
    for (std::int64_t i = 0; i < count; ++i) {
      all.columns.push_back(fmt::format("c{}", i));
      text += (i == 0 ? "" : ",") + all.columns.back();
      row += i == 0 ? "1" : ",1";
    }
    const std::clock_t start = std::clock();
    CHECK(table(text + "\n" + row + "\n", {all}).field(0).shape == Shape{count});
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const double of_some = seconds_of(2'000);
  CHECK(seconds_of(32'000) < 96 * of_some);  // 256 times where each column looks at all the others
}

TEST_CASE("rows that are not as wide as the header are errors") {
  CHECK(error_of("x,y\n1,2\n1\n") ==
        "table.csv:3:1: the row has 1 values, but the header names 2 columns");
  CHECK(error_of("x,y\n1,2,3\n") ==
        "table.csv:2:5: the row has 3 values, but the header names 2 columns");
}

TEST_CASE("columns that are not there or there twice are errors") {
  CHECK(error_of("price,size\n1,2\n", "prise") ==
        "table.csv: there is no column \"prise\"; did you mean \"price\"?; it has \"price\" and "
        "\"size\"");
  CHECK_THAT(error_of("x,y,x\n1,2,3\n"), Catch::StartsWith("table.csv:1:5: there are two columns"));
  CHECK_THAT(error_of(""), Catch::Contains("is empty"));
  CHECK(error_of("x\n") == "no error");
  std::filesystem::remove(file);
  CHECK_THROWS_WITH(CsvSource({.path = file}, {column("x")}), "table.csv: there is no such file");
  const Folder folder("csv");
  CHECK_THROWS_WITH(CsvSource({.path = "csv"}, {column("x")}),
                    "csv: is a directory; a CSV file is expected");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(CsvSource({.path = folder / "pipe"}, {column("x")}),
                    Catch::Contains("is a pipe"));
}

TEST_CASE("a table without a header has the names that it is given") {
  const CsvTable named{.separator = ' ', .columns = {"x", "y"}};
  const CsvSource source = table("1 2.5\n3 4\n", {column("y"), column("x")}, named);
  CHECK(source.rows() == 2);
  CHECK(read_all<float>(source, 0) == std::vector<float>{2.5f, 4});
  CHECK(read_all<std::int32_t>(source, 1) == std::vector<std::int32_t>{1, 3});
  CHECK(source.locate(0, 1) == "table.csv:2");
  CHECK(error_of("1 2\n3\n", "x", named) ==
        "table.csv:2:1: the row has 1 values, but the first one has 2");
  CHECK(error_of("1 2\n3 a\n", "y", named) ==
        "table.csv:2:3: \"a\" is no number, but column \"y\" holds numbers from line 1 on, \"2\"; "
        "if it holds texts, name it under `categories`");
  CHECK(error_of("1 2 3\n", "x", named) ==
        "table.csv: `columns` names 2 columns, but the first row has 3 values");
  CHECK(error_of("", "x", named) == "table.csv: is empty; rows of values are expected");
  CHECK(error_of("1 2\n", "x", {.separator = ' ', .columns = {"x", "x"}}) ==
        "table.csv: `columns` names \"x\" twice");
  CHECK(error_of("x y\n1 2\n", "x", named) ==
        "table.csv: the first line has the names that `columns` gives; leave `columns` out");
  CHECK(error_of("1,2\n3,4\n") ==
        "table.csv: there is no column \"x\"; it has \"1\" and \"2\"; if its first line has no "
        "names, give them under `columns`");
}

TEST_CASE("files side by side are one table") {
  write_file("other.csv", "z,w\n10,0.5\n20,0.25\n");
  const CsvTable both{.beside = {"other.csv"}};
  const CsvSource source = table(
      "x,y\n1,2\n3,4\n", {{.name = "pair", .columns = {"w", "x"}}, column("z"), column("y")}, both);
  CHECK(source.rows() == 2);
  CHECK(read_all<float>(source, 0) == std::vector<float>{0.5f, 1, 0.25f, 3});
  CHECK(read_all<std::int32_t>(source, 1) == std::vector<std::int32_t>{10, 20});
  CHECK(read_all<std::int32_t>(source, 2) == std::vector<std::int32_t>{2, 4});
  CHECK(source.locate(1, 1) == "other.csv:3");
  CHECK(source.locate(0, 1) == "table.csv,other.csv:w,x: sample 1");
  CHECK(source.files() == std::vector<std::filesystem::path>{"table.csv", "other.csv"});
  CHECK(error_of("x\n1\n", "x", both) ==
        "table.csv: has 1 rows, fewer than other.csv; files side by side have the same rows");
  CHECK(error_of("x\n1\n2\n3\n", "x", both) ==
        "other.csv: has 2 rows, fewer than table.csv; files side by side have the same rows");
  CHECK(error_of("w\n1\n2\n", "w", both) == "other.csv:1:3: there are two columns \"w\"");
  CHECK_THAT(error_of("x\n1\n2\n", "v", both),
             Catch::StartsWith("table.csv, other.csv: there is no"));
  write_file("other.csv", "10\n20\n");
  const CsvSource named = table("1,2\n3,4\n", {column("z"), column("x")},
                                {.beside = {"other.csv"}, .columns = {"x", "y", "z"}});
  CHECK(read_all<std::int32_t>(named, 0) == std::vector<std::int32_t>{10, 20});
  CHECK(read_all<std::int32_t>(named, 1) == std::vector<std::int32_t>{1, 3});
}

TEST_CASE("gzipped tables are read, and damaged ones are errors") {
  const Folder folder("csv");
  std::string text = "x\n";
  for (int i = 0; i < 1000; ++i) text += fmt::format("{}\n", i * 7919 % 1000);
  write_gzip(folder / "t.csv.gz", text);
  const CsvSource source({.path = folder / "t.csv.gz"}, {column("x")});
  CHECK(source.rows() == 1000);
  CHECK(read_block<std::int32_t>(source, 0, {999}, {}) == std::vector<std::int32_t>{81});
  const std::string bytes = file_bytes(folder / "t.csv.gz");
  write_file(folder / "t.csv.gz", bytes.substr(0, bytes.size() / 2));
  CHECK_THROWS_WITH(CsvSource({.path = folder / "t.csv.gz"}, {column("x")}),
                    Catch::Contains("the gzip stream is truncated"));
}

TEST_CASE("a signal that asks the process to stop ends the reading") {
  {
    const StopSignals signals;
    CHECK(error_of("x\n1\n") == "no error");
    REQUIRE(std::raise(SIGTERM) == 0);
    CHECK(error_of("x\n1\n") == "table.csv:1: stopped by SIGTERM while the table was read");
  }
  const StopSignals forgotten;
}

TEST_CASE("many small files take little memory") {
  const Folder folder("files");
  write_file(folder / "t.csv", "1\n2\n");
  CsvTable table{.path = folder / "t.csv", .beside = {}};
  for (int file = 1; file < 400; ++file) table.beside.push_back(folder / "t.csv");
  for (int column = 0; column < 400; ++column) table.columns.push_back(fmt::format("c{}", column));
  struct rusage before {
  }, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const CsvSource source(table, {column("c399")});
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(source.rows() == 2);
  CHECK(after.ru_maxrss - before.ru_maxrss < 400 * 64);  // KiB
}

TEST_CASE("files that unpack out of proportion are told apart") {
  constexpr std::int64_t gigabyte = std::int64_t{1} << 30;
  CHECK(is_out_of_proportion(5 * gigabyte, 5 * gigabyte / 1001));
  CHECK_FALSE(is_out_of_proportion(5 * gigabyte, 5 * gigabyte / 999));
  CHECK_FALSE(is_out_of_proportion(4 * gigabyte, 100));
  CHECK_FALSE(is_out_of_proportion(5 * gigabyte, 5 * gigabyte));
}

TEST_CASE("what Python writes is read as Python has it") {
  if (!has_numpy()) return;
  run_numpy(R"(
import csv
x = numpy.random.default_rng(1).normal(size=(200, 3)) * [1, 1e-20, 1e20]
with open("python.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["a", "b, \"b\"", "c", "word", "text"])
    writer.writerows([*map(repr, row.tolist()), f'say "{i % 3}", again', f"a\n{i}"]
                     for i, row in enumerate(x))
numpy.savetxt("numpy.csv", x, delimiter=";", header="a;b;c", comments="")
x.astype("f4").tofile("x.bin")
)");
  const CsvSource source({.path = "python.csv"},
                         {{.name = "x", .columns = {"a", "b, \"b\"", "c"}}, column("word")});
  const auto values = read_all<float>(source, 0);
  CHECK(elements_of(values) == file_bytes("x.bin"));
  CHECK(read_block<std::int32_t>(source, 1, {0, 1, 2, 199}, {}) ==
        std::vector<std::int32_t>{0, 1, 2, 1});
  CHECK(source.categories()[0].texts[2] == "say \"2\", again");
  const CsvSource written({.path = "numpy.csv", .separator = ';'},
                          {{.name = "x", .columns = {"a", "b", "c"}}});
  CHECK(read_all<float>(written, 0) == values);
}

}  // namespace meshwork::csv_test
