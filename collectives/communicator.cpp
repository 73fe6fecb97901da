#include "collectives/communicator.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "collectives/device_transports.h"
#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/last_words.h"
#include "collectives/printable.h"

namespace meshwork {

namespace {

MPI_Comm job = MPI_COMM_WORLD;

bool mpi_runs() {
  int initialized = 0;
  int finalized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  return initialized != 0 && finalized == 0;
}

/// Open MPI unloads its components in MPI_Finalize, where its own threads may be on their way out. What
/// is loaded now stays, so that no thread is left in code that is gone.
void keep_libraries() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* all) {
        static_cast<std::vector<std::string>*>(all)->emplace_back(info->dlpi_name);
        return 0;
      },
      &names);
  for (const std::string& name : names) {
    if (!name.empty()) (void)dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

/// MPI's default is to end the process inside the failing call; communicators that are split or
/// duplicated from these inherit what is set here.
void return_errors(MPI_Comm communicator) {
  check_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

/// Settings of Open MPI that must be there when it starts; what the user has set wins, and another
/// MPI does not look at them. Of the algorithms for a started all-reduce, number 3 (scatter the
/// reduction, then gather) sends (n - 1) / n of the buffer twice; the default for one in place
/// reduces the whole to one rank and broadcasts it, and takes 1.6 times as long for 8 MB on 2
/// ranks.
void prefer_settings() {
  ::setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
  // The default for collective writes to files, vulcan, has corrupted files of parallel HDF5
  // (open-mpi/ompi #12718).
  ::setenv("OMPI_MCA_fcoll", "dynamic_gen2,individual", 0);
  // Nobody shares file pointers here, and this component writes the file's name into 256 bytes.
  ::setenv("OMPI_MCA_sharedfp", "^lockedfile", 0);
  if (!started_by_launcher()) {
    // No other rank is ever there: a daemon and a search for networks take 0.3 s, and the daemon
    // waits for ever where files may have no bytes (ulimit -f 0).
    ::setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    ::setenv("OMPI_MCA_pml", "ob1", 0);
    ::setenv("OMPI_MCA_btl", "self", 0);
  }
  prefer_settings_of_devices();
}

/// A session folder for this process alone, while MPI starts. Open MPI gives one folder to all that
/// a user starts without a launcher. Every open file keeps a file there, and the first process that
/// ends removes the folder from under the others. Open MPI removes this one when the process ends.
class OwnSessionFolder {
 public:
  OwnSessionFolder() {
    if (started_by_launcher() || std::getenv(setting) != nullptr) return;
    for (const char* variable : {"OMPI_MCA_orte_tmpdir_base", "TMPDIR", "TEMP", "TMP"}) {
      const char* const base = std::getenv(variable);
      if (base != nullptr && *base != '\0' && made_in(base)) return;
    }
    // Where none can be made here either, MPI says so.
    (void)made_in("/tmp");
  }
  ~OwnSessionFolder() {
    if (folder_.empty()) return;
    // Programs that this one starts are other sessions.
    ::unsetenv(setting);
    // It is empty where MPI does not use it.
    ::rmdir(folder_.c_str());
  }
  OwnSessionFolder(const OwnSessionFolder&) = delete;
  OwnSessionFolder& operator=(const OwnSessionFolder&) = delete;

 private:
  static constexpr const char* setting = "OMPI_MCA_orte_jobfam_session_dir";

  bool made_in(const std::string& base) {
    std::string name = base + "/meshwork-XXXXXX";  // the end is mkdtemp's to choose
    if (::mkdtemp(name.data()) == nullptr) return false;
    folder_ = name;
    ::setenv(setting, folder_.c_str(), 0);
    return true;
  }

  std::string folder_;
};

}  // namespace

bool started_by_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK",
                               "PMI_SIZE", "PMI_FD", "ALPS_APP_PE"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

MpiEnvironment::MpiEnvironment(int* argc, char*** argv)
    : exceptions_outside_(std::uncaught_exceptions()) {
  int initialized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  int level = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    prefer_settings();
    const OwnSessionFolder session;
    // Threads that prepare data run beside the one that calls MPI; one that writes a checkpoint
    // calls it too, where the level allows that.
    check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    owned_ = true;
  } else {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  }
  if (level < MPI_THREAD_FUNNELED) {
    fail(
        "this MPI gives thread level MPI_THREAD_SINGLE, Meshwork needs MPI_THREAD_FUNNELED or "
        "more; "
        "initialise MPI with MPI_Init_thread, or use an MPI that was built with threads");
  }
  return_errors(MPI_COMM_WORLD);
  return_errors(MPI_COMM_SELF);
}

MpiEnvironment::~MpiEnvironment() {
  if (std::uncaught_exceptions() > exceptions_outside_) {
    abort_job(1, "an exception left the program without having been reported");
  }
  if (!owned_) return;
  int finalized = 0;
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && finalized != 0) return;
  keep_libraries();
  if (MPI_Finalize() != MPI_SUCCESS) abort_job(1, "MPI_Finalize failed");
}

void abort_job(int exit_code, const std::string& message) {
  if (Hosted::current() != nullptr) throw Error(message);
  std::cout.flush();
  std::clog.flush();
  std::fflush(stdout);
  int initialized = 0;
  int finalized = 0;
  const bool runs = MPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0 &&
                    MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0;
  if (!runs) {
    std::fprintf(stderr, "%s\n", printable(message).c_str());
    std::fflush(stderr);
    std::_Exit(exit_code);
  }
  int rank = -1;
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> host{};
  int length = 0;
  if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS) rank = -1;
  if (MPI_Get_processor_name(host.data(), &length) != MPI_SUCCESS) host[0] = '\0';
  if (LastWords::claim()) {
    // One write, so that the lines of ranks which fail together stay whole.
    const std::string line =
        fmt::format("rank {} ({}): {}\n", rank, host.data(), printable(message));
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
  }
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);  // MPI_Abort does not return; the compiler cannot know
}

Communicator::Communicator(MPI_Comm native, bool owned) : native_(native), owned_(owned) {
  check_mpi(MPI_Comm_rank(native_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(native_, &size_), "MPI_Comm_size");
}

Communicator Communicator::world() {
  if (!mpi_runs()) fail("a communicator was asked for while MPI is not initialised");
  return_errors(job);
  return {job, false};
}

JobWithin::JobWithin(const Communicator& ranks) : around_(std::exchange(job, ranks.native())) {}

JobWithin::~JobWithin() {
  job = around_;
}

Communicator Communicator::duplicate_of(MPI_Comm native) {
  if (!mpi_runs()) fail("a communicator was given while MPI is not initialised");
  if (native == MPI_COMM_NULL) {
    fail("MPI_COMM_NULL was given, which MPI_Comm_split gives to ranks that it leaves out");
  }
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_FUNNELED) {
    fail(
        "MPI was initialised with thread level MPI_THREAD_SINGLE, Meshwork needs "
        "MPI_THREAD_FUNNELED or more; initialise MPI with MPI_Init_thread");
  }
  MPI_Comm duplicate = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(native, &duplicate), "MPI_Comm_dup");
  Communicator own(duplicate, true);
  return_errors(duplicate);
  return own;
}

Communicator Communicator::self() {
  if (!mpi_runs()) fail("a communicator was asked for while MPI is not initialised");
  return_errors(MPI_COMM_SELF);
  return {MPI_COMM_SELF, false};
}

Communicator::Communicator(Communicator&& other) noexcept
    : native_(std::exchange(other.native_, MPI_COMM_NULL)),
      owned_(std::exchange(other.owned_, false)),
      rank_(std::exchange(other.rank_, 0)),
      size_(std::exchange(other.size_, 1)),
      attachments_(std::move(other.attachments_)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(native_, other.native_);
  std::swap(owned_, other.owned_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(attachments_, other.attachments_);
  return *this;
}

Communicator::~Communicator() {
  if (!owned_ || native_ == MPI_COMM_NULL) return;
  int finalized = 0;
  // A communicator that outlives MPI has nothing left to free.
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  // Where an error unwinds, other ranks may still wait on it.
  if (const Hosted* const job_of_host = Hosted::current();
      job_of_host != nullptr && (job_of_host->is_broken() || std::uncaught_exceptions() > 0)) {
    return;
  }
  if (MPI_Comm_free(&native_) != MPI_SUCCESS) abort_or_break("MPI_Comm_free failed");
}

Communicator Communicator::split(int color, int key) const {
  await_ranks(native_);
  MPI_Comm native = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(native_, color, key, &native), "MPI_Comm_split");
  return {native, true};
}

Communicator Communicator::duplicate() const {
  await_ranks(native_);
  MPI_Comm native = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(native_, &native), "MPI_Comm_dup");
  return {native, true};
}

Communicator Communicator::split_by_node() const {
  await_ranks(native_);
  MPI_Comm native = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(native_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &native),
            "MPI_Comm_split_type");
  return {native, true};
}

}  // namespace meshwork
