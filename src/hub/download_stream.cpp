#include "hub/download_stream.h"

#include <algorithm>

#include "hub/listing.h"

namespace slip::hub {
namespace {

constexpr size_t kLongestErrorBody = 16384;

}  // namespace

uint64_t unmarked_of(const DownloadJobs& jobs) {
  uint64_t bytes = 0;
  for (const auto& job : jobs) bytes += job->unmarked;
  return bytes;
}

ReplyFault DownloadStream::check_head() const {
  const std::string* length = reply.find("content-length");
  const std::string* encoding = reply.find("content-encoding");
  const bool encoded = encoding != nullptr && *encoding != "identity";
  // What the reply says its body has; without a word, or where it is compressed, the body itself tells.
  const auto announces = [&](uint64_t wanted) {
    return length == nullptr || encoded || parse_number(*length).value_or(wanted + 1) == wanted;
  };
  if (reply.status == 206) {
    const std::string* text = reply.find("content-range");
    const auto range = text == nullptr ? std::nullopt : parse_content_range(*text);
    const bool right = range && range->begin == position && range->end == piece.end &&
                       range->total == job->size() && !encoded;
    if (!right) return ReplyFault::kWrongRange;
    return announces(piece.end - position) ? ReplyFault::kNone : ReplyFault::kWrongSize;
  }
  if (reply.status == 200) {
    if (asked_range) return ReplyFault::kNoRanges;
    return announces(job->size()) ? ReplyFault::kNone : ReplyFault::kWrongSize;
  }
  return ReplyFault::kStatus;
}

bool DownloadStream::on_head(const net::Reply& head) {
  reply = head;
  fault = check_head();
  if (fault == ReplyFault::kNone) job->denials = 0;
  return fault == ReplyFault::kNone || fault == ReplyFault::kStatus;
}

net::Flow DownloadStream::on_body(std::span<const std::byte> bytes) {
  if (fault == ReplyFault::kStatus) {
    const size_t room = kLongestErrorBody - error_body.size();
    error_body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
    return error_body.size() < kLongestErrorBody ? net::Flow::kMore : net::Flow::kStop;
  }
  if (bytes.size() > piece.end - position) {
    fault = ReplyFault::kWrongSize;
    return net::Flow::kStop;
  }
  if (unmarked_of(*all_jobs) + bytes.size() > most_unmarked) {
    paused = true;
    return net::Flow::kPause;
  }
  job->write(position, bytes);
  const uint64_t from = position;
  position += bytes.size();
  sample_bytes += bytes.size();
  job->unmarked += bytes.size();
  *fetched += bytes.size();
  job->received(from, position);
  return net::Flow::kMore;
}

}  // namespace slip::hub
