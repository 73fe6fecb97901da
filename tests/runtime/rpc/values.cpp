// What calls carry.
#include "runtime/rpc/values.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

namespace meshwork::rpc_values_test {

namespace {

/// `value` after its way through a payload.
template <class Value>
Value carried(const Value& value) {
  RpcWriter writer;
  RpcType<Value>::write(writer, value);
  RpcReader reader(writer.finish());
  CHECK(reader.codes() == std::string(1, RpcType<Value>::code));
  return RpcType<Value>::read(reader);
}

template <class Element>
std::vector<Element> counting(std::size_t count) {
  std::vector<Element> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<Element>(i);
  return values;
}

}  // namespace

TEST_CASE("numbers and truths come back with their bits") {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    CHECK(carried(value) == value);
  }
  CHECK(carried(static_cast<std::uint8_t>(255)) == 255);
  CHECK(carried(0.1) == 0.1);
  CHECK(carried(0.1F) == 0.1F);
  CHECK(std::signbit(carried(-0.0)));
  CHECK(std::isnan(carried(std::numeric_limits<double>::quiet_NaN())));
  CHECK(carried(true));
  CHECK_FALSE(carried(false));
}

TEST_CASE("texts and arrays of any length come back") {
  for (const std::size_t count : {0, 1, 3, 127, 128, 129, 1023, 1024, 1025, 100'000}) {
    CHECK(carried(std::string(count, 'x')) == std::string(count, 'x'));
    CHECK(carried(counting<float>(count)) == counting<float>(count));
    CHECK(carried(counting<double>(count)) == counting<double>(count));
    CHECK(carried(counting<std::int64_t>(count)) == counting<std::int64_t>(count));
    CHECK(carried(counting<std::int32_t>(count)) == counting<std::int32_t>(count));
    CHECK(carried(counting<std::uint8_t>(count)) == counting<std::uint8_t>(count));
  }
  const std::vector<std::string> texts{"", "a", std::string("\0b", 2), std::string(5000, 'c')};
  CHECK(carried(texts) == texts);
  CHECK(carried(std::vector<std::string>{}).empty());
}

TEST_CASE("arrays are aligned wherever they stand, and large ones are not copied") {
  for (const std::size_t count : {1, 5, 1000}) {
    RpcWriter writer;
    writer.truth(true);  // an odd offset
    const std::vector<double> values = counting<double>(count);
    RpcType<std::span<const double>>::write(writer, values);
    const RpcArray<double> large(counting<double>(4000));
    RpcType<RpcArray<double>>::write(writer, large);
    RpcReader reader(writer.finish());
    CHECK(reader.truth());
    const RpcArray<double> read = RpcType<RpcArray<double>>::read(reader);
    CHECK(std::vector<double>(read.begin(), read.end()) == values);
    CHECK(reinterpret_cast<std::uintptr_t>(read.data()) % alignof(double) == 0);
    CHECK(RpcType<RpcArray<double>>::read(reader).data() == large.data());
  }
}

TEST_CASE("a vector that is moved in is sent from its own memory") {
  std::vector<float> values = counting<float>(4000);
  const float* const place = values.data();
  RpcWriter writer;
  RpcType<std::vector<float>>::write(writer, std::move(values));
  CHECK(static_cast<const void*>(writer.finish().blocks.at(0).bytes.data()) == place);
}

TEST_CASE("an integer passes for a number, and not the other way round") {
  RpcWriter writer;
  writer.integer(7);
  RpcReader reader(writer.finish());
  CHECK(RpcType<double>::read(reader) == 7.0);
  CHECK(rpc_accepts('f', 'i'));
  CHECK_FALSE(rpc_accepts('i', 'f'));
  CHECK_FALSE(rpc_accepts('F', 'D'));
}

TEST_CASE("an integer that does not fit is an error") {
  RpcWriter writer;
  writer.integer(300);
  RpcReader reader(writer.finish());
  CHECK_THROWS_WITH(RpcType<std::uint8_t>::read(reader),
                    "300 was given for an integer from 0 to 255");
  CHECK_THROWS_WITH(
      RpcType<std::uint64_t>::write(writer, std::numeric_limits<std::uint64_t>::max()),
      "18446744073709551615 does not fit 64 bits with a sign");
}

TEST_CASE("more values than blocks still arrive") {
  RpcWriter writer;
  for (int i = 0; i < 100; ++i) {
    RpcType<std::vector<float>>::write(writer, std::vector<float>(400, static_cast<float>(i)));
  }
  RpcReader reader(writer.finish());
  for (int i = 0; i < 100; ++i) {
    CHECK(RpcType<std::vector<float>>::read(reader) ==
          std::vector<float>(400, static_cast<float>(i)));
  }
}

}  // namespace meshwork::rpc_values_test
