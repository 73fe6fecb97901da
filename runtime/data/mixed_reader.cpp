#include "runtime/data/mixed_reader.h"

#include <algorithm>
#include <numeric>

#include "collectives/error.h"
#include "runtime/data/views.h"
#include "runtime/device/philox.h"
#include "runtime/shape/block_parts.h"

namespace meshwork {

std::shared_ptr<const Source> as_mixed(std::shared_ptr<const Source> source,
                                       const std::vector<SharedMixing>& stages) {
  if (stages.empty()) return source;
  for (int field = 0; field < source->field_count(); ++field) {
    if (source->field(field).role != FieldRole::weight) {
      source = as_float32(std::move(source), field);
    }
  }
  return source;
}

MixedReader::MixedReader(const Source& source, std::vector<SharedMixing> stages, std::uint64_t seed)
    : source_(&source) {
  for (SharedMixing& mixing : stages) {
    const std::string path = fmt::format("augment/{}/{}", stages_.size(), mixing->class_name());
    stages_.push_back(
        {.mixing = std::move(mixing), .key = random_key(seed, path), .partners = {}, .values = {}});
  }
}

bool MixedReader::mixes(int field) const {
  return !stages_.empty() && source_->field(field).role != FieldRole::weight;
}

bool MixedReader::has_pixels(int field) const {
  const Shape& image = source_->field(0).shape;
  const Field& read = source_->field(field);
  if (read.role == FieldRole::feature) return read.shape.size() == 3;
  return image.size() == 3 && read.shape.size() >= 2 &&
         std::equal(image.begin(), image.begin() + 2, read.shape.begin());
}

void MixedReader::read(const MixedBatch& batch, int field, Range rows, const Block& block,
                       float* destination) {
  if (source_->field(field).type != ElementType::float32) {
    internal_error("a field is mixed that is not float32");
  }
  rows_.resize(static_cast<std::size_t>(rows.length()));
  std::iota(rows_.begin(), rows_.end(), rows.begin);
  read_stage(stages_.size(), batch, field, rows_, block, destination);
}

void MixedReader::read_stage(std::size_t stages, const MixedBatch& batch, int field,
                             std::span<const std::int64_t> rows, const Block& block,
                             float* destination) {
  if (stages == 0) {
    samples_.clear();
    for (const std::int64_t row : rows) {
      samples_.push_back(batch.order->at(batch.positions.begin + row));
    }
    source_->read(field, samples_, block, destination);
    return;
  }
  read_stage(stages - 1, batch, field, rows, block, destination);
  Stage& stage = stages_[stages - 1];
  const auto permutation = SampleOrder::shuffled(batch.positions.length(), stage.key, batch.number);
  stage.partners.clear();
  for (const std::int64_t row : rows) stage.partners.push_back(permutation.at(row));
  const std::int64_t elements = size_of(block);
  stage.values.resize(rows.size() * static_cast<std::size_t>(elements));
  read_stage(stages - 1, batch, field, stage.partners, block, stage.values.data());
  const float* partner = stage.values.data();
  for (const std::int64_t row : rows) {
    mix(stage.mixing->draw(stage.key, batch.number, row), field, block, partner, destination);
    partner += elements;
    destination += elements;
  }
}

void MixedReader::mix(const Mixture& mixture, int field, const Block& block, const float* partner,
                      float* sample) const {
  if (!mixture.from_partner || !has_pixels(field)) {
    const float rest = 1 - mixture.share;
    const std::int64_t count = size_of(block);
    for (std::int64_t i = 0; i < count; ++i) {
      sample[i] = mixture.share * sample[i] + rest * partner[i];
    }
    return;
  }
  const Shape& image = source_->field(field).shape;
  const std::int64_t channels = size_of(Block(block.begin() + 2, block.end()));
  const auto [rows, columns] = *mixture.from_partner;
  for (std::int64_t row = block[0].begin, at = 0; row < block[0].end; ++row) {
    const bool in_rows = rows.contains(row, image[0]);
    for (std::int64_t column = block[1].begin; column < block[1].end; ++column, at += channels) {
      if (in_rows && columns.contains(column, image[1])) {
        std::copy_n(partner + at, channels, sample + at);
      }
    }
  }
}

}  // namespace meshwork
