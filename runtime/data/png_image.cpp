// PNG through libpng.
#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/data/image_files.h"

namespace meshwork::image_detail {
namespace {

constexpr png_alloc_size_t largest_chunk = png_alloc_size_t{8} << 20;
constexpr png_uint_32 most_chunks = 1000;

[[noreturn]] void end_png(png_structp png, png_const_charp text) {
  auto* const task = static_cast<DecodeTask*>(png_get_error_ptr(png));
  std::snprintf(task->problem, sizeof task->problem, "%s", text);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep destination, std::size_t bytes) {
  auto* const task = static_cast<DecodeTask*>(png_get_io_ptr(png));
  if (bytes > task->size) png_error(png, "it is truncated");
  std::memcpy(destination, task->bytes, bytes);
  task->bytes += bytes;
  task->size -= bytes;
}

// Everything that has to be given back stands outside of this function, which longjmp leaves.
bool decode_rows(png_structp png, png_infop info, DecodeTask& task) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, &task, read_png_bytes);
  png_set_user_limits(png, task.width, task.height);
  png_set_chunk_malloc_max(png, largest_chunk);
  png_set_chunk_cache_max(png, most_chunks);
  // All that pixels do not need, gamma and profiles among it, which would change what grey is.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, info);
  if (png_get_image_width(png, info) != task.width ||
      png_get_image_height(png, info) != task.height) {
    png_error(png, "its size has changed");
  }
  const int color = png_get_color_type(png, info);
  png_set_expand(png);  // palettes to colours, fewer bits to 8, transparent colours to alpha
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  const bool grey = (color & PNG_COLOR_MASK_COLOR) == 0;
  if (grey && task.channels == 3) png_set_gray_to_rgb(png);
  if (!grey && task.channels == 1) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const std::size_t row_bytes =
      static_cast<std::size_t>(task.width) * static_cast<std::size_t>(task.channels);
  if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "its rows have another length");
  for (int pass = 0; pass < passes; ++pass) {
    for (unsigned row = 0; row < task.height; ++row) {
      png_read_row(png, task.pixels + row * row_bytes, nullptr);
    }
  }
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

bool decode_png(DecodeTask& task) {
  std::snprintf(task.problem, sizeof task.problem, "there is not enough memory to decode it");
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &task, end_png, ignore_png_warning);
  if (png == nullptr) return false;
  png_infop info = png_create_info_struct(png);
  const bool decoded = info != nullptr && decode_rows(png, info, task);
  png_destroy_read_struct(&png, &info, nullptr);
  return decoded;
}

}  // namespace meshwork::image_detail
