// meshwork verify, beside a run that removes its older checkpoints meanwhile.
#include <dlfcn.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "launch/checkpoint_files.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/writer.h"
#include "tests/runtime/checkpoint/mended.h"
#include "tests/support/catch.h"

namespace {

int openings = 0;           // of files, on this rank
int removing_opening = -1;  // the one before which a run removes this:
std::string removed;

}  // namespace

// The program's own, which stands before the library's.
extern "C" hid_t H5Fopen(const char* name, unsigned flags, hid_t access) {
  static auto* const library =
      reinterpret_cast<hid_t (*)(const char*, unsigned, hid_t)>(::dlsym(RTLD_NEXT, "H5Fopen"));
  if (++openings == removing_opening) ::unlink(removed.c_str());
  return library(name, flags, access);
}

namespace meshwork::verify_test {

namespace {

namespace fs = std::filesystem;

const std::string oldest = "rotating/" + checkpoint_name(1);

bool is_root() {
  return Communicator::world().rank() == 0;
}
bool is_last() {
  return Communicator::world().rank() == Communicator::world().size() - 1;
}
void barrier() {
  check_mpi(MPI_Barrier(Communicator::world().native()), "MPI_Barrier");
}

// Three checkpoints in a directory.
void write_checkpoints() {
  barrier();
  if (is_root()) {
    fs::remove_all("rotating");
    fs::create_directories("rotating");
    for (std::int64_t step = 1; step <= 3; ++step) {
      CheckpointState state;
      state.step = step;
      const std::vector<float> values{1, 2, 3};
      const std::vector<TensorPart> parts{
          {{TensorKind::variable, "d1/bias", "", -1, true, {3}, "[~]", 0},
           {{0, 3}},
           values.data()}};
      (void)write_checkpoint(Communicator::self(), "rotating/" + checkpoint_name(step), state,
                             parts, {CheckpointWriter::plain});
    }
  }
  barrier();
}

// What comes of verifying `name`, while `this_rank` removes the oldest before its opening number
// `opening`.
Said verify_while_removing(const std::string& name, bool this_rank, int opening) {
  const Communicator world = Communicator::world().duplicate();
  CommandLine line;
  line.files = {name};
  openings = 0;
  removed = oldest;
  removing_opening = this_rank ? opening : -1;
  const Said said = verify(line, &world);
  removing_opening = -1;
  return said;
}

}  // namespace

TEST_CASE("what a run removes while it is verified is said to be gone, and is no damage") {
  // The root opens all three to list them, then one after the other, the newest first.
  for (const bool before_root : {true, false}) {
    write_checkpoints();
    const Said said = before_root ? verify_while_removing("rotating", is_root(), 6)
                                  : verify_while_removing("rotating", is_last(), is_root() ? 6 : 3);
    if (is_root()) {
      CHECK(said.status == 0);
      CHECK_THAT(said.text, Catch::Contains(checkpoint_name(3) + ": ok: step 3") &&
                                Catch::Contains(checkpoint_name(2) + ": ok: step 2") &&
                                !Catch::Contains("DAMAGED"));
      CHECK(said.problems == oldest + ": removed meanwhile; not checked\n");
    }
  }
}

TEST_CASE("a file that was named and is gone meanwhile is one that is not there") {
  write_checkpoints();
  const Said said = verify_while_removing(oldest, is_root(), 1);
  if (is_root()) {
    CHECK(said.status == 2);
    CHECK(said.text.empty());
    CHECK(said.problems == oldest + ": removed meanwhile; not checked\n");
  }
}

TEST_CASE("of a file of the first format it is said that attributes are not protected") {
  write_checkpoints();
  if (is_root()) test::change_file(oldest, test::make_version_1);
  barrier();
  const Said said = verify_while_removing("rotating", false, 0);
  if (is_root()) {
    CHECK(said.status == 0);
    CHECK_THAT(said.text, Catch::Contains(checkpoint_name(1) + ": ok: step 1"));
    const std::size_t at = said.text.find("version 1, does not protect attributes");
    REQUIRE(at != std::string::npos);
    CHECK(said.text.find(checkpoint_name(1)) < at);
    CHECK(said.text.find("does not protect", at + 20) == std::string::npos);
  }
}

}  // namespace meshwork::verify_test
