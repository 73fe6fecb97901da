#include "runtime/rpc/values.h"

namespace meshwork {

namespace {

// Shorter ones travel in the front, in the message that a call needs anyway.
constexpr std::size_t least_block = 1024;  // bytes

constexpr std::uint8_t here = 0, in_a_block = 1;

std::shared_ptr<std::string> copy_of(std::span<const std::byte> bytes) {
  return std::make_shared<std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

std::string_view rpc_type_in_words(char code) {
  switch (code) {
    case 'b':
      return "bool";
    case 'i':
      return "integer";
    case 'f':
      return "number";
    case 's':
      return "text";
    case 'S':
      return "texts";
    case 'v':
      return "nothing";
    case 'F':
      return "array of float32";
    case 'D':
      return "array of float64";
    case 'I':
      return "array of int64";
    case 'J':
      return "array of int32";
    case 'B':
      return "array of bytes";
    default:
      return "unknown";
  }
}

std::string rpc_types_in_words(std::string_view codes) {
  std::string text = "(";
  for (const char code : codes) {
    if (text.size() > 1) text += ", ";
    text += rpc_type_in_words(code);
  }
  return text + ")";
}

// ---- writing ------------------------------------------------------------------------------------

void RpcWriter::raw(const void* data, std::size_t bytes) {
  body_.append(static_cast<const char*>(data), bytes);
}

void RpcWriter::integer(std::int64_t value) {
  codes_ += 'i';
  raw(&value, sizeof value);
}

void RpcWriter::number(double value) {
  codes_ += 'f';
  raw(&value, sizeof value);
}

void RpcWriter::truth(bool value) {
  codes_ += 'b';
  body_ += value ? '\1' : '\0';
}

void RpcWriter::long_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  // The last blocks are left for values to come.
  if (bytes.size() < least_block || blocks_.size() + 1 >= CallPayload::most_blocks) {
    const std::uint64_t count = bytes.size();
    body_ += static_cast<char>(here);
    raw(&count, sizeof count);
    raw(bytes.data(), bytes.size());
    return;
  }
  body_ += static_cast<char>(in_a_block);
  if (owner == nullptr) {
    const std::shared_ptr<std::string> copy = copy_of(bytes);
    bytes = std::as_bytes(std::span(*copy));
    owner = copy;
  }
  blocks_.push_back({bytes, std::move(owner)});
}

void RpcWriter::text(std::string_view value) {
  codes_ += 's';
  long_bytes(std::as_bytes(std::span(value)), nullptr);
}

void RpcWriter::texts(const std::vector<std::string>& values) {
  codes_ += 'S';
  const std::uint64_t count = values.size();
  raw(&count, sizeof count);
  for (const std::string& value : values) {
    const std::uint64_t bytes = value.size();
    raw(&bytes, sizeof bytes);
    raw(value.data(), bytes);
  }
}

void RpcWriter::array(char code, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner) {
  codes_ += code;
  long_bytes(bytes, std::move(owner));
}

CallPayload RpcWriter::finish() {
  if (codes_.size() > std::numeric_limits<std::uint8_t>::max()) {
    fail("a call carries {} values, and 254 at most are possible", codes_.size() - 1);
  }
  CallPayload payload;
  payload.front.reserve(1 + codes_.size() + body_.size());
  payload.front += static_cast<char>(static_cast<std::uint8_t>(codes_.size()));
  payload.front += codes_;
  payload.front += body_;
  payload.blocks = std::move(blocks_);
  return payload;
}

// ---- reading ------------------------------------------------------------------------------------

RpcReader::RpcReader(CallPayload payload) : payload_(std::move(payload)) {
  std::uint8_t count = 0;
  raw(&count, sizeof count);
  codes_.resize(count);
  raw(codes_.data(), count);
}

void RpcReader::raw(void* data, std::size_t bytes) {
  if (payload_.front.size() - at_ < bytes) internal_error("the arguments of a call are truncated");
  if (bytes > 0) std::memcpy(data, payload_.front.data() + at_, bytes);
  at_ += bytes;
}

std::int64_t RpcReader::integer() {
  ++next_;
  std::int64_t value = 0;
  raw(&value, sizeof value);
  return value;
}

double RpcReader::number() {
  if (codes_.at(next_) == 'i') return static_cast<double>(integer());
  ++next_;
  double value = 0;
  raw(&value, sizeof value);
  return value;
}

bool RpcReader::truth() {
  ++next_;
  char value = 0;
  raw(&value, sizeof value);
  return value != 0;
}

CallBlock RpcReader::long_bytes() {
  ++next_;
  std::uint8_t where = here;
  raw(&where, sizeof where);
  if (where == in_a_block) return payload_.blocks.at(block_++);
  std::uint64_t count = 0;
  raw(&count, sizeof count);
  if (payload_.front.size() - at_ < count) internal_error("the arguments of a call are truncated");
  // Memory from new is aligned for every type.
  std::shared_ptr<std::byte[]> copy = std::make_unique_for_overwrite<std::byte[]>(count);
  raw(copy.get(), count);
  return {{copy.get(), count}, copy};
}

std::string RpcReader::text() {
  const CallBlock block = long_bytes();
  return {reinterpret_cast<const char*>(block.bytes.data()), block.bytes.size()};
}

std::vector<std::string> RpcReader::texts() {
  ++next_;
  std::uint64_t count = 0;
  raw(&count, sizeof count);
  std::vector<std::string> values;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t bytes = 0;
    raw(&bytes, sizeof bytes);
    if (payload_.front.size() - at_ < bytes)
      internal_error("the arguments of a call are truncated");
    values.emplace_back(payload_.front, at_, bytes);
    at_ += bytes;
  }
  return values;
}

CallBlock RpcReader::array() {
  return long_bytes();
}

}  // namespace meshwork
