#include "runtime/data/csv_scanner.h"

#include "collectives/printable.h"
#include "collectives/stop_signals.h"

namespace meshwork {

CsvScanner::CsvScanner(const std::filesystem::path& path, char separator)
    : name_(in_one_line(path.string())),
      separator_(separator),
      stream_(path, "a CSV file"),
      buffer_(static_cast<std::size_t>(read_at_once(stream_.file_bytes()))) {
  for (const int byte : {0xEF, 0xBB, 0xBF}) {  // UTF-8's mark of the order of bytes
    if (peek() != byte) break;
    ++at_;
  }
}

void CsvScanner::fill() {
  if (const StopSignal signal = received_stop_signal(); signal != StopSignal::none) {
    fail("{}:{}: stopped by {} while the table was read", name_, line_, name_of(signal));
  }
  const std::int64_t bytes = stream_.read(reinterpret_cast<std::byte*>(buffer_.data()),
                                          static_cast<std::int64_t>(buffer_.size()));
  at_ = 0;
  filled_ = static_cast<std::size_t>(bytes);
  unpacked_ += bytes;
  if (is_out_of_proportion(unpacked_, file_bytes())) {
    fail(
        "{}: unpacks to more than {} bytes, a thousand times the {} of the file; it is damaged or "
        "hostile",
        name_, unpacked_, file_bytes());
  }
}

int CsvScanner::peek() {
  if (at_ == filled_) {
    fill();
    if (filled_ == 0) return end;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

int CsvScanner::take() {
  const int letter = peek();
  if (letter == end) return end;
  ++at_;
  if (letter == '\n') {
    ++line_;
    column_ = 1;
  } else if ((letter & 0xC0) != 0x80) {  // not within a letter of UTF-8
    ++column_;
  }
  return letter;
}

// Whether there was one.
bool CsvScanner::take_line_end() {
  if (peek() == '\r') {
    take();
    if (peek() != '\n') {
      fail("{}:{}:{}: a carriage return without a line feed", name_, line_, column_ - 1);
    }
  }
  if (peek() != '\n') return false;
  take();
  return true;
}

void CsvScanner::skip_empty_lines() {
  do {
    // There may be very many.
    for (; at_ < filled_ && buffer_[at_] == '\n'; ++at_) {
      ++line_;
      column_ = 1;
    }
  } while (take_line_end());
}

CsvValue& CsvScanner::begin_value() {
  if (count_ == most_values) {
    fail("{}:{}:{}: the row has more than {} values", name_, line_, column_, most_values);
  }
  if (count_ == values_.size()) values_.emplace_back();
  CsvValue& value = values_[count_++];
  value.text.clear();
  value.quoted = peek() == '"';
  value.line = line_;
  value.column = column_;
  return value;
}

void CsvScanner::append(CsvValue& value, int letter) {
  if (letter == '\0') {
    fail("{}:{}:{}: a byte of zero, which no text has; is this a CSV file?", name_, line_,
         column_ - 1);
  }
  if (++row_bytes_ > longest_row) {
    fail_at(value, "the row is longer than {} bytes; is a quote without an end before it?",
            longest_row);
  }
  value.text += static_cast<char>(letter);
}

void CsvScanner::read_quoted(CsvValue& value) {
  take();
  for (;;) {
    const int letter = take();
    if (letter == end) fail_at(value, "the quote has no end");
    if (letter == '"') {
      if (peek() != '"') break;
      take();
    }
    append(value, letter);
  }
  const int next = peek();
  if (next != end && next != separator_ && next != '\r' && next != '\n') {
    fail("{}:{}:{}: expected a separator '{}' or the end of the line behind a quoted value", name_,
         line_, column_, separator_);
  }
}

std::span<const CsvValue> CsvScanner::next() {
  skip_empty_lines();
  count_ = 0;
  row_bytes_ = 0;
  if (peek() == end) return {};
  for (;;) {
    CsvValue& value = begin_value();
    if (value.quoted) {
      read_quoted(value);
    } else {
      for (int letter = peek();
           letter != separator_ && letter != '\n' && letter != '\r' && letter != end;
           letter = peek()) {
        append(value, take());
      }
    }
    if (peek() != separator_) break;
    take();
  }
  take_line_end();
  return std::span(values_).first(count_);
}

}  // namespace meshwork
