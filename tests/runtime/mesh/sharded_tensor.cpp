// Sharded tensors on ranks that are there: whatever way a tensor takes, its blocks are those that a
// scatter of the whole gives, and what was sent is what was planned.
#include "runtime/mesh/sharded_tensor.h"

#include <numeric>
#include <random>

#include "collectives/counting.h"
#include "collectives/error.h"
#include "tests/support/catch.h"
#include "tests/support/elements_sent.h"

namespace meshwork::sharded_tensor_test {

namespace {

/// A device, a mesh and a transport that counts.
struct Ranks {
  explicit Ranks(std::vector<MeshAxis> axes) : mesh(std::move(axes)) {}
  std::unique_ptr<Device> device = make_device({});
  DeviceMesh mesh;
  std::unique_ptr<Transport> inner =
      make_transport("mpi", Communicator::world(), &device->queues());
  CountingTransport transport{*inner};
  [[nodiscard]] MeshContext context() { return {*device, mesh, transport}; }
};

std::vector<std::vector<MeshAxis>> meshes() {
  switch (Communicator::world().size()) {
    case 4:
      return {{{"x", 4}}, {{"x", 2}, {"y", 2}}};
    case 8:
      return {{{"x", 8}}, {{"x", 2}, {"y", 4}}, {{"x", 2}, {"y", 2}, {"z", 2}}};
    default:
      return {{{"x", -1}}, {{"x", -1}, {"one", 1}}};
  }
}

/// Values that differ from element to element and are exact in sums.
std::vector<float> whole_values(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

/// The part of `values` that is `block`, picked element by element.
std::vector<float> picked(const std::vector<float>& values, const Shape& shape,
                          const Block& block) {
  std::vector<float> part;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i);
    bool inside = true;
    for (std::size_t dimension = shape.size(); dimension-- > 0;) {
      const std::int64_t index = rest % shape[dimension];
      rest /= shape[dimension];
      inside = inside && index >= block[dimension].begin && index < block[dimension].end;
    }
    if (inside) part.push_back(values[i]);
  }
  return part;
}

std::vector<float> local_values(const Ranks& ranks, const ShardedTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.local_count()));
  ranks.device->copy_out(values.data(), tensor.data(), tensor.local_count() * 4);
  return values;
}

/// A random layout; equal on all ranks because their generators are.
Layout random_layout(std::mt19937& random, std::size_t dimensions, int axis_count) {
  Layout layout = Layout::replicated(dimensions);
  std::vector<Axis> axes(static_cast<std::size_t>(axis_count));
  std::iota(axes.begin(), axes.end(), 0);
  for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[random() % i]);
  for (const Axis axis : axes) {
    const std::size_t choice = random() % (dimensions + 2);
    if (choice < dimensions) layout.dimensions[choice].push_back(axis);
    if (choice == dimensions) layout.partial.push_back(axis);
  }
  std::sort(layout.partial.begin(), layout.partial.end());
  return layout;
}

bool reachable(const Layout& from, const Layout& to, const Shape& shape, const MeshShape& mesh) {
  try {
    (void)plan_redistribution(from, to, shape, mesh);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("random redistributions give the blocks of the whole and send what was planned") {
  const std::vector<std::int64_t> lengths{0, 1, 2, 3, 5, 7, 8, 16};
  for (const std::vector<MeshAxis>& axes : meshes()) {
    Ranks ranks(axes);
    const MeshShape& mesh = ranks.mesh.shape();
    std::mt19937 random(7);
    int wrong = 0, done = 0;
    while (done < 60) {
      Shape shape(random() % 4);
      for (std::int64_t& length : shape) length = lengths[random() % lengths.size()];
      const Layout from = random_layout(random, shape.size(), mesh.axis_count());
      const Layout to = random_layout(random, shape.size(), mesh.axis_count());
      if (!reachable(from, to, shape, mesh)) continue;
      ++done;
      const std::vector<float> whole = whole_values(shape);
      const int root = done % ranks.mesh.all().size();
      ShardedTensor tensor =
          ShardedTensor::scatter(ranks.context(), ElementType::float32, shape, from,
                                 ranks.mesh.rank() == root ? whole.data() : nullptr, root);
      if (from.partial.empty() &&
          local_values(ranks, tensor) != picked(whole, shape, tensor.block())) {
        ++wrong;
      }

      std::int64_t bytes = 0, operations = 0;
      for (const RedistributionStep& step : plan_redistribution(from, to, shape, mesh)) {
        bytes += 4 * elements_sent(step, shape, mesh, ranks.mesh.rank());
        operations += communicates(step.kind) ? 1 : 0;
      }
      ranks.transport.clear();
      tensor.redistribute(to);
      if (ranks.transport.bytes() != bytes || ranks.transport.operations() != operations) ++wrong;
      if (!(tensor.layout() == to) ||
          tensor.block() != block_of(to, shape, mesh, ranks.mesh.rank())) {
        ++wrong;
      }
      if (to.partial.empty() &&
          local_values(ranks, tensor) != picked(whole, shape, tensor.block())) {
        ++wrong;
      }

      std::vector<float> gathered(whole.size(), -1);
      tensor.gather(gathered.data(), root);
      if (ranks.mesh.rank() == root && gathered != whole) ++wrong;
      std::fill(gathered.begin(), gathered.end(), -1.0f);
      tensor.gather(gathered.data());
      if (gathered != whole) ++wrong;
      if (wrong > 0) {
        FAIL("shape " << to_string(shape) << " on " << to_string(mesh) << " from "
                      << to_string(from, mesh) << " to " << to_string(to, mesh));
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a tensor larger than what travels at a time arrives whole") {
  Ranks ranks({{"x", -1}});
  const Shape shape{9, 10 << 20};  // 90 MiB of bytes
  const auto value = [](std::int64_t row, std::int64_t column) {
    return static_cast<std::uint8_t>(row * 31 + column / 4096);
  };
  std::vector<std::uint8_t> whole(
      ranks.mesh.rank() == 0 ? static_cast<std::size_t>(element_count(shape)) : 0);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    whole[i] = value(index / shape[1], index % shape[1]);
  }
  const ShardedTensor tensor = ShardedTensor::scatter(ranks.context(), ElementType::uint8, shape,
                                                      {{{0}, {}}, {}}, whole.data());
  std::vector<std::uint8_t> own(static_cast<std::size_t>(tensor.local_count()));
  ranks.device->copy_out(own.data(), tensor.data(), tensor.local_count());
  const std::uint8_t* at = own.data();
  bool right = true;
  for (std::int64_t row = tensor.block()[0].begin; row < tensor.block()[0].end; ++row) {
    for (std::int64_t column = 0; column < shape[1]; ++column) {
      right = right && *at++ == value(row, column);
    }
  }
  CHECK(right);
  std::fill(whole.begin(), whole.end(), std::uint8_t{0});
  tensor.gather(whole.data(), 0);
  for (std::size_t i = 0; i < whole.size() && right; i += 1021) {
    const auto index = static_cast<std::int64_t>(i);
    right = whole[i] == value(index / shape[1], index % shape[1]);
  }
  CHECK(right);
}

TEST_CASE("a layout that does not fit the tensor is an error") {
  Ranks ranks({{"x", -1}});
  CHECK_THROWS_WITH(ShardedTensor(ranks.context(), ElementType::float32, {4, 4}, {{{0}}, {}}),
                    Catch::Contains("a tensor of shape (4, 4) cannot lie as [x]"));
  ShardedTensor tensor(ranks.context(), ElementType::float32, {4, 4}, {{{0}, {}}, {}});
  CHECK_THROWS_WITH(tensor.redistribute({{{0}}, {}}),
                    Catch::Contains("a tensor of shape (4, 4) cannot lie as [x]"));
}

TEST_CASE("a clone has memory of its own") {
  Ranks ranks({{"x", -1}});
  const std::vector<float> whole = whole_values({6});
  const ShardedTensor tensor = ShardedTensor::scatter(ranks.context(), ElementType::float32, {6},
                                                      Layout::replicated(1), whole.data());
  const ShardedTensor copy = tensor.clone();
  const float zero = 0;
  ranks.device->copy_in(tensor.data(), &zero, 4);
  CHECK(local_values(ranks, copy) == whole);
  CHECK(local_values(ranks, tensor)[0] == 0);
}

}  // namespace meshwork::sharded_tensor_test
