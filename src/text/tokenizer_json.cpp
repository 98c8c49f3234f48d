#include "text/tokenizer_json.h"

#include <climits>
#include <utility>

#include "base/error.h"

namespace slip::text {
namespace {

using nlohmann::json;

// Gemma's file has about 50,000 values outside vocab and merges, nested 4 deep.
constexpr size_t kMaxValues = 2'000'000;
constexpr size_t kMaxDepth = 64;

// Takes the events of nlohmann's SAX parser. Where an event belongs is told by the place it happens in; the
// tree of everything else grows at the end of a stack of open arrays and objects.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}
  TokenizerJson take() { return std::move(result_); }

  bool null() { return value(nullptr); }
  bool boolean(bool v) { return value(v); }
  bool number_integer(int64_t v) { return place_ == Place::kVocab ? bad_id(v) : value(v); }
  bool number_unsigned(uint64_t v) {
    if (place_ != Place::kVocab) return value(v);
    if (v > INT_MAX) return bad_id(v);
    result_.pieces.add(key_);
    result_.ids.push_back(static_cast<int>(v));
    return true;
  }
  bool number_float(double v, const std::string&) { return value(v); }
  bool binary(json::binary_t&) { return false; }  // only in binary formats, which are not asked for

  bool string(std::string& v) {
    if (place_ == Place::kMerges) return merge_in_one(v);
    if (place_ != Place::kPair) return value(std::move(v));
    if (++pair_size_ > 2) return bad_merge("has more than two parts");
    result_.merges.add(v);
    return true;
  }
  bool key(std::string& v) {
    key_.swap(v);
    return true;
  }

  bool start_object(size_t) {
    if (in_model("vocab")) return enter(Place::kVocab);
    return open(json::object());
  }
  bool end_object() { return place_ == Place::kVocab ? enter(Place::kElsewhere) : close(); }

  bool start_array(size_t) {
    if (place_ == Place::kMerges) {
      pair_size_ = 0;
      return enter(Place::kPair);
    }
    if (in_model("merges")) return enter(Place::kMerges);
    return open(json::array());
  }
  bool end_array() {
    if (place_ == Place::kPair) {
      return pair_size_ == 2 ? enter(Place::kMerges) : bad_merge("has fewer than two parts");
    }
    return place_ == Place::kMerges ? enter(Place::kElsewhere) : close();
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) {
    fail_file("{}: is not valid JSON at byte {}; download it again", name_, position);
  }

 private:
  enum class Place { kElsewhere, kVocab, kMerges, kPair };

  bool enter(Place place) {
    place_ = place;
    return true;
  }

  bool in_model(const char* key) const {
    return place_ == Place::kElsewhere && stack_.size() == 2 && stack_[0]->is_object() &&
           stack_[1]->is_object() && model_is_open_ && key_ == key;
  }

  template <typename Id>
  bool bad_id(Id id) {
    fail_file("{}: token {} has the id {}, which is out of range", name_, in_quotes(key_), id);
  }

  bool bad_merge(const char* fault) {
    fail_file("{}: merge {} {}; a merge is two tokens", name_, result_.merges.size() / 2, fault);
  }

  bool merge_in_one(const std::string& text) {
    const size_t space = text.find(' ');
    if (space == std::string::npos) return bad_merge("has fewer than two parts");
    if (text.find(' ', space + 1) != std::string::npos) return bad_merge("has more than two parts");
    result_.merges.add(std::string_view(text).substr(0, space));
    result_.merges.add(std::string_view(text).substr(space + 1));
    return true;
  }

  json* put(json v) {
    if (place_ == Place::kVocab) fail_file("{}: token {} has no number as its id", name_, in_quotes(key_));
    if (place_ != Place::kElsewhere) bad_merge("is no list of texts");
    if (++values_ > kMaxValues) fail_file("{}: holds more values than any tokenizer has", name_);
    if (stack_.empty()) return &(result_.rest = std::move(v));
    if (stack_.back()->is_array()) return &stack_.back()->emplace_back(std::move(v));
    return &((*stack_.back())[key_] = std::move(v));
  }
  bool value(json v) {
    put(std::move(v));
    return true;
  }
  bool open(json v) {
    if (stack_.size() == 1) model_is_open_ = key_ == "model";
    stack_.push_back(put(std::move(v)));
    if (stack_.size() > kMaxDepth) fail_file("{}: is nested more than {} deep", name_, kMaxDepth);
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  const std::string& name_;
  TokenizerJson result_;
  std::vector<json*> stack_;
  std::string key_;
  Place place_ = Place::kElsewhere;
  bool model_is_open_ = false;
  int pair_size_ = 0;
  size_t values_ = 0;
};

}  // namespace

TokenizerJson read_tokenizer_json(std::string_view text, const std::string& name) {
  Reader reader(name);
  json::sax_parse(text.data(), text.data() + text.size(), &reader);
  return reader.take();
}

}  // namespace slip::text
