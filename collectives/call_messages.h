// Messages of calls between ranks, of any length, none of which blocks.
//
// A message begins with a *head*: what it is, its number, a name, the front of its payload, and how
// long its blocks are. A head fits the size that MPI sends at once, and each rank has receives posted
// for heads from anyone, so a small call is one message of MPI each way. A payload's front that does
// not fit travels as one more block.
//
// A block follows its head in *pieces* of some MiB. The sender has two pieces under way, and so has
// the receiver, who begins when it has read the head; MPI copies from memory to memory and buffers
// nothing. Each message with blocks has a tag of its own among those under way, its *stream*. So
// pieces of several messages to a rank pass each other, and small messages pass them all. A stream is
// under way until its last piece, which is sent synchronously, has met its receive: all receives of
// the stream are posted then, and one that has the tag next comes after them. A rank
// sends at most 8 messages with blocks to a rank at a time; more of them wait for their turn, heads
// included, since a receiver may wait for what a head announces.
//
// Heads of a rank are read in the order in which they were sent. The messages are *delivered* when
// they are whole: one without blocks may overtake one with blocks.
//
// One thread at a time uses this. Nothing here knows what a call is.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "collectives/call_payload.h"
#include "collectives/communicator.h"

namespace meshwork {

struct CallMessage {
  int rank = 0;           // to whom, or from whom
  std::uint8_t kind = 0;  // what the users of this agree on
  std::uint64_t number = 0;
  std::string name;  // at most `longest_name` bytes
  CallPayload payload;
  std::string lost;  // why the payload could not be received; "": it was
};

class CallMessages {
 public:
  static constexpr std::size_t longest_name = 256;
  static constexpr std::size_t head_bytes = 4000;  // below MPI's limit for sending at once
  static constexpr std::size_t piece_bytes = 4 << 20;

  static constexpr int most_streams_to_a_rank = 8;
  static constexpr std::uint32_t default_stream_tags = 16384;  // MPI promises tags up to 32767

  /// Every rank of `ranks` calls it. `stream_tags`, at least `most_streams_to_a_rank`, is for tests.
  explicit CallMessages(const Communicator& ranks, std::uint32_t stream_tags = default_stream_tags);
  /// If MPI may still write into its memory, keeps that: `finish` has not returned true.
  ~CallMessages();
  CallMessages(const CallMessages&) = delete;
  CallMessages& operator=(const CallMessages&) = delete;

  /// Starts to send. The message belongs to this until it is sent.
  void send(CallMessage&& message);
  /// What takes a message that has come, and may move it.
  using Deliver = std::function<void(CallMessage& message)>;
  /// Brings on what is under way, and delivers the messages that have come. Whether anything moved.
  bool look(const Deliver& deliver);

  /// Whether anything is under way that only a look brings on.
  [[nodiscard]] bool is_under_way() const {
    return !heads_.empty() || !outgoing_.empty() || !incoming_.empty() || waiting_ > 0;
  }
  /// Calls `act` with each rank that has to look before what this one sends is there.
  void for_awaited(const std::function<void(int)>& act) const;

  /// All ranks have received what was sent to them, and nothing will be sent: takes back the posted
  /// receives. Not for a hosted job that is broken.
  void finish();

  [[nodiscard]] MPI_Comm native() const { return communicator_.native(); }
  [[nodiscard]] CallMemory& memory() { return *memory_; }

 private:
  static constexpr std::size_t posted = 32;
  static constexpr std::size_t pieces_under_way = 2;

  using Head = std::array<std::byte, head_bytes>;
  /// A head that MPI has not sent yet.
  struct SentHead {
    std::unique_ptr<Head> bytes;
    int rank = 0;
  };
  /// A message with blocks, on its way out or in.
  struct Stream {
    CallMessage message;
    int tag = 0;
    bool front_is_block = false;             // the last one
    std::vector<std::span<std::byte>> room;  // of the blocks, incoming; empty spans: it is dropped
    std::vector<std::size_t> lengths;        // of the blocks
    std::size_t block = 0, offset = 0;       // what is next
    std::array<MPI_Request, pieces_under_way> pieces{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    std::vector<std::byte> scrap;  // for what is dropped
  };
  struct Peer {
    int streams = 0;
    std::uint32_t next_stream = 0;
    std::deque<CallMessage> waiting;
  };

  void post(std::size_t index);
  void start(CallMessage&& message);
  [[nodiscard]] std::uint16_t free_stream(int rank);
  void read_head(int rank, const std::byte* head, std::size_t length, const Deliver& deliver);
  void make_room(Stream& stream);
  bool advance(Stream& stream, bool outgoing, bool& is_over);
  std::unique_ptr<Head> head_memory();

  Communicator communicator_;
  std::uint32_t stream_tags_;
  std::shared_ptr<CallMemory> memory_ = std::make_shared<CallMemory>();
  std::unique_ptr<std::array<Head, posted>> received_;
  std::array<MPI_Request, posted> receives_{};
  std::size_t next_receive_ = 0;  // the one that was posted first
  std::size_t taken_ = 0;         // those before it, which are to be posted again
  std::vector<SentHead> heads_;
  std::vector<MPI_Request> head_requests_;  // of the same
  std::vector<int> ended_;
  std::vector<std::unique_ptr<Head>> spare_heads_;
  std::list<Stream> outgoing_, incoming_;
  std::vector<Peer> peers_;  // by rank
  std::size_t waiting_ = 0;  // messages of all peers
  bool is_finished_ = false;
};

}  // namespace meshwork
