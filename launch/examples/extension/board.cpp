// Board: a role, for a rank that does not train, and a callback that calls it. Each epoch the ranks that
// train post their loss, and go on; at the end the board says which was the least.
//
//     mpirun -n 3 meshwork train mine.yaml --set "roles={train: 2, board: 1}"
//       --set "fit.callbacks=[PostToBoard]"
//
// What such a rank does is up to its functions: keep weights that others fetch, run an environment
// that others act in. They have types, and their errors reach the caller (runtime/rpc/rpc.h).
#include <meshwork/extension.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <mutex>

#include "runtime/train/callbacks/callback.h"
#include "runtime/train/from_config.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/roles/role_map.h"

namespace mine {

using namespace meshwork;

namespace {

struct Posts {
  std::mutex mutex;
  std::int64_t count = 0;
  double least = std::numeric_limits<double>::infinity();
};

class Board final : public Role {
 public:
  void run(RoleRun& run) const override {
    // Functions outlive `run`, and so does what it keeps. They run in a thread of their own.
    auto& posts = run.keep<Posts>();
    run.rpc.define("post", [&posts](double loss) {
      const std::scoped_lock lock(posts.mutex);
      ++posts.count;
      posts.least = std::min(posts.least, loss);
    });
    run.end.wait();
    const std::scoped_lock lock(posts.mutex);
    if (posts.count == 0) return;
    std::printf("board: %lld posts, the least loss %.4f\n", static_cast<long long>(posts.count),
                posts.least);
    std::fflush(stdout);
  }
};

class PostToBoard final : public Callback {
 public:
  std::string class_name() const override { return "PostToBoard"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }
  void on_epoch_end(Training& training) override {
    Rpc* const rpc = training.rpc();
    if (rpc == nullptr || !training.is_root()) return;
    const int board = training.roles()->ranks_of("board").front();
    static_cast<void>(rpc->call(board, "post", training.logs().at("loss")));  // nobody waits for it
  }
};

struct PostToBoardOptions {};
template <class Visitor>
void describe(PostToBoardOptions&, Visitor& option) {
  option.about("posts the loss of each epoch to the role board");
}

}  // namespace

void add_board(Catalog& catalog) {
  catalog.add<SharedRole, NoRoleOptions>(
      "Board", {"board"}, [](const NoRoleOptions&) { return std::make_shared<const Board>(); });
  catalog.add<SharedCallback, PostToBoardOptions>(
      "PostToBoard", {}, [](const PostToBoardOptions&) { return std::make_shared<PostToBoard>(); });
}

}  // namespace mine
