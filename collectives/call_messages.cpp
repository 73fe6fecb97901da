#include "collectives/call_messages.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "collectives/error.h"

namespace meshwork {

namespace {

constexpr int head_tag = 0;
constexpr int first_stream_tag = 1;

/// What a head begins with. The lengths of the blocks follow, then the name, then the front. With what
/// MPI adds, a small call fits a cache line: each more costs as much as the rest of a message.
struct HeadFields {
  std::uint64_t number;
  std::uint16_t front_bytes;  // 0 where it is a block
  std::uint16_t stream;
  std::uint16_t name_bytes;
  std::uint8_t kind;
  std::uint8_t blocks : 7;
  std::uint8_t front_is_block : 1;
};
static_assert(sizeof(HeadFields) == 16);
static_assert(CallMessages::head_bytes <= std::numeric_limits<std::uint16_t>::max());
static_assert(CallPayload::most_blocks + 1 < 128);

}  // namespace

CallMessages::CallMessages(const Communicator& ranks, std::uint32_t stream_tags)
    : communicator_(ranks.duplicate()),
      stream_tags_(stream_tags),
      received_(std::make_unique<std::array<Head, posted>>()),
      peers_(static_cast<std::size_t>(ranks.size())) {
  receives_.fill(MPI_REQUEST_NULL);
  for (std::size_t index = 0; index < posted; ++index) post(index);
}

CallMessages::~CallMessages() {
  if (is_finished_) return;
  // MPI may write there for as long as it runs.
  communicator_.leave();
  static_cast<void>(received_.release());
  for (SentHead& head : heads_) static_cast<void>(head.bytes.release());
  if (!outgoing_.empty()) static_cast<void>(new std::list<Stream>(std::move(outgoing_)));
  if (!incoming_.empty()) static_cast<void>(new std::list<Stream>(std::move(incoming_)));
}

void CallMessages::post(std::size_t index) {
  check_mpi(MPI_Irecv((*received_)[index].data(), static_cast<int>(head_bytes), MPI_BYTE,
                      MPI_ANY_SOURCE, head_tag, communicator_.native(), &receives_[index]),
            "MPI_Irecv for calls");
}

std::unique_ptr<CallMessages::Head> CallMessages::head_memory() {
  if (spare_heads_.empty()) return std::make_unique_for_overwrite<Head>();
  std::unique_ptr<Head> memory = std::move(spare_heads_.back());
  spare_heads_.pop_back();
  return memory;
}

void CallMessages::send(CallMessage&& message) {
  Peer& peer = peers_[static_cast<std::size_t>(message.rank)];
  const bool has_blocks =
      !message.payload.blocks.empty() || message.payload.front.size() > head_bytes / 2;
  if (has_blocks && (peer.streams >= most_streams_to_a_rank || !peer.waiting.empty())) {
    peer.waiting.push_back(std::move(message));
    ++waiting_;
    return;
  }
  start(std::move(message));
}

/// A stream to `rank` that is not under way.
std::uint16_t CallMessages::free_stream(int rank) {
  std::uint32_t& next = peers_[static_cast<std::size_t>(rank)].next_stream;
  std::uint16_t stream = 0;
  do {
    stream = static_cast<std::uint16_t>(next++ % stream_tags_);
  } while (std::ranges::any_of(outgoing_, [&](const Stream& one) {
    return one.message.rank == rank && one.tag == first_stream_tag + static_cast<int>(stream);
  }));
  return stream;
}

void CallMessages::start(CallMessage&& message) {
  CallPayload& payload = message.payload;
  if (payload.blocks.size() > CallPayload::most_blocks || message.name.size() > longest_name) {
    internal_error("a call has too many blocks, or too long a name");
  }
  Peer& peer = peers_[static_cast<std::size_t>(message.rank)];
  HeadFields fields{};
  fields.number = message.number;
  fields.kind = message.kind;
  fields.name_bytes = static_cast<std::uint16_t>(message.name.size());
  const std::size_t without_front =
      sizeof fields + (payload.blocks.size() + 1) * sizeof(std::uint64_t) + message.name.size();
  const bool front_is_block = without_front + payload.front.size() > head_bytes;
  fields.front_is_block = front_is_block ? 1 : 0;
  fields.front_bytes = front_is_block ? 0 : static_cast<std::uint16_t>(payload.front.size());
  const std::size_t blocks = payload.blocks.size() + (front_is_block ? 1 : 0);
  fields.blocks = static_cast<std::uint8_t>(blocks & 127);

  std::vector<std::size_t> lengths;
  for (const CallBlock& block : payload.blocks) lengths.push_back(block.bytes.size());
  if (front_is_block) lengths.push_back(payload.front.size());
  if (blocks > 0) fields.stream = free_stream(message.rank);

  std::unique_ptr<Head> head = head_memory();
  std::byte* to = head->data();
  const auto write = [&](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  write(&fields, sizeof fields);
  for (const std::uint64_t length : lengths) write(&length, sizeof length);
  write(message.name.data(), message.name.size());
  if (!front_is_block) write(payload.front.data(), payload.front.size());

  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(head->data(), static_cast<int>(to - head->data()), MPI_BYTE, message.rank,
                      head_tag, communicator_.native(), &request),
            "MPI_Isend of a call");
  int done = 0;  // mostly at once
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test of a call");
  if (done != 0) {
    if (spare_heads_.size() < posted) spare_heads_.push_back(std::move(head));
  } else {
    heads_.push_back({std::move(head), message.rank});
    head_requests_.push_back(request);
  }
  if (blocks == 0) return;
  ++peer.streams;
  outgoing_.push_back({.message = std::move(message),
                       .tag = first_stream_tag + static_cast<int>(fields.stream),
                       .front_is_block = front_is_block,
                       .lengths = std::move(lengths)});
  bool is_over = false;
  // What is over is seen by the next look.
  static_cast<void>(advance(outgoing_.back(), true, is_over));
}

/// Lets go of pieces that are over and starts those that may be. Whether any was.
bool CallMessages::advance(Stream& stream, bool outgoing, bool& is_over) {
  bool moved = false;
  for (MPI_Request& piece : stream.pieces) {
    if (piece != MPI_REQUEST_NULL) {
      int done = 0;
      check_mpi(MPI_Test(&piece, &done, MPI_STATUS_IGNORE), "MPI_Test of a piece of a call");
      if (done == 0) {
        if (!stream.scrap.empty()) break;
        continue;
      }
      moved = true;
    }
    while (stream.block < stream.lengths.size() && stream.offset == stream.lengths[stream.block]) {
      ++stream.block;
      stream.offset = 0;
    }
    if (stream.block == stream.lengths.size()) continue;
    const std::size_t bytes = std::min(piece_bytes, stream.lengths[stream.block] - stream.offset);
    const int count = static_cast<int>(bytes);
    if (outgoing) {
      const bool is_front = stream.block == stream.message.payload.blocks.size();
      const std::byte* const from =
          (is_front ? reinterpret_cast<const std::byte*>(stream.message.payload.front.data())
                    : stream.message.payload.blocks[stream.block].bytes.data()) +
          stream.offset;
      const bool is_last = stream.offset + bytes == stream.lengths[stream.block] &&
                           std::all_of(stream.lengths.begin() + 1 + stream.block,
                                       stream.lengths.end(), [](auto more) { return more == 0; });
      check_mpi((is_last ? MPI_Issend : MPI_Isend)(from, count, MPI_BYTE, stream.message.rank,
                                                   stream.tag, communicator_.native(), &piece),
                "MPI_Isend of a piece of a call");
    } else {
      std::byte* const to = stream.scrap.empty() ? stream.room[stream.block].data() + stream.offset
                                                 : stream.scrap.data();
      check_mpi(MPI_Irecv(to, count, MPI_BYTE, stream.message.rank, stream.tag,
                          communicator_.native(), &piece),
                "MPI_Irecv of a piece of a call");
    }
    stream.offset += bytes;
    moved = true;
    if (!stream.scrap.empty()) break;  // one receive at a time may write there
  }
  is_over = stream.block == stream.lengths.size() &&
            std::ranges::all_of(stream.pieces,
                                [](MPI_Request piece) { return piece == MPI_REQUEST_NULL; });
  return moved;
}

void CallMessages::make_room(Stream& stream) {
  try {
    for (std::size_t block = 0; block < stream.lengths.size(); ++block) {
      const std::size_t bytes = stream.lengths[block];
      if (stream.front_is_block && block + 1 == stream.lengths.size()) {
        stream.message.payload.front.resize(bytes);
        stream.room.push_back(std::as_writable_bytes(std::span(stream.message.payload.front)));
      } else {
        const std::shared_ptr<std::byte> data = memory_->allocate(bytes);
        stream.room.push_back({data.get(), bytes});
        stream.message.payload.blocks.push_back({stream.room.back(), data});
      }
    }
  } catch (const std::exception&) {
    stream.message.payload = {};
    std::size_t bytes = 0;
    for (const std::size_t length : stream.lengths) bytes += length;
    stream.message.lost = fmt::format("there is not enough memory for {} bytes", bytes);
    stream.scrap.resize(piece_bytes);
  }
}

void CallMessages::read_head(int rank, const std::byte* head, std::size_t length,
                             const Deliver& deliver) {
  HeadFields fields{};
  const std::byte* const end = head + length;
  const auto read = [&](void* to, std::size_t bytes) {
    if (static_cast<std::size_t>(end - head) < bytes) internal_error("a call's head is cut short");
    if (bytes > 0) std::memcpy(to, head, bytes);
    head += bytes;
  };
  read(&fields, sizeof fields);
  CallMessage message{.rank = rank, .kind = fields.kind, .number = fields.number};
  std::vector<std::size_t> lengths(fields.blocks);
  for (std::size_t& bytes : lengths) {
    std::uint64_t wide = 0;
    read(&wide, sizeof wide);
    bytes = wide;
  }
  message.name.resize(fields.name_bytes);
  read(message.name.data(), message.name.size());
  if (fields.front_is_block == 0) {
    message.payload.front.resize(fields.front_bytes);
    read(message.payload.front.data(), message.payload.front.size());
  }
  if (lengths.empty()) {
    deliver(message);
    return;
  }
  Stream& stream = incoming_.emplace_back();
  stream.message = std::move(message);
  stream.tag = first_stream_tag + static_cast<int>(fields.stream);
  stream.front_is_block = fields.front_is_block != 0;
  stream.lengths = std::move(lengths);
  make_room(stream);
}

bool CallMessages::look(const Deliver& deliver) {
  bool moved = false;
  // One at a time: it may be what somebody waits for, and each test has MPI look everywhere.
  int done = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&receives_[next_receive_], &done, &status), "MPI_Test for calls");
  if (done != 0) {
    int length = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    const std::size_t index = next_receive_;
    next_receive_ = (index + 1) % posted;
    ++taken_;
    read_head(status.MPI_SOURCE, (*received_)[index].data(), static_cast<std::size_t>(length),
              deliver);
    moved = true;
  }
  // They are posted again by a look that finds nothing, or when fewer than half are left.
  while (taken_ > (moved ? posted / 2 : 0)) {
    post((next_receive_ + posted - taken_) % posted);
    --taken_;
  }
  for (auto stream = incoming_.begin(); stream != incoming_.end();) {
    bool is_over = false;
    moved |= advance(*stream, false, is_over);
    if (is_over) {
      deliver(stream->message);
      stream = incoming_.erase(stream);
    } else {
      ++stream;
    }
  }
  for (auto stream = outgoing_.begin(); stream != outgoing_.end();) {
    bool is_over = false;
    moved |= advance(*stream, true, is_over);
    if (!is_over) {
      ++stream;
      continue;
    }
    Peer& peer = peers_[static_cast<std::size_t>(stream->message.rank)];
    stream = outgoing_.erase(stream);
    --peer.streams;
    while (!peer.waiting.empty() && peer.streams < most_streams_to_a_rank) {
      CallMessage next = std::move(peer.waiting.front());
      peer.waiting.pop_front();
      --waiting_;
      start(std::move(next));
    }
  }
  if (!heads_.empty()) {
    ended_.resize(heads_.size());
    int ended = 0;
    check_mpi(MPI_Testsome(static_cast<int>(head_requests_.size()), head_requests_.data(), &ended,
                           ended_.data(), MPI_STATUSES_IGNORE),
              "MPI_Testsome of calls");
    if (ended > 0) {
      for (std::size_t i = 0; i < heads_.size(); ++i) {
        if (head_requests_[i] != MPI_REQUEST_NULL) continue;
        if (spare_heads_.size() < posted) spare_heads_.push_back(std::move(heads_[i].bytes));
        heads_[i].bytes.reset();
      }
      std::erase_if(heads_, [](const SentHead& head) { return !head.bytes; });
      std::erase(head_requests_, MPI_REQUEST_NULL);
    }
  }
  return moved;
}

void CallMessages::for_awaited(const std::function<void(int)>& act) const {
  for (const SentHead& head : heads_) act(head.rank);
  for (const Stream& stream : outgoing_) act(stream.message.rank);
}

void CallMessages::finish() {
  for (MPI_Request& receive : receives_) {
    if (receive == MPI_REQUEST_NULL) continue;  // taken
    check_mpi(MPI_Cancel(&receive), "MPI_Cancel");
    check_mpi(MPI_Wait(&receive, MPI_STATUS_IGNORE), "MPI_Wait");
  }
  is_finished_ = true;
}

}  // namespace meshwork
