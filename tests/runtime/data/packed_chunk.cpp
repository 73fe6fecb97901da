// Chunks that store what they should and chunks that store less: bytes worked by hand, and files that
// h5py wrote, whose filters are libhdf5's own.
#include "runtime/data/packed_chunk.h"

#include <zlib.h>

#include "runtime/data/hdf5.h"
#include "runtime/data/hdf5_handles.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

namespace meshwork::packed_chunk_test {

using namespace meshwork::test;

namespace {

std::uint64_t unpacked(const std::vector<ChunkFilter>& filters, const std::string& stored,
                       std::uint64_t chunk_bytes, std::uint32_t skipped = 0) {
  return unpacked_bytes(filters, skipped, std::as_bytes(std::span(stored)), chunk_bytes, "a.h5:/x");
}

std::string cut(const std::string& bytes, std::size_t length) {
  return bytes.substr(0, length);
}

std::string hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += digits[i] == ' ' ? 1 : 2) {
    if (digits[i] != ' ') bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// "abcd" as a stored block of deflate between a header and the checksum of zlib.
const std::string deflated_abcd = hex("78 01  01 0400 fbff 61626364  03d8018b");

// Scaleoffset's header: the bits of a number, and the least number, 5, in 8 of 16 bytes.
std::string scaled_header(int bits) {
  return hex("00000000 08 0500000000000000 0000000000000000")
      .replace(0, 1, 1, static_cast<char>(bits));
}

constexpr const char* damaged = "a.h5:/x: a chunk cannot be unpacked; it is damaged";

std::vector<double> numbers_of(const Hdf5Source& source) {
  const auto as_doubles = [](const auto& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  switch (source.field(0).type) {
    case ElementType::uint8:
      return as_doubles(read_all<std::uint8_t>(source, 0));
    case ElementType::int32:
      return as_doubles(read_all<std::int32_t>(source, 0));
    case ElementType::int64:
      return as_doubles(read_all<std::int64_t>(source, 0));
    default:
      return as_doubles(read_all<float>(source, 0));
  }
}

Hdf5Source open(const std::string& file, const std::string& dataset) {
  return Hdf5Source({{.name = "x", .location = {file, dataset}}});
}

bool run_h5py(const Folder& folder, const std::string& program) {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    WARN("SKIPPED: /usr/bin/python3 has no h5py");
    return false;
  }
  const std::string path = folder / "program.py";
  write_file(path, program);
  REQUIRE(std::system(("/usr/bin/python3 " + path + " " + (folder / "")).c_str()) == 0);
  return true;
}

}  // namespace

TEST_CASE("filters that keep a chunk's size leave what is stored") {
  const ChunkFilter shuffle{H5Z_FILTER_SHUFFLE, {4}};
  const ChunkFilter fletcher32{H5Z_FILTER_FLETCHER32, {}};
  CHECK(unpacked({}, "12345678", 8) == 8);
  CHECK(unpacked({shuffle}, "12345678", 8) == 8);
  CHECK(unpacked({shuffle}, "123", 8) == 3);
  CHECK(unpacked({fletcher32}, "12345678 sum", 8) == 8);
  CHECK(unpacked({shuffle, fletcher32}, "1234 sum", 8) == 4);
  CHECK(unpacked({fletcher32}, "1234", 8) == 0);
  CHECK_THROWS_WITH(unpacked({fletcher32}, "123", 8), damaged);
  CHECK(unpacked({shuffle, fletcher32}, "12345678", 8, 0b10) == 8);
}

TEST_CASE("a stream of deflate makes what it says, and no more than a chunk is made of it") {
  const ChunkFilter deflate{H5Z_FILTER_DEFLATE, {9}};
  CHECK(unpacked({deflate}, deflated_abcd, 4) == 4);
  CHECK(unpacked({deflate}, deflated_abcd, 8) == 4);
  CHECK(unpacked({deflate}, deflated_abcd + "behind it", 4) == 4);
  CHECK(unpacked({deflate}, "abcd", 4, 0b1) == 4);
  for (std::size_t length = 0; length < deflated_abcd.size(); ++length) {
    CHECK_THROWS_WITH(unpacked({deflate}, cut(deflated_abcd, length), 4), damaged);
  }
  // A checksum of bytes that deflate packed, and one that it packed with them.
  const ChunkFilter fletcher32{H5Z_FILTER_FLETCHER32, {}};
  CHECK(unpacked({deflate, fletcher32}, deflated_abcd + " sum", 4) == 4);
  CHECK(unpacked({fletcher32, deflate}, deflated_abcd, 4) == 0);

  const std::string zeros(std::size_t{8} << 20, '\0');
  std::string packed(compressBound(zeros.size()), '\0');
  uLongf length = packed.size();
  REQUIRE(compress(reinterpret_cast<Bytef*>(packed.data()), &length,
                   reinterpret_cast<const Bytef*>(zeros.data()), zeros.size()) == Z_OK);
  packed.resize(length);
  CHECK(unpacked({deflate}, packed, zeros.size()) == zeros.size());
  const std::uint64_t counted = unpacked({deflate}, packed, 1000);
  CHECK(counted > 1000);
  CHECK(counted < 200'000);
}

TEST_CASE("a stream of LZF makes its runs and its copies") {
  const ChunkFilter lzf{lzf_filter, {}};
  // "abc", and five bytes from three before: "abcabcab"; then 7 + 10 + 2 from as far.
  const std::string stream = hex("02 616263  60 02  e0 0a 02");
  CHECK(unpacked({lzf}, cut(stream, 6), 8) == 8);
  CHECK(unpacked({lzf}, stream, 8 + 19) == 8 + 19);
  CHECK(unpacked({lzf}, cut(stream, 4), 8) == 3);
  CHECK(unpacked({lzf}, "", 8) == 0);
  for (const std::size_t length : {1, 2, 3, 5, 7, 8}) {
    CHECK_THROWS_WITH(unpacked({lzf}, cut(stream, length), 8), damaged);
  }
}

TEST_CASE("nbit stores as many bits of each number as its type uses") {
  const auto nbit = [](unsigned uses_all, unsigned bits, unsigned unused_below) {
    // 5 numbers (one kind: 1) of 4 bytes, the lowest first.
    return std::vector<ChunkFilter>{
        {H5Z_FILTER_NBIT, {8, uses_all, 5, 1, 4, 0, bits, unused_below}}};
  };
  CHECK(unpacked(nbit(0, 5, 0), "1234", 20) == 20);    // 25 bits
  CHECK(unpacked(nbit(0, 5, 0), "12345", 20) == 20);   // the library's own has a byte behind
  CHECK(unpacked(nbit(0, 5, 0), "123", 20) == 4 * 4);  // 24 bits
  CHECK(unpacked(nbit(0, 16, 16), std::string(10, 'x'), 20) == 20);
  CHECK(unpacked(nbit(0, 16, 16), std::string(9, 'x'), 20) == 4 * 4);
  CHECK(unpacked(nbit(0, 32, 0), std::string(19, 'x'), 20) == 4 * 4);
  // More than the chunk has, and less than its numbers take.
  CHECK(unpacked({{H5Z_FILTER_NBIT, {8, 0, 5, 1, 4, 0, 31, 0}}}, std::string(19, 'x'), 20) ==
        4 * 4);
  CHECK(unpacked(nbit(1, 32, 0), std::string(20, 'x'), 20) == 20);
  CHECK(unpacked(nbit(1, 32, 0), std::string(19, 'x'), 20) == 19);
  CHECK_THROWS_WITH(unpacked(nbit(0, 0, 0), "1234", 20), damaged);
  CHECK_THROWS_WITH(unpacked(nbit(0, 16, 17), std::string(10, 'x'), 20), damaged);
  CHECK_THROWS_WITH(unpacked(nbit(0, ~0U, 1), std::string(10, 'x'), 20), damaged);
  CHECK_THROWS_WITH(unpacked({{H5Z_FILTER_NBIT, {5, 0, 5, 1, 4}}}, "1234", 20), damaged);
}

TEST_CASE("scaleoffset says how many bits of each number it stores") {
  // 5 numbers of 4 bytes.
  const std::vector<ChunkFilter> whole_numbers{{H5Z_FILTER_SCALEOFFSET, {2, 0, 5, 0, 4}}};
  const std::vector<ChunkFilter> real_numbers{{H5Z_FILTER_SCALEOFFSET, {0, 3, 5, 1, 4}}};
  for (const auto& filters : {whole_numbers, real_numbers}) {
    CHECK(unpacked(filters, scaled_header(0), 20) == 20);
    CHECK(unpacked(filters, cut(scaled_header(0), 20), 20) == 0);
    CHECK(unpacked(filters, "", 20) == 0);
    CHECK(unpacked(filters, scaled_header(3) + "12", 20) == 20);  // 15 bits
    CHECK(unpacked(filters, scaled_header(3) + "1", 20) == 2 * 4);
    CHECK(unpacked(filters, scaled_header(3), 20) == 0);
    CHECK(unpacked(filters, scaled_header(32) + std::string(20, 'x'), 20) == 20);
    CHECK(unpacked(filters, scaled_header(32) + std::string(19, 'x'), 20) == 4 * 4);
    CHECK_THROWS_WITH(unpacked(filters, scaled_header(33) + std::string(30, 'x'), 20), damaged);
    CHECK_THROWS_WITH(unpacked(filters, scaled_header(-1) + std::string(30, 'x'), 20), damaged);
    std::string long_least = scaled_header(3) + "12";
    long_least[4] = 17;
    CHECK_THROWS_WITH(unpacked(filters, long_least, 20), damaged);
  }
  // Of all bits, which are stored as they are.
  const std::vector<ChunkFilter> all{{H5Z_FILTER_SCALEOFFSET, {2, 32, 5, 0, 4}}};
  CHECK(unpacked(all, std::string(20, '\xff'), 20) == 20);
  CHECK(unpacked(all, std::string(19, '\xff'), 20) == 19);
}

TEST_CASE("scaleoffset's header is found behind shuffle and deflate") {
  const ChunkFilter scaleoffset{H5Z_FILTER_SCALEOFFSET, {2, 0, 5, 0, 4}};
  const ChunkFilter shuffle{H5Z_FILTER_SHUFFLE, {4}}, deflate{H5Z_FILTER_DEFLATE, {9}};
  const ChunkFilter fletcher32{H5Z_FILTER_FLETCHER32, {}};
  // Of 23 bytes the first of each of 5 fours, then the second ones, and so on; 3 are left over.
  const auto shuffled = [](const std::string& bytes) {
    std::string result;
    for (int i = 0; i < 4; ++i) {
      for (int element = 0; element < 5; ++element) result += bytes[4 * element + i];
    }
    return result + bytes.substr(20);
  };
  const auto deflated = [](const std::string& bytes) {
    std::string packed(compressBound(bytes.size()), '\0');
    uLongf length = packed.size();
    REQUIRE(compress(reinterpret_cast<Bytef*>(packed.data()), &length,
                     reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) == Z_OK);
    return packed.substr(0, length);
  };
  // 3 bits of 5 numbers are 2 bytes, of which 32 bits would be 20.
  const std::string three = scaled_header(3) + "12", all = scaled_header(32) + "12";
  for (const auto& [bytes, made] : {std::pair(three, 20U), std::pair(all, 0U)}) {
    CHECK(unpacked({scaleoffset, shuffle}, shuffled(bytes), 20) == made);
    CHECK(unpacked({scaleoffset, deflate}, deflated(bytes), 20) == made);
    CHECK(unpacked({scaleoffset, shuffle, deflate}, deflated(shuffled(bytes)), 20) == made);
    CHECK(unpacked({scaleoffset, shuffle, deflate, fletcher32}, deflated(shuffled(bytes)) + " sum",
                   20) == made);
    CHECK(unpacked({shuffle, scaleoffset, deflate}, deflated(bytes), 20) == made);
    CHECK(unpacked({scaleoffset, shuffle, deflate}, shuffled(bytes), 20, 0b100) == made);
    CHECK(unpacked({scaleoffset, shuffle, deflate}, deflated("12345"), 20, 0b001) == 5);
  }
}

TEST_CASE("a stream of szip makes its pixels, of which those that fill a scanline are dropped") {
  if (!follows_szip()) {
    WARN("SKIPPED: built without libaec");
    return;
  }
  // A block of 8 pixels of 8 bits as they are: three bits that are set, then the pixels.
  const std::string length = hex("18 000000"), block = hex("e0 00 00 00 00 00 00 00 00");
  const auto szip = [](unsigned pixels_of_scanline, unsigned bits = 8) {
    return std::vector<ChunkFilter>{{H5Z_FILTER_SZIP, {4 | 128, 8, bits, pixels_of_scanline}}};
  };
  CHECK(unpacked(szip(8), hex("08 000000") + block, 8) == 8);
  CHECK(unpacked(szip(8), hex("08 000000") + cut(block, 8), 8) == 7);
  CHECK(unpacked(szip(8), hex("08 000000"), 8) == 0);
  CHECK(unpacked(szip(8), hex("08 000000") + block, 16) == 8);
  CHECK_THROWS_WITH(unpacked(szip(8), hex("08 0000"), 8), damaged);
  // Two scanlines of 12 are 4 blocks of 67 bits, which are set at bits 0, 67, 134 and 201.
  std::string blocks(34, '\0');
  for (const int begin : {0, 67, 134, 201}) {
    for (int bit = begin; bit < begin + 3; ++bit) {
      blocks[bit / 8] |= static_cast<char>(0x80 >> bit % 8);
    }
  }
  CHECK(unpacked(szip(12), length + blocks, 24) == 24);
  CHECK(unpacked(szip(12), length + cut(blocks, 26), 24) == 12 + 8);  // 3 blocks
  CHECK(unpacked(szip(12), length + cut(blocks, 17), 24) == 12);      // 2, of which 4 pixels fill
  CHECK(unpacked(szip(12), length + cut(blocks, 9), 24) == 8);
  CHECK(unpacked(szip(12), length, 24) == 0);
  // Three pixels of four bytes, a byte of each after the other, are 12 pixels.
  CHECK(unpacked(szip(12, 32), hex("0c 000000") + cut(blocks, 17), 12) == 12);
  CHECK(unpacked(szip(12, 32), hex("0c 000000") + cut(blocks, 9), 12) == 8);
  // Of more than a chunk has nothing is unpacked.
  CHECK(unpacked(szip(8), hex("ffffffff") + block, 8) == 0xffffffff);
  for (const auto& settings : std::vector<std::vector<unsigned>>{{4, 0, 8, 8},
                                                                 {4, 34, 8, 34},
                                                                 {4, 8, 8, 0},
                                                                 {4, 8, 8, 8 * 128 + 1},
                                                                 {4, 8, 0, 8},
                                                                 {4, 8, 25, 8},
                                                                 {4, 8, 128, 8},
                                                                 {4, 7, 8, 8},
                                                                 {4, 8, ~0U, 8},
                                                                 {4, 8, 8}}) {
    CHECK_THROWS_WITH(unpacked({{H5Z_FILTER_SZIP, settings}}, hex("08 000000") + block, 8),
                      damaged);
  }
}

TEST_CASE("sizes are followed through the orders in which filters make sense") {
  constexpr H5Z_filter_t shuffle = H5Z_FILTER_SHUFFLE, fletcher32 = H5Z_FILTER_FLETCHER32,
                         deflate = H5Z_FILTER_DEFLATE, szip = H5Z_FILTER_SZIP,
                         nbit = H5Z_FILTER_NBIT, scaleoffset = H5Z_FILTER_SCALEOFFSET,
                         lzf = lzf_filter;
  const auto problem = [](std::vector<H5Z_filter_t> before, H5Z_filter_t filter) {
    return std::string(order_problem(before, filter));
  };
  for (const H5Z_filter_t filter : {shuffle, fletcher32, deflate, szip, nbit, scaleoffset, lzf}) {
    CHECK(problem({}, filter).empty());
    CHECK(problem({shuffle}, filter).empty());
  }
  for (const H5Z_filter_t packs : {deflate, szip, lzf}) {
    CHECK(problem({shuffle, packs}, fletcher32).empty());
    CHECK(problem({fletcher32}, packs).empty());
    for (const H5Z_filter_t filter : {shuffle, nbit, scaleoffset}) {
      CHECK(problem({packs}, filter) == "behind one that packs");
    }
    for (const H5Z_filter_t filter : {deflate, szip, lzf}) {
      CHECK(problem({packs, fletcher32}, filter) == "beside another that packs");
    }
  }
  for (const H5Z_filter_t packs : {nbit, scaleoffset}) {
    for (const H5Z_filter_t filter : {shuffle, deflate, fletcher32}) {
      CHECK(problem({packs}, filter).empty());
    }
    for (const H5Z_filter_t filter : {szip, lzf}) {
      CHECK(problem({packs, shuffle}, filter) == "behind one that packs numbers");
    }
    for (const H5Z_filter_t before : {nbit, scaleoffset, fletcher32}) {
      CHECK(problem({before}, packs) == "behind another");
    }
  }
}

// Writes into the folder that its argument names: packed.h5, with a group for each case, and beside it
// cases.txt. In a group, "whole" is packed, "plain" holds what h5py reads of it, and of "short0" and so
// on the chunk that is named in cases.txt stores less.
const char* const program = R"python(
import itertools
import sys
import zlib

import h5py
import numpy

folder = sys.argv[1]
random = numpy.random.default_rng(18)


def number(name, precision=None, offset=0):
    kind = h5py.h5t.py_create(numpy.dtype(name)).copy()
    if precision:
        kind.set_precision(precision)
        kind.set_offset(offset)
    return kind


def fletcher32(data):
    words = numpy.frombuffer(data + bytes(len(data) % 2), ">u2").astype("u8")
    first = second = 0
    for word in words.tolist():
        first += word
        second += first
    fold = lambda value: value % 65535 or (65535 if value else 0)
    return int(fold(second) << 16 | fold(first)).to_bytes(4, "little")


# How each filter is asked for, with the streams that it makes and unmakes, if others are inside.
FILTERS = {
    "shuffle": lambda creation: creation.set_shuffle(),
    "deflate": lambda creation: creation.set_deflate(6),
    "fletcher32": lambda creation: creation.set_fletcher32(),
    "nbit": lambda creation: creation.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL),
    **{f"scaled{bits}": lambda creation, bits=bits: creation.set_scaleoffset(h5py.h5z.SO_INT, bits)
       for bits in (0, 5, 8, 16, 32)},
    **{f"rounded{digits}": lambda creation, digits=digits: creation.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, digits)
       for digits in (0, 2, 30)},
    **{f"szip_{coding}{pixels}": lambda creation, coding=coding, pixels=pixels: creation.set_szip(
        {"ec": h5py.h5z.SZIP_EC_OPTION_MASK, "nn": h5py.h5z.SZIP_NN_OPTION_MASK}[coding], pixels)
       for coding in ("ec", "nn") for pixels in (4, 8, 10, 16, 32)},
}

SHAPES = [((7, 10), (3, 4)), ((5, 4, 6), (2, 3, 6)), ((100,), (33,)), ((5, 6), (16, 16)), ((3, 100), (1, 100))]
CASES = []
for shape in SHAPES:
    for kind in ("|i1", "<u2", ">i4", "<i8", "<f4", ">f8"):
        for filters in (["shuffle"], ["deflate"], ["fletcher32"], ["shuffle", "deflate"], ["shuffle", "deflate", "fletcher32"],
                        ["fletcher32", "deflate"]):
            CASES.append((shape, number(kind), filters))
    for kind in (number("|u1", 5), number("|i1", 3, 5), number("<u2", 11, 3), number("<i4", 17), number(">i4", 30, 1),
                 number("<i8", 40, 24), number("<i4"), number("<f4"), number(">f8")):
        for filters in (["nbit"], ["nbit", "deflate"], ["nbit", "shuffle", "deflate", "fletcher32"], ["nbit", "fletcher32"]):
            CASES.append((shape, kind, filters))
    for kind in ("|i1", "|u1", "<u2", ">i2", "<i4", ">u4", "<i8"):
        for scaled in ("scaled0", "scaled5", "scaled8", "scaled16", "scaled32"):
            if int(scaled[6:]) <= 8 * numpy.dtype(kind).itemsize:
                for filters in ([scaled], [scaled, "shuffle", "deflate"], [scaled, "fletcher32"]):
                    CASES.append((shape, number(kind), filters))
        CASES.append((shape, number(kind), ["shuffle", "scaled0"]))
    for kind in ("<f4", ">f4", "<f8"):
        for rounded in ("rounded0", "rounded2", "rounded30"):
            for filters in ([rounded], [rounded, "deflate"], [rounded, "shuffle", "deflate", "fletcher32"]):
                CASES.append((shape, number(kind), filters))
    if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        for kind in ("|u1", "<i2", ">u2", "<i4", ">f4", "<f8", ">i8"):
            for coding, pixels in itertools.product(("ec", "nn"), (4, 8, 10, 16, 32)):
                if pixels <= numpy.prod(shape[1]):
                    szip = f"szip_{coding}{pixels}"
                    for filters in ([szip], ["shuffle", szip, "fletcher32"]) if pixels == 8 else ([szip],):
                        CASES.append((shape, number(kind), filters))

# Each pipeline and type with two of the shapes, all of which come with each filter.
CASES = [case for count, case in enumerate(CASES) if (count + 3 * SHAPES.index(case[0])) % 5 < 2]

lines = []
with h5py.File(folder + "packed.h5", "w", rdcc_nbytes=0) as file:  # nothing is read before it was packed
    for count, ((shape, chunk), kind, filters) in enumerate(CASES):
        group = file.create_group(f"{count}_" + "_".join(filters))
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk(chunk)
        for name in filters:
            FILTERS[name](creation)

        def create(name):
            extent = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
            return h5py.h5d.create(group.id, name.encode(), kind, extent, creation)

        real = isinstance(kind, h5py.h5t.TypeFloatID)
        memory = numpy.dtype("f8" if real else "i8")
        if real:
            values = random.normal(size=shape)
        else:
            low = 0 if kind.get_sign() == h5py.h5t.SGN_NONE else -4
            values = random.integers(low, low + 8, size=shape)
        if count % 7 == 3:
            values[...] = values.flat[0]  # which scaleoffset stores without a bit for each
        whole = create("whole")
        whole.write(h5py.h5s.ALL, h5py.h5s.ALL, values.astype(memory))
        file.flush()
        read = numpy.empty(shape, memory)
        whole.read(h5py.h5s.ALL, h5py.h5s.ALL, read)
        lossy = any(name.startswith("rounded") for name in filters)
        assert lossy or numpy.allclose(read, values, 1e-6), (filters, kind.get_precision())
        plain = numpy.dtype(kind.dtype) if real else numpy.dtype(f"{'u' if low == 0 else 'i'}{kind.get_size()}")
        group["plain"] = read.astype(plain)

        starts = list(itertools.product(*(range(0, length, step) for length, step in zip(shape, chunk))))
        begin = starts[count % len(starts)]
        mask, stored = whole.read_direct_chunk(begin)
        outside = []
        skipped = lambda name: mask >> filters.index(name) & 1
        inner = stored
        for name in reversed(filters):
            if skipped(name):
                continue
            if name == "fletcher32" and name == filters[-1]:
                assert fletcher32(inner[:-4]) == inner[-4:]
                inner = inner[:-4]
                outside.append(lambda data: data + fletcher32(data))
            elif name == "deflate":
                inner = zlib.decompress(inner)
                outside.append(zlib.compress)
            else:
                break

        def again(data):
            for pack in reversed(outside):
                data = pack(data)
            return data

        variants = []
        for part, pack in ((inner, again), (stored, bytes)):
            variants += [("half", pack(part[:1])), ("half", pack(part[:len(part) // 2])), ("end", pack(part[:-1]))]
        for place, (name, bytes_) in enumerate(variants):
            short = create(f"short{place}")
            for start in starts:
                of_chunk = whole.read_direct_chunk(start)
                if start == begin:
                    of_chunk = mask, bytes_
                short.write_direct_chunk(start, of_chunk[1], of_chunk[0])
            lines.append(f"{group.name[1:]} {place} {name} {','.join(map(str, begin))}")
with open(folder + "cases.txt", "w") as file:
    file.write("\n".join(lines) + "\n")

# Streams of LibLZF, which this library may lack.
with h5py.File(folder + "lzf.h5", "w") as file:
    for count, values in enumerate((numpy.zeros(5000, "u1"), numpy.arange(3000) % 7, random.integers(0, 4, 4000, "u1"),
                                    numpy.tile(random.integers(0, 256, 400, "u1"), 20))):
        data = file.create_dataset(str(count), data=values, chunks=values.shape, compression="lzf")
        mask, stored = data.id.read_direct_chunk((0,))
        assert mask == 0
        with open(f"{folder}{count}.lzf", "wb") as stream:
            stream.write(values.nbytes.to_bytes(8, "little") + stored)
)python";

TEST_CASE("chunks that libhdf5 packed are read, and shorter ones refused") {
  const Folder folder("packed_chunk");
  if (!run_h5py(folder, program)) return;
  const std::string path = folder / "packed.h5";
  std::ifstream cases(folder / "cases.txt");
  std::string name, place, part, begin, checked;
  int refused = 0, read = 0;
  std::vector<double> plain;
  while (cases >> name >> place >> part >> begin) {
    INFO(name << ", short" << place);
    const bool szip = name.find("szip") != std::string::npos;
    if (szip && !follows_szip()) {
      REQUIRE_THROWS_WITH(open(path, name + "/whole"), Catch::Contains("built without (libaec)"));
      continue;
    }
    if (checked != name) {
      plain = numbers_of(open(path, name + "/plain"));
      const std::vector<double> whole = numbers_of(open(path, name + "/whole"));
      REQUIRE(whole.size() == plain.size());
      for (std::size_t i = 0; i < plain.size(); ++i) REQUIRE(whole[i] == plain[i]);
      checked = name;
    }
    // The last byte may hold nothing, as the library packs.
    const std::string dataset = name + "/short" + place;
    try {
      const Hdf5Source source = open(path, dataset);
      const std::vector<double> values = numbers_of(source);
      REQUIRE(part == "end");
      // Shuffle finds other bytes in other places.
      const bool shuffled = name.find("_shuffle") != std::string::npos;
      REQUIRE((shuffled ? values.size() == plain.size() : values == plain));
      ++read;
    } catch (const Error& error) {
      const std::string message = error.what();
      INFO(message);
      REQUIRE(message.find(path + ":/" + dataset) == 0);
      REQUIRE(message.find('\n') == std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > 2000);
  CHECK(refused > 5 * read);
  for (int i = 0; i < 4; ++i) {
    INFO(i << ".lzf");
    const std::string bytes = file_bytes(folder / (std::to_string(i) + ".lzf"));
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    const std::string stream = bytes.substr(sizeof size);
    CHECK(unpacked({{lzf_filter, {}}}, stream, size) == size);
    for (std::size_t length = 0; length < stream.size(); ++length) {
      std::uint64_t made = 0;
      try {
        made = unpacked({{lzf_filter, {}}}, cut(stream, length), size);
      } catch (const Error&) {
      }
      REQUIRE(made < size);
    }
  }
}

TEST_CASE("chunks at the edges may be stored without the filters") {
  const Folder folder("packed_chunk");
  const std::string path = folder / "data.h5";
  const auto values = counted<std::uint8_t>(5 * 7);
  {
    const Hdf5Guard guard;
    const Hdf5Properties access(H5Pcreate(H5P_FILE_ACCESS));
    REQUIRE(H5Pset_libver_bounds(access.native(), H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0);
    const Hdf5File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.native()));
    const Hdf5Properties creation(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t shape[]{5, 7}, chunk[]{2, 4};
    REQUIRE(H5Pset_chunk(creation.native(), 2, chunk) >= 0);
    REQUIRE(H5Pset_chunk_opts(creation.native(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) >= 0);
    REQUIRE(H5Pset_deflate(creation.native(), 9) >= 0);
    const Hdf5Dataspace space(H5Screate_simple(2, shape, nullptr));
    for (const char* name : {"whole", "short"}) {
      const Hdf5Dataset data(H5Dcreate2(file.native(), name, H5T_STD_U8LE, space.native(),
                                        H5P_DEFAULT, creation.native(), H5P_DEFAULT));
      REQUIRE(H5Dwrite(data.native(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       values.data()) >= 0);
      const hsize_t edge[]{4, 0};
      if (std::string(name) == "short") {
        REQUIRE(H5Dwrite_chunk(data.native(), H5P_DEFAULT, 0, edge, 3, "abc") >= 0);
      }
    }
  }
  CHECK(read_all<std::uint8_t>(open(path, "whole"), 0) == values);
  CHECK_THROWS_WITH(read_all<std::uint8_t>(open(path, "short"), 0),
                    path +
                        ":/short, elements from (4, 0) on: a chunk stores 3 bytes of the 8 that "
                        "it has; it is damaged");
}

}  // namespace meshwork::packed_chunk_test
