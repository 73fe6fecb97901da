#include "runtime/device/device.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/sgd.h"

#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cpu/threads.h"
#include "tests/support/catch.h"

namespace meshwork::device_test {

namespace {

std::uintptr_t address(const Memory& memory) {
  return reinterpret_cast<std::uintptr_t>(memory.data());
}

}  // namespace

TEST_CASE("cpu gives the CPU, which says what it is") {
  const auto device = make_device({.kind = "cpu"});
  CHECK(device->traits().kind == "cpu");
  CHECK_THAT(device->description(), Catch::Contains("thread"));
}

TEST_CASE("auto gives a GPU where one is to be had, and else the CPU") {
  std::string_view expected = "cuda";
  try {
    static_cast<void>(make_device({.kind = "cuda"}));
  } catch (const Error& error) {
    // Not in this build, or with the reason that it is not to be had.
    const std::string reason = error.what();
    const bool is_built = reason.starts_with("device \"cuda\": ");
    CHECK((is_built || reason == "device \"cuda\" is not in this build, which has: cpu"));
    expected = "cpu";
  }
  CHECK(make_device({.kind = "auto"})->traits().kind == expected);
}

TEST_CASE("a kind that there is not is an error that names those that there are") {
  CHECK_THROWS_WITH(make_device({.kind = "gpu"}),
                    Catch::StartsWith("there is no device \"gpu\"; this build has: ") &&
                        Catch::EndsWith("cpu (or auto)"));
}

TEST_CASE("a kind that was added is made by its name, and preferred by auto") {
  add_device_kind({.kind = "mine"}, [](const DeviceOptions& options) {
    CHECK(options.ranks_on_node == 3);
    return make_device({.kind = "cpu"});
  });
  CHECK(make_device({.kind = "mine", .ranks_on_node = 3})->traits().kind == "cpu");
  CHECK(make_device({.ranks_on_node = 3})->traits().kind == "cpu");
  CHECK_THROWS_WITH(make_device({.kind = "gpu"}), Catch::Contains("this build has: mine, "));
  for (const char* name : {"mine", "cpu", "cuda"}) {
    CHECK_THROWS_WITH(add_device_kind({.kind = name}, {}),
                      Catch::EndsWith("there is one of that name"));
  }
  CHECK_THROWS_WITH(add_device_kind({.kind = "auto"}, {}),
                    Catch::EndsWith("that is no name for one"));
}

TEST_CASE("memory is aligned, zeroed and writable to its last byte") {
  const auto device = make_device({.kind = "cpu"});
  for (const std::int64_t bytes : {1, 64, 1000, 2 * 1024 * 1024 - 1, 2 * 1024 * 1024, 5000001}) {
    const Memory memory = device->allocate(bytes);
    CHECK(memory.bytes() == bytes);
    CHECK(address(memory) % 64 == 0);
    if (bytes >= 2 * 1024 * 1024) CHECK(address(memory) % (2 * 1024 * 1024) == 0);
    const auto* data = static_cast<const unsigned char*>(memory.data());
    std::int64_t nonzero = 0;
    for (std::int64_t i = 0; i < bytes; ++i) nonzero += data[i] != 0 ? 1 : 0;
    CHECK(nonzero == 0);
    *memory.bytes_at(bytes - 1) = std::byte{1};
  }
  CHECK(device->allocate(0).bytes() == 0);
}

TEST_CASE("more memory than there is is an error with the bytes asked for and free") {
  const auto device = make_device({.kind = "cpu"});
  CHECK_THROWS_WITH(device->allocate(std::int64_t{1} << 60),
                    Catch::Contains("1152921504606846976 bytes") && Catch::Contains("free"));
}

TEST_CASE("memory moves with its owner and is released once") {
  int released = 0;
  int place = 0;
  {
    Memory first(&place, 4, [&](void*) { ++released; });
    Memory second(std::move(first));
    CHECK(second.data() == &place);
    Memory third;
    third = std::move(second);
    CHECK(third.bytes() == 4);
    CHECK(released == 0);
    third = Memory();
    CHECK(released == 1);
  }
  CHECK(released == 1);
}

TEST_CASE("copies to the device and back keep the bytes") {
  const auto device = make_device({.kind = "cpu"});
  const Memory memory = device->allocate(12);
  const std::vector<float> values{1, 2, 3};
  std::vector<float> back(3);
  device->copy_in(memory.data(), values.data(), 12);
  device->copy_out(back.data(), memory.data(), 12);
  device->copy_out(nullptr, nullptr, 0);
  CHECK(back == values);
}

TEST_CASE("ranks of a node share its cores out unless OMP_NUM_THREADS says otherwise") {
  const char* before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before == nullptr ? "" : before;
  REQUIRE(::unsetenv("OMP_NUM_THREADS") == 0);
  const int alone = cpu::threads_for(1);
  CHECK(alone >= 1);
  CHECK(cpu::threads_for(2) == std::max(1, alone / 2));
  CHECK(cpu::threads_for(100000) == 1);
  const auto with = [](const char* text) {
    REQUIRE(::setenv("OMP_NUM_THREADS", text, 1) == 0);
    return cpu::threads_for(1);
  };
  CHECK(with("1") == 1);
  CHECK(with(" 3 ") == 3);
  CHECK(with("2,1") == 2);
  for (const char* no_number : {"", "abc", "0", "-1", "1.5", "2x", ",2", "-99999999999"}) {
    CAPTURE(no_number);
    CHECK(with(no_number) == alone);
  }
  for (const char* too_many : {"99999", "99999999999"}) {
    CHECK_THROWS_WITH(with(too_many),
                      Catch::Contains("OMP_NUM_THREADS") && Catch::Contains("threads at most"));
  }
  REQUIRE(::setenv("OMP_NUM_THREADS", kept.empty() ? "1" : kept.c_str(), 1) == 0);
}

TEST_CASE("memory that the process's own limit does not allow is said to be that limit's") {
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  struct rlimit limit = before;
  std::int64_t pages = 0;  // of addresses that the process has
  std::ifstream("/proc/self/statm") >> pages;
  limit.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + (std::int64_t{64} << 20));
  const auto device = make_device({.kind = "cpu"});
  REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  std::string message;
  try {
    (void)device->allocate(std::int64_t{256} << 20);
  } catch (const Error& error) {
    message = error.what();
  }
  std::string of_little;  // which there is, but libraries may need it
  try {
    (void)device->allocate(1000);
  } catch (const Error& error) {
    of_little = error.what();
  }
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK_THAT(message, Catch::Contains("268435456 bytes") && Catch::Contains("ulimit -v"));
  CHECK_THAT(of_little, Catch::StartsWith("1000 bytes") && Catch::Contains("for libraries"));
}

TEST_CASE("the threads that compute flush denormals to zero") {
  cpu::prepare_threads(3);
  std::vector<float> tiny(3, std::numeric_limits<float>::min());
#pragma omp parallel for num_threads(3) schedule(static, 1)
  for (int i = 0; i < 3; ++i) {
    volatile float value = tiny[static_cast<std::size_t>(i)];
    value = value * 0.25f;
    tiny[static_cast<std::size_t>(i)] = value;
  }
  CHECK(tiny == std::vector<float>(3, 0.0f));
  omp_set_num_threads(1);
}

TEST_CASE("kernels are described by name and sizes") {
  CHECK(MatmulSpec{.m = 64, .n = 256, .k = 784}.text() == "matmul 64x256x784");
  CHECK(MatmulSpec{.m = 64, .n = 256, .k = 784, .bias = true, .activation = Activation::relu}
            .text() == "matmul 64x256x784 bias relu");
  CHECK(MatmulSpec{.m = 2, .n = 3, .k = 4, .transpose_a = true, .accumulate = true}.text() ==
        "matmul tn add 2x3x4");
  MatmulSpec gradient{.m = 2, .n = 3, .k = 4, .transpose_b = true};
  gradient.derivative = Activation::relu;
  CHECK(gradient.text() == "matmul nt 2x3x4 relu gradient");
  gradient.mask = true;
  CHECK(gradient.text() == "matmul nt 2x3x4 relu gradient from a mask");
  CHECK(MatmulSpec{.m = 2, .n = 3, .k = 4, .transpose_a = true, .column_sums = true}.text() ==
        "matmul tn 2x3x4 with column sums");
  CHECK(AdamSpec{.count = 10, .scaled = true}.text() == "adam 10 scaled");
  CHECK(SgdSpec{.count = 10, .narrows = true}.text() == "sgd 10 narrows");
  CHECK(LogitLossSpec{8}.text() == "logit loss 8");
  CHECK(TargetValueSpec{{.rows = 4, .columns = 5, .first_class = 5, .classes = 10}}.text() ==
        "target value 4x5 at 5 of 10");
  CHECK(CopySpec{ElementType::uint8, {{{2, 3}, 0, 0, {3, 1}, {3, 1}}}}.text() ==
        "copy 6 uint8 in 1 region");
  CHECK(CopySpec{ElementType::float32, {{{2}, 0, 0, {1}, {1}, true}}}.text() ==
        "copy and add 2 float32 in 1 region");
  CHECK(DropoutSpec{0.5f, 1, {4, 4}, {{0, 2}, {0, 4}}}.text() == "dropout 0.5 (2, 4)");
}

}  // namespace meshwork::device_test
