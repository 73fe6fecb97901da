#include "runtime/data/batches.h"

#include "collectives/error.h"
#include "collectives/printable.h"
#include "collectives/with_type.h"
#include "collectives/wrong_input.h"
#include "runtime/data/mixed_reader.h"
#include "runtime/data/order.h"
#include "runtime/shape/block_parts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>

namespace meshwork {

std::int64_t batch_count(std::int64_t rows, std::int64_t batch_size) {
  return rows / batch_size + (rows % batch_size != 0 ? 1 : 0);
}

Range batch_range(std::int64_t rows, std::int64_t batch_size, std::int64_t index) {
  const std::int64_t begin = index * batch_size;
  return {begin, begin + std::min(batch_size, rows - begin)};
}

std::vector<std::int64_t> batch_row_counts(std::int64_t rows, std::int64_t batch_size) {
  std::vector<std::int64_t> counts;
  if (rows >= batch_size) counts.push_back(batch_size);
  if (rows % batch_size != 0) counts.push_back(rows % batch_size);
  return counts;
}

void check_batching(std::int64_t rows, std::int64_t batch_size, std::int64_t parts,
                    std::int64_t batch_shards, std::string_view batch_axis, std::string_view what) {
  if (rows < 1) fail("{}: there are no samples", what);
  if (batch_size < 1) fail("{}: batch_size is {}; it must be 1 at least", what, batch_size);
  if (batch_size > rows) {
    fail("{}: batch_size {} is larger than the data, which has {} samples; choose {} or less", what,
         batch_size, rows, rows);
  }
  if (batch_size < batch_shards) {
    fail(
        "{}: batch_size {} gives no row to some of the {} ranks along axis \"{}\"; choose {} or "
        "more "
        "(batch_size is global), or a shorter axis",
        what, batch_size, batch_shards, batch_axis, batch_shards);
  }
  if (batch_size / batch_shards < parts) {
    fail("{}: {} microbatches are too many for batch_size {}: {}; choose {} or fewer", what, parts,
         batch_size,
         batch_shards == 1 ? "each has a row at least"
                           : fmt::format("{} ranks share the rows of each", batch_shards),
         batch_size / batch_shards);
  }
}

namespace {

struct FreeAligned {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;

constexpr std::size_t alignment = 64;

AlignedMemory allocate(std::int64_t bytes) {
  const std::size_t padded =
      (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, std::max(padded, alignment));
  if (memory == nullptr) fail("{} bytes of memory for a batch cannot be had", bytes);
  return AlignedMemory(static_cast<std::byte*>(memory));
}

/// One batch with its memory.
struct Slot {
  HostBatch batch;
  std::vector<AlignedMemory> memory;  // by field
  std::vector<std::int64_t> samples;  // if they are listed
};

template <class T>
bool is_weight(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value >= 0 && value <= static_cast<T>(std::numeric_limits<float>::max());
  } else {
    return static_cast<std::int64_t>(value) >= 0;
  }
}

template <class T>
bool is_class(T value, std::int64_t classes) {
  if constexpr (std::is_floating_point_v<T>) {
    return value >= 0 && value < static_cast<T>(classes) &&
           value == static_cast<T>(static_cast<std::int64_t>(value));
  } else {
    return static_cast<std::int64_t>(value) >= 0 && static_cast<std::int64_t>(value) < classes;
  }
}

template <class T>
bool is_number(T value, std::int64_t number) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value) == static_cast<double>(number);
  } else {
    return static_cast<std::int64_t>(value) == number;
  }
}

template <class T>
bool is_whole(T value) {
  using Limits = std::numeric_limits<std::int32_t>;
  const auto number = static_cast<double>(value);
  return number >= Limits::min() && number <= Limits::max() && number == std::floor(number);
}

/// The first of the elements in `bytes` bytes of `type` that does not suit, as text, and its place;
/// "" if all do.
struct UnfitFed {
  std::string value;
  std::int64_t place = 0;
};
template <class Suits>
UnfitFed first_unfit(ElementType type, const std::byte* data, std::int64_t bytes,
                     const Suits& suits) {
  const std::int64_t count = bytes / element_bytes(type);
  return with_type(type, [&](auto number) -> UnfitFed {
    const auto* values = reinterpret_cast<const decltype(number)*>(data);
    const auto* found =
        std::find_if(values, values + count, [&](auto value) { return !suits(value); });
    return {found == values + count ? "" : fmt::format("{}", *found), found - values};
  });
}

}  // namespace

/// Reads any batch into a slot. One thread at a time.
class Feeder::Assembler {
 public:
  explicit Assembler(FeederOptions options)
      : options_(std::move(options)),
        order_(SampleOrder::identity(0)),
        mixed_(source_of(options_), options_.augment, options_.seed) {
    const Source& source = *options_.source;
    if (source.rows() == 0) fail("the data has no samples to make batches of");
    if (options_.batch_size < 1)
      fail("batch_size is {}; it must be 1 at least", options_.batch_size);
    row_counts_ = batch_row_counts(source.rows(), options_.batch_size);
    check(options_.start);
    if (!options_.shuffle) order_ = SampleOrder::identity(source.rows());

    std::int64_t most_rows = 0;
    for (const FeedField& field : options_.fields) {
      if (field.field < 0 || field.field >= source.field_count()) {
        fail("field {} is to be fed of data with {} fields", field.field, source.field_count());
      }
      source.prepare(field.field);
      const Field& description = source.field(field.field);
      if (field.blocks.size() != row_counts_.size()) {
        fail("field \"{}\": batches have {} different row counts, blocks were given for {}",
             description.name, row_counts_.size(), field.blocks.size());
      }
      Part part;
      for (std::size_t i = 0; i < row_counts_.size(); ++i) {
        const Block& block = field.blocks[i];
        if (block.size() != description.shape.size() + 1 || block[0].begin < 0 ||
            block[0].begin > block[0].end || block[0].end > row_counts_[i]) {
          fail("field \"{}\": the block given for a batch of {} rows is not inside it",
               description.name, row_counts_[i]);
        }
        part.sample_blocks.emplace_back(block.begin() + 1, block.end());
        // Checks that the block fits a sample, and reads nothing.
        source.read(field.field, {}, part.sample_blocks.back(), nullptr);
        part.bytes.push_back(size_of(block) * element_bytes(description.type));
        most_rows = std::max(most_rows, block[0].length());
      }
      parts_.push_back(std::move(part));
    }
    samples_.resize(static_cast<std::size_t>(most_rows));
  }

  [[nodiscard]] const FeederOptions& options() const { return options_; }
  [[nodiscard]] std::int64_t batches_per_epoch() const {
    return batch_count(options_.source->rows(), options_.batch_size);
  }
  [[nodiscard]] bool is_over(BatchPosition position) const {
    return options_.epochs >= 0 && position.epoch >= options_.epochs;
  }
  [[nodiscard]] BatchPosition after(BatchPosition position) const {
    if (position.batch + 1 < batches_per_epoch()) return {position.epoch, position.batch + 1};
    return {position.epoch + 1, 0};
  }
  void check(BatchPosition position) const {
    if (position.epoch < 0 || position.batch < 0 || position.batch >= batches_per_epoch()) {
      fail(
          "batch {} of epoch {} is to come next; an epoch of {} samples in batches of {} has {} "
          "batches",
          position.batch, position.epoch, options_.source->rows(), options_.batch_size,
          batches_per_epoch());
    }
  }

  [[nodiscard]] Slot make_slot() const {
    Slot slot;
    for (const Part& part : parts_) {
      slot.memory.push_back(allocate(*std::ranges::max_element(part.bytes)));
      slot.batch.fields.push_back(slot.memory.back().get());
      slot.batch.bytes.push_back(0);
    }
    if (options_.lists_samples) slot.samples.resize(static_cast<std::size_t>(row_counts_[0]));
    return slot;
  }

  void assemble(BatchPosition position, Slot& slot) {
    if (options_.shuffle && (order_.rows() == 0 || order_epoch_ != position.epoch)) {
      order_ = SampleOrder::shuffled(options_.source->rows(), options_.seed, position.epoch);
      order_epoch_ = position.epoch;
    }
    const Range range = batch_range(options_.source->rows(), options_.batch_size, position.batch);
    const std::size_t index = range.length() == row_counts_[0] ? 0 : 1;
    HostBatch& batch = slot.batch;
    batch.position = position;
    batch.rows = range.length();
    batch.row_count_index = index;
    batch.first_row = range.begin;
    if (options_.lists_samples) {
      const std::span<std::int64_t> samples(slot.samples.data(),
                                            static_cast<std::size_t>(range.length()));
      order_.fill(range.begin, samples);
      batch.samples = samples;
    }
    const MixedBatch mixed{.order = &order_,
                           .positions = range,
                           .number = position.epoch * batches_per_epoch() + position.batch};
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const FeedField& field = options_.fields[i];
      const Range rows = field.blocks[index][0];
      const std::span<std::int64_t> samples(samples_.data(),
                                            static_cast<std::size_t>(rows.length()));
      // Most often the fields of a batch have the same rows.
      if (i == 0 || rows != options_.fields[i - 1].blocks[index][0]) {
        order_.fill(range.begin + rows.begin, samples);
      }
      batch.bytes[i] = parts_[i].bytes[index];
      if (mixed_.mixes(field.field)) {
        mixed_.read(mixed, field.field, rows, parts_[i].sample_blocks[index],
                    reinterpret_cast<float*>(slot.memory[i].get()));
        continue;
      }
      options_.source->read(field.field, samples, parts_[i].sample_blocks[index],
                            slot.memory[i].get());
      if (field.classes > 0) check_classes(field, samples, batch.bytes[i], slot.memory[i].get());
      if (field.whole) check_whole(field, samples, batch.bytes[i], slot.memory[i].get());
      if (field.weights) check_weights(field, samples, batch.bytes[i], slot.memory[i].get());
    }
  }

 private:
  /// What a field needs beyond its FeedField, by row count.
  struct Part {
    std::vector<Block> sample_blocks;  // without dimension 0
    std::vector<std::int64_t> bytes;
  };

  static const Source& source_of(const FeederOptions& options) {
    if (options.source == nullptr) internal_error("a feeder without a source");
    return *options.source;
  }

  void check_classes(const FeedField& field, std::span<const std::int64_t> samples,
                     std::int64_t bytes, const std::byte* data) const {
    const UnfitFed unfit =
        first_unfit(options_.source->field(field.field).type, data, bytes, [&](auto value) {
          return is_class(value, field.classes) ||
                 (field.no_class && is_number(value, *field.no_class));
        });
    if (unfit.value.empty()) return;
    const bool fed = options_.source->field(field.field).role == FieldRole::feature;
    const std::span<const std::string> texts = options_.source->texts_of(field.field);
    const std::size_t number = texts.empty() ? 0 : std::stoull(unfit.value);
    const std::string text =
        number < texts.size() ? fmt::format(" (\"{}\")", printable(texts[number])) : "";
    throw WrongInput(fmt::format(
        "{}: {} {}{} is out of range; with {} {} are whole numbers from 0 to {}{}",
        place_of(unfit, field, samples, bytes), fed ? "category" : "label", unfit.value, text,
        field.classes, fed ? "categories they" : "classes labels", field.classes - 1,
        field.no_class ? fmt::format(", or {}", *field.no_class) : ""));
  }

  void check_whole(const FeedField& field, std::span<const std::int64_t> samples,
                   std::int64_t bytes, const std::byte* data) const {
    const UnfitFed unfit = first_unfit(options_.source->field(field.field).type, data, bytes,
                                       [](auto value) { return is_whole(value); });
    if (unfit.value.empty()) return;
    throw WrongInput(fmt::format("{}: {} is no whole number of 32 bits, which \"{}\" has to be",
                                 place_of(unfit, field, samples, bytes), unfit.value,
                                 options_.source->field(field.field).name));
  }

  void check_weights(const FeedField& field, std::span<const std::int64_t> samples,
                     std::int64_t bytes, const std::byte* data) const {
    const UnfitFed unfit = first_unfit(options_.source->field(field.field).type, data, bytes,
                                       [](auto value) { return is_weight(value); });
    if (unfit.value.empty()) return;
    throw WrongInput(fmt::format(
        "{}: the weight {} is no weight; the weights of samples are finite and not negative",
        place_of(unfit, field, samples, bytes), unfit.value));
  }

  [[nodiscard]] std::string place_of(const UnfitFed& unfit, const FeedField& field,
                                     std::span<const std::int64_t> samples,
                                     std::int64_t bytes) const {
    const ElementType type = options_.source->field(field.field).type;
    const std::int64_t per_sample =
        bytes / element_bytes(type) / static_cast<std::int64_t>(samples.size());
    return options_.source->locate(field.field, samples[unfit.place / per_sample]);
  }

  FeederOptions options_;
  std::vector<std::int64_t> row_counts_;
  std::vector<Part> parts_;
  SampleOrder order_;
  std::int64_t order_epoch_ = -1;
  MixedReader mixed_;
  std::vector<std::int64_t> samples_;  // scratch: the samples of a block's rows
};

/// The position, the slots and, where it pays, the thread that fills them.
///
/// Batch b (counted from the start) lies in slot b mod 2. `filled` counts the batches that were
/// assembled, `taken` those given to the caller and `returned` those that the caller gave back,
/// which is all but the last taken. Slot b mod 2 may be filled with batch b once batch b - 2 was
/// returned.
class Feeder::Prefetcher {
 public:
  explicit Prefetcher(Assembler& assembler)
      : assembler_(&assembler), position_(assembler.options().start) {
    slots_.push_back(assembler.make_slot());
    if (assembler.options().prefetch != Prefetch::never) slots_.push_back(assembler.make_slot());
  }
  ~Prefetcher() { stop(); }

  const HostBatch* next() {
    if (!reads_ahead()) return assemble_now();
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    std::unique_lock lock(mutex_);
    returned_ = taken_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return filled_ > taken_ || ended_; });
    if (filled_ > taken_) return &slots_[taken_++ % 2].batch;
    if (error_) std::rethrow_exception(error_);
    return nullptr;
  }

  void seek(BatchPosition position) {
    assembler_->check(position);
    stop();
    position_ = position;
    filled_ = taken_ = returned_ = 0;
    stopping_ = ended_ = false;
    error_ = nullptr;
  }

 private:
  static constexpr std::chrono::microseconds slow{50};
  static constexpr int slow_before_thread = 3;

  [[nodiscard]] bool reads_ahead() const {
    const Prefetch prefetch = assembler_->options().prefetch;
    return prefetch == Prefetch::always ||
           (prefetch == Prefetch::when_slow && slow_ == slow_before_thread);
  }

  const HostBatch* assemble_now() {
    if (assembler_->is_over(position_)) return nullptr;
    const auto begin = std::chrono::steady_clock::now();
    Slot& slot = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
    assembler_->assemble(position_, slot);
    position_ = assembler_->after(position_);
    filled_ = ++taken_;
    slow_ = std::chrono::steady_clock::now() - begin > slow ? slow_ + 1 : 0;
    return &slot.batch;
  }

  void run() {
    try {
      for (;;) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return stopping_ || filled_ < returned_ + 2; });
          if (stopping_) return;
        }
        if (assembler_->is_over(position_)) break;
        assembler_->assemble(position_, slots_[filled_ % 2]);
        position_ = assembler_->after(position_);
        const std::lock_guard lock(mutex_);
        ++filled_;
        changed_.notify_all();
      }
      finish(nullptr);
    } catch (...) {
      finish(std::current_exception());
    }
  }

  void finish(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    ended_ = true;
    changed_.notify_all();
  }

  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  Assembler* assembler_;
  BatchPosition position_;  // of the next batch to assemble; the thread's while it runs
  std::vector<Slot> slots_;
  int slow_ = 0;  // batches in a row that took long to assemble

  std::thread thread_;
  std::mutex mutex_;  // guards what follows, and `changed_` tells of it
  std::condition_variable changed_;
  std::int64_t filled_ = 0;    // batches assembled
  std::int64_t taken_ = 0;     // batches given to the caller
  std::int64_t returned_ = 0;  // batches that the caller has given back
  bool stopping_ = false;
  bool ended_ = false;  // the thread will fill no more
  std::exception_ptr error_;
};

Feeder::Feeder(FeederOptions options)
    : assembler_(std::make_unique<Assembler>(std::move(options))),
      prefetcher_(std::make_unique<Prefetcher>(*assembler_)) {}

Feeder::~Feeder() = default;

std::int64_t Feeder::batches_per_epoch() const {
  return assembler_->batches_per_epoch();
}

const HostBatch* Feeder::next() {
  return prefetcher_->next();
}

void Feeder::seek(BatchPosition position) {
  prefetcher_->seek(position);
}

}  // namespace meshwork
