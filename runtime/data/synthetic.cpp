#include "runtime/data/synthetic.h"

#include "collectives/error.h"
#include "collectives/with_type.h"
#include "runtime/data/written_source.h"
#include "runtime/device/philox.h"
#include "runtime/shape/block_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace meshwork {

namespace {

constexpr std::int64_t most_weights = std::int64_t{1} << 30;  // 4 GiB

bool is_linear(SyntheticKind kind) {
  return kind == SyntheticKind::linear || kind == SyntheticKind::linear_classes;
}

/// Normal number `index` of the stream `key`: words 2p and 2p + 1 of a block give numbers 2p and
/// 2p + 1.
double standard_normal(std::uint64_t key, std::uint64_t index) {
  const auto words = philox(key, index / 4, 0);
  const std::size_t pair = index % 4 / 2 * 2;
  const double u = (words[pair] + 1.0) * 0x1p-32;  // (0, 1]: its logarithm is finite
  const double angle = 2 * std::numbers::pi * words[pair + 1] * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(u));
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

/// The largest whole number of `type`, plus 1.
double end_of(ElementType type) {
  return with_type(type, [](auto number) {
    using Limits = std::numeric_limits<decltype(number)>;
    return Limits::is_integer ? std::ldexp(1.0, Limits::digits)
                              : std::numeric_limits<double>::infinity();
  });
}

void check(const SyntheticField& field) {
  const std::string owner = fmt::format("synthetic field \"{}\" ({}, {})", field.name,
                                        name_in(synthetic_kinds, field.kind), name_of(field.type));
  check_options(owner, field);
  const auto wrong = [&](const std::string& why) { fail("{}: {}", owner, why); };
  const double first = with_type(field.type, [](auto number) {
    return static_cast<double>(std::numeric_limits<decltype(number)>::lowest());
  });
  switch (field.kind) {
    case SyntheticKind::uniform:
      if (!(field.low < field.high)) {
        wrong(fmt::format("low {} must be below high {}", field.low, field.high));
      }
      if (is_integer(field.type) &&
          (field.low < first || field.high > end_of(field.type) ||
           field.low != std::floor(field.low) || field.high != std::floor(field.high))) {
        wrong(fmt::format("low {} and high {} must be whole numbers from {} to {}", field.low,
                          field.high, first, end_of(field.type)));
      }
      return;
    case SyntheticKind::normal:
    case SyntheticKind::linear:
      if (is_integer(field.type)) wrong("the kind needs float32 or float64");
      return;
    case SyntheticKind::classes:
    case SyntheticKind::linear_classes:
      if (static_cast<double>(field.classes) > end_of(field.type) || field.classes > 0xFFFFFFFF) {
        wrong(fmt::format("{} classes are more than the type can count", field.classes));
      }
  }
}

std::vector<Field> checked_fields(const std::vector<SyntheticField>& options) {
  if (options.empty()) fail("synthetic data: no fields were given");
  std::vector<Field> fields;
  for (const SyntheticField& field : options) {
    check(field);
    fields.push_back(
        {.name = field.name, .shape = field.shape, .type = field.type, .role = field.role});
  }
  if (is_linear(options[0].kind)) {
    fail("synthetic field \"{}\": kind {} is made from the first feature, which this is",
         fields[0].name, name_in(synthetic_kinds, options[0].kind));
  }
  return fields;
}

}  // namespace

SyntheticSource::SyntheticSource(std::int64_t rows, std::vector<SyntheticField> fields,
                                 std::uint64_t seed)
    : Source(rows, checked_fields(fields), "synthetic data"),
      options_(std::move(fields)),
      seed_(seed),
      weights_(options_.size()) {
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const SyntheticField& field = options_[i];
    keys_.push_back(random_key(seed, "synthetic/" + field.name));
    sample_elements_.push_back(element_count(field.shape));
    if (!is_linear(field.kind)) continue;
    const std::int64_t outputs = field.kind == SyntheticKind::linear
                                     ? sample_elements_[i]
                                     : element_count(Shape{field.classes, sample_elements_[i]});
    const std::uint64_t key = random_key(seed, "synthetic/" + field.name + "/weights");
    if (element_count(Shape{outputs, sample_elements_[0]}) > most_weights) {
      fail("synthetic field \"{}\": {} outputs of {} inputs each need more than {} weights",
           field.name, outputs, sample_elements_[0], most_weights);
    }
    weights_[i].resize(static_cast<std::size_t>(outputs * sample_elements_[0]));
    for (std::size_t w = 0; w < weights_[i].size(); ++w) {
      weights_[i][w] = static_cast<float>(standard_normal(key, w));
    }
  }
}

std::string SyntheticSource::locate(int field, std::int64_t row) const {
  return fmt::format("synthetic \"{}\": sample {}", options_[field].name, row);
}

std::int64_t SyntheticSource::classes_by_construction(int field) const {
  const SyntheticField& options = options_[field];
  return makes_classes(options.kind) ? options.classes : 0;
}

std::string SyntheticSource::fingerprint() const {
  std::string text = fmt::format("synthetic; seed {}; {} samples", seed_, rows());
  for (int i = 0; i < field_count(); ++i) {
    const SyntheticField& field = options_[i];
    text += fmt::format("; {} {}", to_string(this->field(i)), name_in(synthetic_kinds, field.kind));
    switch (field.kind) {
      case SyntheticKind::uniform:
        text += fmt::format(" [{}, {})", field.low, field.high);
        break;
      case SyntheticKind::normal:
        text += fmt::format(" ({}, {})", field.mean, field.stddev);
        break;
      case SyntheticKind::classes:
      case SyntheticKind::linear_classes:
        text += fmt::format(" {}", field.classes);
        break;
      case SyntheticKind::linear:
        break;
    }
  }
  return text;
}

void SyntheticSource::products(int field, std::int64_t row, std::int64_t first,
                               std::span<double> sums) const {
  const std::int64_t inputs = sample_elements_[0];
  const float* weights = weights_[field].data() + first * inputs;
  std::fill(sums.begin(), sums.end(), 0.0);
  for (std::int64_t i = 0; i < inputs; ++i) {
    const double input = value(0, row, i);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      sums[k] += weights[static_cast<std::int64_t>(k) * inputs + i] * input;
    }
  }
  for (double& sum : sums) {
    sum /= std::sqrt(static_cast<double>(std::max<std::int64_t>(1, inputs)));
  }
}

double SyntheticSource::value(int field, std::int64_t row, std::int64_t element) const {
  const SyntheticField& options = options_[field];
  const std::uint64_t index = static_cast<std::uint64_t>(row * sample_elements_[field] + element);
  switch (options.kind) {
    case SyntheticKind::uniform: {
      const std::uint32_t word = philox_word(keys_[field], index, 0);
      // 24 bits where 32 could round up to `high` in float32.
      const double u =
          options.type == ElementType::float32 ? (word >> 8) * 0x1p-24 : word * 0x1p-32;
      return options.low + u * (options.high - options.low);
    }
    case SyntheticKind::normal:
      return options.mean + options.stddev * standard_normal(keys_[field], index);
    case SyntheticKind::classes: {
      const std::uint64_t word = philox_word(keys_[field], index, 0);
      return static_cast<double>(word * static_cast<std::uint64_t>(options.classes) >> 32);
    }
    case SyntheticKind::linear: {
      std::array<double, 1> sum{};
      products(field, row, element, sum);
      return sum[0];
    }
    case SyntheticKind::linear_classes: {
      std::int64_t best = 0;
      double largest = -std::numeric_limits<double>::infinity();
      std::array<double, most_at_once> scores{};
      for (std::int64_t first = 0; first < options.classes; first += most_at_once) {
        const std::int64_t count = std::min(most_at_once, options.classes - first);
        products(field, row, element * options.classes + first,
                 std::span(scores).first(static_cast<std::size_t>(count)));
        for (std::int64_t c = 0; c < count; ++c) {
          if (scores[static_cast<std::size_t>(c)] > largest) {
            largest = scores[static_cast<std::size_t>(c)];
            best = first + c;
          }
        }
      }
      return static_cast<double>(best);
    }
  }
  internal_error("a kind of synthetic field without values");
}

template <class T>
void SyntheticSource::make_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                                T* destination) const {
  const Shape& shape = options_[field].shape;
  const std::int64_t count = size_of(block);
  for (const std::int64_t row : rows) {
    for (std::int64_t i = 0; i < count; ++i) {
      // The i-th element of the block, from its last dimension on, as an index into the sample.
      std::int64_t rest = i, element = 0, stride = 1;
      for (std::size_t d = shape.size(); d-- > 0;) {
        element += (block[d].begin + rest % block[d].length()) * stride;
        rest /= block[d].length();
        stride *= shape[d];
      }
      double number = value(field, row, element);
      if constexpr (std::is_integral_v<T>) number = std::floor(number);
      *destination++ = static_cast<T>(number);
    }
  }
}

void SyntheticSource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                                std::byte* destination) const {
  with_type(options_[field].type, [&](auto number) {
    make_rows(field, rows, block, reinterpret_cast<decltype(number)*>(destination));
  });
}

// ---- as configurations write it ------------------------------------------------------------------

namespace {

struct SyntheticOptions {
  std::int64_t rows = 0;
  std::optional<std::uint64_t> seed;
  WrittenField features;
  std::optional<WrittenField> targets;
  std::optional<Written<"a field">> weights;
};

template <class Visitor>
void describe(SyntheticOptions& options, Visitor& option) {
  option.about("samples computed from a seed, for trials and benchmarks");
  option.required("rows", options.rows, positive, "number of samples");
  option("seed", options.seed, "random seed of the values; none: the run's");
  option.required("features", options.features, "a synthetic field for each input");
  option("targets", options.targets, "a synthetic field");
  describe_weights(options.weights, option, "a synthetic field");
}

// What `meshwork reference` calls the options of such a field.
std::string reference_name(SyntheticKind kind) {
  return "synthetic/" + name_in(synthetic_kinds, kind);
}

// Of which nothing is said but its kind.
SyntheticField synthetic_field(SyntheticKind kind) {
  return {.type = makes_classes(kind) ? ElementType::int32 : ElementType::float32, .kind = kind};
}

SyntheticField read_synthetic(const ConfigNode& node, const std::string& name, FieldRole role) {
  const auto kind = node.find("kind");
  SyntheticField field =
      synthetic_field(kind ? kind->choice(synthetic_kinds) : SyntheticKind::normal);
  field.name = name;
  field.role = role;
  return read_options<SyntheticField>(node, Catalog(), reference_name(field.kind), {},
                                      std::move(field));
}

std::shared_ptr<const Source> open_synthetic(const ConfigNode&, const SyntheticOptions& options,
                                             const SourceContext& context) {
  const std::vector<ConfigEntry> entries = options.features.node->entries();
  const bool by_name = !entries.empty() && std::all_of(entries.begin(), entries.end(),
                                                       [](auto& e) { return e.value.is_map(); });
  return std::make_shared<SyntheticSource>(options.rows,
                                           fields_of(options, context, by_name, read_synthetic),
                                           options.seed.value_or(context.seed));
}

}  // namespace

void add_synthetic(Catalog& catalog) {
  add_source<SyntheticOptions>(catalog, "synthetic", open_synthetic);
  for (const auto& [_, kind] : synthetic_kinds) {
    catalog.explain_part<SharedWrittenSource>(
        reference_name(kind), [kind = kind] { return explained(synthetic_field(kind)); });
  }
}

}  // namespace meshwork
