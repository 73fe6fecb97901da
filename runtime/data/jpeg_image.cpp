// JPEG through libjpeg.
#include <cstddef>
#include <cstdio>
// libjpeg's headers need the two above.
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>

#include "runtime/data/image_files.h"

namespace meshwork::image_detail {
namespace {

// A progressive image comes in scans of all its pixels; a small file can claim thousands.
constexpr int most_scans = 200;

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  DecodeTask* task;
};

struct JpegScans {
  jpeg_progress_mgr manager;
};

[[noreturn]] void end_jpeg(j_common_ptr jpeg) {
  auto* const errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  char text[JMSG_LENGTH_MAX];
  errors->manager.format_message(jpeg, text);
  std::snprintf(errors->task->problem, sizeof errors->task->problem, "%s", text);
  std::longjmp(errors->back, 1);
}

// The library goes on where pixels are missing, and makes up grey ones.
void judge_jpeg_message(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM &&
      code != JWRN_JFIF_MAJOR) {
    end_jpeg(jpeg);
  }
}

void count_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > most_scans) {
    ERREXIT(jpeg, JERR_BAD_PROGRESSION);
  }
}

// Everything that has to be given back stands outside of this function, which longjmp leaves.
bool decode_lines(jpeg_decompress_struct& jpeg, JpegErrors& errors, JpegScans& scans) {
  if (setjmp(errors.back) != 0) return false;
  DecodeTask& task = *errors.task;
  jpeg_create_decompress(&jpeg);
  scans.manager.progress_monitor = count_scans;
  jpeg.progress = &scans.manager;
  jpeg_mem_src(&jpeg, task.bytes, static_cast<unsigned long>(task.size));
  jpeg_read_header(&jpeg, TRUE);
  if (jpeg.image_width != task.width || jpeg.image_height != task.height) {
    ERREXIT(&jpeg, JERR_IMAGE_TOO_BIG);
  }
  jpeg.out_color_space = task.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  const std::size_t line_bytes =
      static_cast<std::size_t>(task.width) * static_cast<std::size_t>(task.channels);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW line = task.pixels + jpeg.output_scanline * line_bytes;
    jpeg_read_scanlines(&jpeg, &line, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

}  // namespace

bool decode_jpeg(DecodeTask& task) {
  jpeg_decompress_struct jpeg{};
  JpegErrors errors{};
  JpegScans scans{};
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = end_jpeg;
  errors.manager.emit_message = judge_jpeg_message;
  errors.task = &task;
  const bool decoded = decode_lines(jpeg, errors, scans);
  jpeg_destroy_decompress(&jpeg);
  return decoded;
}

}  // namespace meshwork::image_detail
