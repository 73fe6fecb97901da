#include "runtime/data/gzip_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/data/plain_file.h"

namespace meshwork {

GzipStream::GzipStream(const std::filesystem::path& path, const std::string& expected) {
  PlainFile plain_file(path, expected);
  name_ = plain_file.name();
  file_bytes_ = plain_file.bytes();
  file_ = gzdopen(plain_file.native(), "rb");
  if (file_ == nullptr) {
    fail("{}: there is not enough memory to open it", name_);
  }
  (void)plain_file.release();  // which the stream closes
  if (gzbuffer(file_, static_cast<unsigned>(read_at_once(file_bytes_))) != 0) {
    gzclose_r(file_);
    internal_error("gzbuffer refused the size of a buffer");
  }
}

GzipStream::~GzipStream() {
  gzclose_r(file_);  // what reading could tell, it has told
}

std::int64_t GzipStream::read(std::byte* destination, std::int64_t bytes) {
  std::int64_t done = 0;
  while (done < bytes) {
    const unsigned piece =
        static_cast<unsigned>(std::min<std::int64_t>(bytes - done, std::int64_t{1} << 24));
    const int got = gzread(file_, destination + done, piece);
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      if (code == Z_BUF_ERROR) {
        fail("{}: the gzip stream is truncated: it goes on where the file ends, at byte {}", name_,
             file_bytes_);
      }
      if (code == Z_ERRNO) {
        fail_to_reach(name_,
                      fmt::format("cannot be read from byte {} on",
                                  static_cast<std::int64_t>(gzoffset(file_))),
                      errno);
      }
      // zlib begins its text with the path, or with the descriptor for one.
      std::string_view reason = text;
      if (const std::size_t colon = reason.find(": "); colon != std::string_view::npos) {
        reason.remove_prefix(colon + 2);
      }
      fail("{}: the gzip stream is damaged before byte {} of {}: {}", name_,
           static_cast<std::int64_t>(gzoffset(file_)), file_bytes_, reason);
    }
    if (got == 0) break;
    done += got;
  }
  return done;
}

bool GzipStream::plain() {
  return gzdirect(file_) != 0;
}

}  // namespace meshwork
