#include "media/hostile.h"

#include <zlib.h>

#include <string_view>

#include "base/check.h"
#include "base/noise.h"
#include "media/samples.h"

namespace slip::media::test {
namespace {

using std::literals::operator""s;

const std::vector<Fault> kBroken{Fault::kCutOff, Fault::kDamaged, Fault::kUnsupportedForm};
const std::vector<Fault> kSound{Fault::kNone};
/// Damage inside the coded samples: libraries show what they can, as every viewer does.
const std::vector<Fault> kEither{Fault::kNone, Fault::kCutOff, Fault::kDamaged, Fault::kUnsupportedForm};

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string noise(size_t size, uint64_t seed) {
  std::string out;
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(keyed_bits(noise_key(seed, 0), i) >> 13);
  return out;
}

/// A zlib stream of that many zeros.
std::string zeros_deflated(size_t size) {
  z_stream stream{};
  SLIP_CHECK(deflateInit(&stream, 9) == Z_OK);
  std::string out;
  std::vector<Bytef> in(1 << 16, 0);
  std::vector<Bytef> piece(1 << 16);
  for (size_t left = size; left > 0 || stream.avail_out == 0;) {
    stream.next_in = in.data();
    stream.avail_in = static_cast<uInt>(std::min(left, in.size()));
    left -= stream.avail_in;
    do {
      stream.next_out = piece.data();
      stream.avail_out = static_cast<uInt>(piece.size());
      deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
      out.append(reinterpret_cast<char*>(piece.data()), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return out;
}

class Table {
 public:
  void add(const std::string& name, const std::string& file, const std::vector<Fault>& faults) {
    files.push_back({name, file, faults});
  }
  void add(const std::string& name, const std::string& file, Fault fault) {
    add(name, file, std::vector{fault});
  }
  std::vector<Hostile> files;
};

// JPEG.

size_t frame_header(const std::string& file) {
  for (const char* marker : {"\xff\xc0", "\xff\xc2"}) {
    const size_t at = file.find(marker);
    if (at != std::string::npos) return at;
  }
  SLIP_CHECK(false);
  return 0;
}

std::string with_jpeg_size(const std::string& file, uint32_t width, uint32_t height) {
  return patched(file, frame_header(file) + 5, big16(height) + big16(width));
}

std::string jpeg_marker(const std::string& code, const std::string& content) {
  return "\xff" + code + big16(static_cast<uint32_t>(content.size() + 2)) + content;
}

/// The file with bytes put in behind its first marker.
std::string after_start(const std::string& file, const std::string& extra) {
  return file.substr(0, 2) + extra + file.substr(2);
}

void add_cut_jpegs(Table& table, const std::string& good) {
  table.add("jpeg-start-only", good.substr(0, 2) + "\xff", kBroken);
  table.add("jpeg-cut-in-tables", good.substr(0, 100), kBroken);
  table.add("jpeg-cut-before-frame", good.substr(0, frame_header(good)), kBroken);
  table.add("jpeg-cut-in-frame", good.substr(0, frame_header(good) + 6), kBroken);
  table.add("jpeg-cut-before-scan", good.substr(0, good.find("\xff\xda")), kBroken);
  table.add("jpeg-cut-in-scan", good.substr(0, (good.find("\xff\xda") + good.size()) / 2), Fault::kCutOff);
  const std::string steps = jpeg(picture(90, 70), {.progressive = true});
  table.add("jpeg-progressive-cut", steps.substr(0, steps.size() / 2), kBroken);
}

void add_lying_jpegs(Table& table, const std::string& good) {
  table.add("jpeg-65535-by-1", with_jpeg_size(good, 65535, 1), kBroken);  // the library's own limit is 65500
  table.add("jpeg-65500-by-1", with_jpeg_size(good, 65500, 1), Fault::kSideTooLong);
  table.add("jpeg-1-by-65500", with_jpeg_size(good, 1, 65500), Fault::kSideTooLong);
  table.add("jpeg-30000-by-30000", with_jpeg_size(good, 30000, 30000), Fault::kTooManyPixels);
  table.add("jpeg-9000-by-9000-of-nothing", with_jpeg_size(good, 9000, 9000), Fault::kCutOff);
  table.add("jpeg-progressive-6000-by-6000-of-nothing",
            with_jpeg_size(jpeg(picture(90, 70), {.progressive = true}), 6000, 6000), kEither);
  table.add("jpeg-no-width", with_jpeg_size(good, 0, 70), kBroken);
  table.add("jpeg-no-height", with_jpeg_size(good, 90, 0), kBroken);
  const size_t frame = frame_header(good);
  table.add("jpeg-12-bit", patched(good, frame + 4, "\x0c"), kBroken);
  table.add("jpeg-lossless", patched(good, frame + 1, "\xc3"), Fault::kUnsupportedForm);
  table.add("jpeg-hierarchical", patched(good, frame + 1, "\xc5"), Fault::kUnsupportedForm);
  table.add("jpeg-arithmetic", patched(good, frame + 1, "\xc9"), kEither);
  table.add("jpeg-two-components", patched(good, frame + 9, "\x02"), kBroken);
  table.add("jpeg-255-components", patched(good, frame + 9, "\xff"), kBroken);
  table.add("jpeg-sampling-of-zero", patched(good, frame + 11, "\0"s), kBroken);
  table.add("jpeg-sampling-of-fifteen", patched(good, frame + 11, "\xff"), kBroken);
  table.add("jpeg-table-that-is-not-there", patched(good, frame + 12, "\x03"), kBroken);
  table.add("jpeg-two-frames", good.substr(0, good.find("\xff\xda")) + good.substr(frame), kEither);
}

void add_bent_jpegs(Table& table, const std::string& good) {
  table.add("jpeg-marker-of-length-0", after_start(good, "\xff\xe1\0\0"s), kEither);
  table.add("jpeg-marker-past-the-end", after_start(good, "\xff\xe1\xff\xff"), kBroken);
  table.add("jpeg-counts-past-codes", after_start(good, jpeg_marker("\xc4", "\0"s + std::string(16, '\xff'))),
            kBroken);
  table.add("jpeg-noise-behind-start", "\xff\xd8\xff"s + noise(5000, 1), kBroken);
  table.add("jpeg-no-codes", good.substr(0, good.find("\xff\xc4")) + good.substr(good.find("\xff\xda")),
            kEither);
  const size_t scan = good.find("\xff\xda") + 14;
  table.add("jpeg-noise-for-samples", good.substr(0, scan) + noise(3000, 2) + "\xff\xd9", kEither);
  table.add("jpeg-ones-for-samples", good.substr(0, scan) + repeated("\xff\0"s, 2000) + "\xff\xd9", kEither);
  const std::string restarts = jpeg(picture(90, 70), {.restart_rows = 1});
  table.add("jpeg-restart-out-of-order", patched(restarts, restarts.find("\xff\xd1"), "\xff\xd5"), kEither);
  const std::string steps = jpeg(picture(90, 70), {.progressive = true});
  const size_t last = steps.rfind("\xff\xda");
  const std::string again = steps.substr(last, steps.size() - 2 - last);
  table.add("jpeg-200-scans", steps.substr(0, steps.size() - 2) + repeated(again, 200) + "\xff\xd9",
            Fault::kTooManyScans);
  table.add("jpeg-100-exif-blocks",
            after_start(good, repeated(jpeg_marker("\xe1", std::string(65000, 'E')), 100)), kSound);
  table.add("jpeg-exif-in-circles", after_start(good, jpeg_marker("\xe1", patched(exif(6), 10, "\0\0\0\0"s))),
            kSound);
  table.add("jpeg-and-zip", good + "PK\3\4" + noise(300, 3), kSound);
  table.add("jpeg-two-files", good + good, kSound);
}

// PNG.

std::string png_header(uint32_t width, uint32_t height, const std::string& rest = "\x08\x02\0\0\0"s) {
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big32(width) + big32(height) + rest);
}

/// A PNG whose size is a lie: its few samples are those of a small picture.
std::string lying_png(uint32_t width, uint32_t height, const std::string& rest = "\x08\x02\0\0\0"s) {
  return png_header(width, height, rest) + png_chunk("IDAT", zeros_deflated(500)) + png_chunk("IEND", "");
}

void add_cut_pngs(Table& table, const std::string& good) {
  table.add("png-signature-only", good.substr(0, 8), kBroken);
  table.add("png-cut-in-header", good.substr(0, 20), Fault::kCutOff);
  table.add("png-cut-behind-header", good.substr(0, 33), Fault::kCutOff);
  table.add("png-cut-in-samples", good.substr(0, good.size() / 2), Fault::kCutOff);
  table.add("png-cut-in-check-sum", good.substr(0, good.size() - 14), Fault::kCutOff);
  table.add("png-no-end", good.substr(0, good.size() - 12), Fault::kCutOff);
  table.add("png-no-samples", png_header(8, 8) + png_chunk("IEND", ""), kBroken);
  table.add("png-line-ends-changed", "\x89PNG\n\x1a\n" + good.substr(8), Fault::kUnknownKind);
}

void add_lying_pngs(Table& table) {
  table.add("png-65535-by-1", png(picture(65535, 1)), Fault::kSideTooLong);
  table.add("png-1-by-65535", png(picture(1, 65535)), Fault::kSideTooLong);
  table.add("png-30000-by-30000", lying_png(30000, 30000), Fault::kTooManyPixels);
  table.add("png-largest", lying_png(0x7fffffff, 0x7fffffff), Fault::kSideTooLong);
  table.add("png-more-than-largest", lying_png(0xffffffff, 1), kBroken);
  table.add("png-no-size", lying_png(0, 0), kBroken);
  table.add("png-9000-by-9000-of-nothing", lying_png(9000, 9000), kBroken);
  table.add("png-depth-3", lying_png(8, 8, "\x03\x02\0\0\0"s), kBroken);
  table.add("png-palette-of-16-bits", lying_png(8, 8, "\x10\x03\0\0\0"s), kBroken);
  table.add("png-colour-5", lying_png(8, 8, "\x08\x05\0\0\0"s), kBroken);
  table.add("png-compression-1", lying_png(8, 8, "\x08\x02\1\0\0"s), kBroken);
  table.add("png-filter-1", lying_png(8, 8, "\x08\x02\0\1\0"s), kBroken);
  table.add("png-interlace-2", lying_png(8, 8, "\x08\x02\0\0\2"s), kBroken);
}

void add_png_bombs(Table& table) {
  const std::string bomb = zeros_deflated(size_t{200} << 20);
  const std::string samples(192, 'a');
  table.add("png-bomb-of-samples", png_header(8, 8) + png_chunk("IDAT", bomb) + png_chunk("IEND", ""),
            kEither);
  table.add("png-bomb-in-profile", png(8, 8, samples, {}, png_chunk("iCCP", "a\0\0"s + bomb)), kSound);
  table.add("png-bomb-in-text", png(8, 8, samples, {}, png_chunk("zTXt", "a\0\0"s + bomb)), kSound);
  table.add("png-bomb-in-international-text",
            png(8, 8, samples, {}, png_chunk("iTXt", "a\0\1\0\0\0"s + bomb)), kSound);
  table.add("png-100000-texts", png(8, 8, samples, {}, repeated(png_chunk("tEXt", "a\0b"s), 100'000)),
            kSound);
  table.add("png-100000-unknown-chunks", png(8, 8, samples, {}, repeated(png_chunk("abCd", "x"), 100'000)),
            kEither);
  // 81 million pixels of one bit: large, but within the limits.
  const std::string rows = zeros_deflated(size_t{9000} * (1 + 9000 / 8));
  table.add("png-81-million-black-pixels",
            png_header(9000, 9000, "\x01\0\0\0\0"s) + png_chunk("IDAT", rows) + png_chunk("IEND", ""),
            kSound);
}

void add_bent_pngs(Table& table, const std::string& good) {
  table.add("png-header-sum-wrong", patched(good, 30, "abc"), kBroken);
  table.add("png-samples-sum-wrong", patched(good, good.size() - 15, "abc"), kBroken);
  table.add("png-samples-not-deflated", with_right_sums(patched(good, 41, "\xff\xff\xff\xff")), kBroken);
  table.add("png-samples-too-few",
            png_header(64, 64) + png_chunk("IDAT", zeros_deflated(700)) + png_chunk("IEND", ""), kBroken);
  table.add("png-filter-byte-9",
            png(1, 1, "abc").substr(0, 33) +
                png_chunk("IDAT",
                          "\x78\x01\x01\x04\0\xfb\xff\x09"s
                          "abc"
                          "\x06\x8f\x01\x30") +
                png_chunk("IEND", ""),
            kBroken);
  table.add("png-chunk-of-4-gigabytes",
            good.substr(0, 33) +
                "\xff\xff\xff\xff"
                "IDAT" +
                good.substr(41),
            kBroken);
  table.add("png-chunk-of-2-gigabytes",
            good.substr(0, 33) +
                "\x7f\xff\xff\xff"
                "tEXt" +
                good.substr(41),
            kBroken);
  table.add("png-end-before-samples", good.substr(0, 33) + png_chunk("IEND", "") + good.substr(33), kBroken);
  table.add("png-two-headers", good.substr(0, 33) + good.substr(8), kBroken);
  table.add("png-critical-chunk-unknown", good.substr(0, 33) + png_chunk("ABCD", "x") + good.substr(33),
            kBroken);
  table.add("png-palette-missing", png(2, 1, "\0\1"s, {3, 8}), kBroken);
  table.add("png-palette-empty", png(2, 1, "\0\1"s, {3, 8}, png_chunk("PLTE", "")), kBroken);
  table.add("png-palette-of-257", png(2, 1, "\0\1"s, {3, 8}, png_chunk("PLTE", std::string(771, 'a'))),
            kBroken);
  const std::string colours = png_chunk("PLTE", "abcdef");
  table.add("png-index-past-palette", png(2, 1, "\0\xff"s, {3, 8}, colours), kEither);
  table.add("png-more-alphas-than-colours",
            png(2, 1, "\0\1"s, {3, 8}, colours + png_chunk("tRNS", std::string(256, 'a'))), kEither);
  table.add("png-exif-of-noise", png(1, 1, "abc", {}, png_chunk("eXIf", "MM\0*"s + noise(400, 4))), kSound);
  table.add("png-and-html", good + "<html><script>alert(1)</script>", kSound);
  table.add("png-no-ending-but-zip", good.substr(0, good.size() - 12) + "PK\3\4" + noise(100, 5), kBroken);
}

// WebP.

std::string canvas(uint32_t flags, uint32_t width, uint32_t height) {
  return little32(flags) + little32(width - 1).substr(0, 3) + little32(height - 1).substr(0, 3);
}

std::string frame_chunk(uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                        const std::string& picture_file) {
  const auto three = [](uint32_t n) { return little32(n).substr(0, 3); };
  const auto [name, content] = webp_chunk(picture_file);
  return three(x / 2) + three(y / 2) + three(width - 1) + three(height - 1) + three(100) + '\0' + name +
         little32(static_cast<uint32_t>(content.size())) + content + std::string(content.size() % 2, '\0');
}

void add_webps(Table& table) {
  const std::string lossy = webp(picture(60, 40), WebpForm::kLossy);
  const std::string lossless = webp(picture(60, 40));
  const auto chunk = webp_chunk(lossless);
  table.add("webp-mark-only", lossy.substr(0, 12), Fault::kCutOff);
  table.add("webp-cut-in-header", lossy.substr(0, 24), kBroken);
  table.add("webp-lossy-cut", lossy.substr(0, lossy.size() / 2), Fault::kCutOff);
  table.add("webp-lossless-cut", lossless.substr(0, lossless.size() - 9), Fault::kCutOff);
  table.add("webp-says-it-is-longer", patched(lossy, 4, "\xff\xff\xff\x7f"), Fault::kCutOff);
  table.add("webp-says-it-is-empty", patched(lossy, 4, "\0\0\0\0"s), kBroken);
  table.add("webp-lossy-larger-than-its-data", patched(lossy, 26, "\xff\x3f\xff\x0f"), kBroken);
  table.add("webp-lossy-no-size", patched(lossy, 26, "\0\0\0\0"s), kBroken);
  table.add("webp-lossless-16384-by-16384", patched(lossless, 21, "\xff\xff\xff\x0f"), Fault::kTooManyPixels);
  table.add("webp-lossless-noise", lossless.substr(0, 25) + noise(lossless.size() - 25, 6), kEither);
  table.add("webp-lossless-ones", lossless.substr(0, 25) + std::string(lossless.size() - 25, '\xff'),
            kEither);
  table.add("webp-lossy-noise", lossy.substr(0, 30) + noise(lossy.size() - 30, 7), kEither);
  table.add("webp-lossy-no-start-code", patched(lossy, 23, "abc"), kBroken);
  table.add("webp-canvas-of-16-million", riff({{"VP8X", canvas(0, 1 << 24, 1)}, chunk}), kBroken);
  table.add("webp-canvas-of-30000", riff({{"VP8X", canvas(0, 30000, 30000)}, chunk}), kBroken);
  table.add("webp-canvas-of-another-size", riff({{"VP8X", canvas(0, 100, 100)}, chunk}), kBroken);
  table.add("webp-canvas-alone", riff({{"VP8X", canvas(0, 60, 40)}}), kBroken);
  table.add("webp-alpha-of-noise",
            riff({{"VP8X", canvas(16, 60, 40)}, {"ALPH", "\1" + noise(40, 8)}, webp_chunk(lossy)}), kEither);
  table.add("webp-exif-of-noise",
            riff({{"VP8X", canvas(8, 60, 40)}, chunk, {"EXIF", "II*\0"s + noise(99, 9)}}), kSound);
  const std::string animation(6, '\0');
  table.add("webp-animation-of-16-million",
            riff({{"VP8X", canvas(2, 1 << 24, 1)},
                  {"ANIM", animation},
                  {"ANMF", frame_chunk(0, 0, 60, 40, lossless)}}),
            Fault::kSideTooLong);
  table.add("webp-animation-of-30000",
            riff({{"VP8X", canvas(2, 30000, 30000)},
                  {"ANIM", animation},
                  {"ANMF", frame_chunk(0, 0, 60, 40, lossless)}}),
            Fault::kTooManyPixels);
  table.add("webp-animation-without-frames", riff({{"VP8X", canvas(2, 60, 40)}, {"ANIM", animation}}),
            kBroken);
  table.add("webp-frame-outside",
            riff({{"VP8X", canvas(2, 60, 40)},
                  {"ANIM", animation},
                  {"ANMF", frame_chunk(50, 30, 60, 40, lossless)}}),
            kBroken);
  table.add(
      "webp-frame-of-another-size",
      riff({{"VP8X", canvas(2, 60, 40)}, {"ANIM", animation}, {"ANMF", frame_chunk(0, 0, 30, 20, lossless)}}),
      kEither);
  std::vector<std::pair<std::string, std::string>> many{{"VP8X", canvas(2, 60, 40)}, {"ANIM", animation}};
  for (int i = 0; i < 2000; ++i) many.emplace_back("ANMF", frame_chunk(0, 0, 60, 40, lossless));
  table.add("webp-2000-frames", riff(many), kSound);
  table.add("webp-odd-chunk", riff({{"VP8X", canvas(0, 60, 40)}, {"JUNK", "abc"}, chunk}), kEither);
}

// GIF.

void add_gifs(Table& table) {
  const std::string indices(64, '\1');
  const std::string good = gif(8, 8, indices);
  const size_t frame = good.find(',', 13 + 48);
  table.add("gif-mark-only", good.substr(0, 6), kBroken);
  table.add("gif-cut-in-palette", good.substr(0, 40), kBroken);
  table.add("gif-cut-behind-palette", good.substr(0, 13 + 48), kBroken);
  table.add("gif-cut-in-frame-header", good.substr(0, frame + 5), kBroken);
  table.add("gif-cut-in-samples", good.substr(0, frame + 14), kBroken);
  table.add("gif-canvas-of-65535", patched(good, 6, "\xff\xff\xff\xff"), Fault::kSideTooLong);
  table.add("gif-canvas-of-30000", patched(good, 6, little16(30000) + little16(30000)),
            Fault::kTooManyPixels);
  table.add("gif-no-canvas", patched(good, 6, "\0\0\0\0"s), kSound);
  table.add("gif-frame-of-65535", patched(good, frame + 5, "\xff\xff\xff\xff"), Fault::kSideTooLong);
  table.add("gif-frame-of-nothing", patched(good, frame + 5, "\0\0\0\0"s), kBroken);
  table.add("gif-frame-beside-the-canvas", patched(good, frame + 1, "\xff\x7f\xff\x7f"), kSound);
  table.add("gif-frame-larger-than-data", patched(good, frame + 5, little16(2000) + little16(2000)), kBroken);
  table.add("gif-no-palette", patched(good.substr(0, 13) + good.substr(13 + 48), 10, "\x70"), kBroken);
  table.add("gif-code-size-13", patched(good, frame + 10, "\x0d"), kBroken);
  table.add("gif-code-size-0", patched(good, frame + 10, "\0"s), kEither);
  table.add("gif-noise-for-samples", good.substr(0, frame + 11) + "\xff" + noise(255, 10) + "\0;"s, kEither);
  table.add("gif-no-frame", good.substr(0, 13 + 48) + ";", kBroken);
  table.add("gif-extensions-only",
            good.substr(0, 13 + 48) + repeated("!\xfe\x01"
                                               "a\0"s,
                                               100'000),
            kBroken);
  table.add("gif-extension-without-end",
            good.substr(0, 13 + 48) + "!\xfe" + repeated("\xff" + std::string(255, 'a'), 500), kBroken);
  table.add("gif-10000-frames", gif(1, 1, "\1", {.frames = 10'000}), kSound);
  table.add("gif-and-jar", good + "PK\3\4" + noise(50, 11), kSound);
  table.add("gif-and-script", "GIF89a/*" + noise(40, 12) + "*/=1;alert(1)", kBroken);
}

// What is no picture of ours.

void add_other_kinds(Table& table) {
  const Fault kind = Fault::kUnsupportedKind;
  table.add("svg-with-entity",
            "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><svg>&b;</svg>",
            kind);
  table.add("html-error-page", "<!DOCTYPE html><html><title>404 Not Found</title>", kind);
  table.add("pdf", "%PDF-1.7\n1 0 obj\n", kind);
  table.add("tiff", "II*\0\x08\0\0\0"s, kind);
  table.add("bmp", "BM" + little32(1000) + std::string(4, '\0') + little32(54) + noise(900, 13), kind);
  table.add("icon", "\0\0\1\0\1\0\x10\x10"s, kind);
  table.add("heic",
            "\0\0\0\x18"
            "ftypheic\0\0\0\0mif1heic"s,
            kind);
  table.add("avif",
            "\0\0\0\x18"
            "ftypavif\0\0\0\0mif1avif"s,
            kind);
  table.add("jpeg-2000", "\0\0\0\x0cjP  \r\n\x87\n"s + noise(200, 14), kind);
  table.add("jpeg-xl", "\xff\x0a" + noise(200, 15), kind);
  table.add("photoshop", "8BPS\0\1"s, kind);
  table.add("mp4",
            "\0\0\0\x18"
            "ftypisom\0\0\2\0"s,
            kind);
  table.add("webm", "\x1a\x45\xdf\xa3" + noise(100, 16), kind);
  table.add("avi", "RIFF" + little32(900) + "AVI LIST", kind);
  table.add("wav", "RIFF" + little32(900) + "WAVEfmt ", kind);
  table.add("mp3", "ID3\4\0\0"s, kind);
  table.add("playlist-of-a-file", "#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", kind);
  table.add("playlist-of-an-address", "#EXTM3U\nhttp://169.254.169.254/latest/meta-data/\n", kind);
  table.add("ffconcat-of-a-file", "ffconcat version 1.0\nfile /etc/passwd\n", kind);
  table.add("zip", "PK\3\4" + noise(100, 17), kind);
  table.add("gzip-bomb", "\x1f\x8b\x08\0\0\0\0\0"s + zeros_deflated(10 << 20), kind);
  table.add("program",
            "\x7f"
            "ELF\2\1\1"s +
                noise(500, 18),
            Fault::kUnknownKind);
  table.add("imagemagick-script", "push graphic-context\nfill 'url(https://example.com/|ls)'\n",
            Fault::kUnknownKind);
  table.add("postscript", "%!PS-Adobe-3.0\n(/etc/passwd) (r) file\n", Fault::kUnknownKind);
  table.add("text", "a picture of a cat", Fault::kUnknownKind);
  table.add("base64-not-decoded", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", Fault::kUnknownKind);
  table.add("zeros", std::string(1 << 20, '\0'), Fault::kUnknownKind);
  table.add("noise", "x" + noise(1 << 16, 19), Fault::kUnknownKind);
  table.add("one-byte", "\xff", Fault::kUnknownKind);
  table.add("empty", "", Fault::kEmpty);
  table.add("21-mebibytes", png(picture(4, 4)) + std::string(21 << 20, 'x'), Fault::kTooManyBytes);
}

}  // namespace

std::vector<Hostile> hostile_files() {
  Table table;
  const std::string jpeg_file = jpeg(picture(90, 70));
  add_cut_jpegs(table, jpeg_file);
  add_lying_jpegs(table, jpeg_file);
  add_bent_jpegs(table, jpeg_file);
  const std::string png_file = png(picture(30, 20));
  add_cut_pngs(table, png_file);
  add_lying_pngs(table);
  add_png_bombs(table);
  add_bent_pngs(table, png_file);
  add_webps(table);
  add_gifs(table);
  add_other_kinds(table);
  return std::move(table.files);
}

}  // namespace slip::media::test
