#include "runtime/train/engine/resident_data.h"

#include <algorithm>
#include <numeric>

#include "runtime/shape/block_parts.h"

namespace meshwork {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;  // that are read at once

Block block_of_sample(const FeedField& field) {
  const Block& rows = field.blocks.front();
  return {rows.begin() + 1, rows.end()};
}

// Bytes of a row, by field.
std::vector<std::int64_t> row_bytes(const Source& source, std::span<const FeedField> fields) {
  std::vector<std::int64_t> bytes;
  for (const FeedField& field : fields) {
    bytes.push_back(size_of(block_of_sample(field)) *
                    element_bytes(source.field(field.field).type));
  }
  return bytes;
}

std::int64_t sum_of(const std::vector<std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

// Whole rows of one piece after the other.
FeederOptions in_pieces(const std::shared_ptr<const Source>& source,
                        std::span<const FeedField> fields, std::int64_t rows_a_piece) {
  FeederOptions options{.source = source, .batch_size = rows_a_piece, .epochs = 1};
  for (const FeedField& field : fields) {
    FeedField whole = field;
    whole.blocks.clear();
    for (const std::int64_t rows : batch_row_counts(source->rows(), rows_a_piece)) {
      Block block = block_of_sample(field);
      block.insert(block.begin(), Range{0, rows});
      whole.blocks.push_back(std::move(block));
    }
    options.fields.push_back(std::move(whole));
  }
  return options;
}

}  // namespace

bool ResidentData::fits(Device& device, const Source& source, std::span<const FeedField> fields) {
  if (device.traits().computes_in_host_memory) return false;
  const double room = share_of_free_memory * static_cast<double>(device.free_bytes());
  return static_cast<double>(sum_of(row_bytes(source, fields))) *
             static_cast<double>(source.rows()) <=
         room;
}

ResidentData::ResidentData(Device& device, const std::shared_ptr<const Source>& source,
                           std::span<const FeedField> fields) {
  const std::vector<std::int64_t> bytes = row_bytes(*source, fields);
  const std::int64_t of_sample = sum_of(bytes);
  for (const std::int64_t row : bytes) {
    tables_.push_back(device.allocate(source->rows() * row));
    addresses_.push_back(tables_.back().data());
  }
  const std::int64_t rows_a_piece = std::clamp<std::int64_t>(
      piece_bytes / std::max<std::int64_t>(of_sample, 1), 1, source->rows());
  Feeder feeder(in_pieces(source, fields, rows_a_piece));
  while (const HostBatch* piece = feeder.next()) {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (piece->bytes[i] == 0) continue;
      device.copy_in(tables_[i].bytes_at(piece->first_row * bytes[i]), piece->fields[i],
                     piece->bytes[i]);
    }
  }
}

}  // namespace meshwork
