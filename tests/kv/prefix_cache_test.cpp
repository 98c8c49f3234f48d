#include "kv/prefix_cache.h"

#include "kv/prefix_bench.h"

namespace slip::kv {
namespace {

using model::LayerKind;

Match match_of(const PrefixBench& bench, const std::vector<int>& tokens, int most, Salt salt = {}) {
  return bench.prefixes->match({.salt = salt, .content = {.tokens = tokens}, .most = most});
}
/// A sequence that was read to its end and is over.
void leave(PrefixBench& bench, const std::vector<int>& tokens, std::vector<MediaSpan> media = {},
           Salt salt = {}) {
  PrefixSequence sequence(bench, tokens, std::move(media), salt);
  sequence.begin();
  ASSERT_TRUE(sequence.read_all());
  sequence.end();
}

TEST(PrefixCache, restores_whole_units_and_leaves_the_last_token_to_be_computed) {
  PrefixBench bench(100);
  const std::vector<int> tokens = random_tokens(1, 1000);
  PrefixSequence first(bench, tokens);
  const Match nothing = first.begin();
  EXPECT_EQ(nothing.positions, 0);
  EXPECT_EQ(nothing.end, MatchEnd::kNothing);
  ASSERT_TRUE(first.read_all());

  PrefixSequence again(bench, tokens);
  const Match all = again.begin();
  EXPECT_EQ(all.matched, 960);
  EXPECT_EQ(all.positions, 960);
  EXPECT_EQ(all.end, MatchEnd::kWholePrompt);
  ASSERT_TRUE(again.read_all());
  EXPECT_EQ(match_of(bench, tokens, 960).positions, 960);
  EXPECT_EQ(match_of(bench, tokens, 959).positions, 896);
  EXPECT_EQ(match_of(bench, tokens, 63).positions, 0);
}

TEST(PrefixCache, shares_whole_pages_and_copies_the_last) {
  PrefixBench bench(100);
  const std::vector<int> common = random_tokens(1, 700);
  PrefixSequence first(bench, joined(common, random_tokens(2, 200)));
  first.begin();
  ASSERT_TRUE(first.read_all());
  PrefixSequence second(bench, joined(common, random_tokens(3, 200)));
  const Match match = second.begin();
  EXPECT_EQ(match.positions, 640);
  EXPECT_EQ(match.end, MatchEnd::kTokensDiffer);
  EXPECT_EQ(second.cache().page(LayerKind::kFull, 1), first.cache().page(LayerKind::kFull, 1));
  EXPECT_NE(second.cache().page(LayerKind::kFull, 2), first.cache().page(LayerKind::kFull, 2));
  // They write on in pages of their own, and both stay what they are.
  ASSERT_TRUE(second.read_all());
  first.check();
  EXPECT_EQ(match_of(bench, second.tokens(), 899).positions, 896);
  EXPECT_EQ(match_of(bench, first.tokens(), 899).positions, 896);
}

TEST(PrefixCache, goes_on_within_a_page_that_came_from_another_branch) {
  PrefixBench bench(100);
  const std::vector<int> common = random_tokens(1, 130);  // two units of the first page
  leave(bench, joined(common, random_tokens(2, 400)));
  leave(bench, joined(common, random_tokens(3, 400)));
  PrefixSequence third(bench, joined(common, random_tokens(3, 400)));
  EXPECT_EQ(third.begin().positions, 512);
}

TEST(PrefixCache, two_salts_share_nothing) {
  PrefixBench bench(100);
  const std::vector<int> tokens = random_tokens(1, 1000);
  const Salt one = salt_of("one"), two = salt_of("two");
  leave(bench, tokens, {}, one);
  EXPECT_EQ(match_of(bench, tokens, 999, two).matched, 0);
  EXPECT_EQ(match_of(bench, tokens, 999).matched, 0);
  EXPECT_EQ(match_of(bench, tokens, 999, one).positions, 960);
}

TEST(PrefixCache, a_collision_of_keys_gives_nothing_away) {
  PrefixBench bench(100, 0);  // all keys are equal
  std::vector<std::vector<int>> prompts;
  for (uint64_t seed = 1; seed <= 4; ++seed) prompts.push_back(random_tokens(seed, 500));
  prompts.push_back(joined(random_tokens(1, 200), random_tokens(9, 300)));
  for (const auto& prompt : prompts) leave(bench, prompt, {}, salt_of("one"));
  for (const auto& prompt : prompts) {
    EXPECT_EQ(match_of(bench, prompt, 499, salt_of("one")).positions, 448);
    EXPECT_EQ(match_of(bench, prompt, 499, salt_of("two")).positions, 0);
  }
  // The same unit after other ones is another unit.
  EXPECT_EQ(match_of(bench, joined(random_tokens(2, 64), random_tokens(1, 436)), 499, salt_of("one")).matched,
            64);
  bench.prefixes->clear();
  EXPECT_EQ(bench.pool.bytes_live(), 0u);
}

TEST(PrefixCache, media_are_told_apart_by_what_was_encoded) {
  PrefixBench bench(100);
  const std::vector<int> tokens(600, 7);
  const auto picture = [](int key, int first = 100, bool both_ways = false) {
    MediaSpan span{.first = first, .rows = 200, .both_ways = both_ways, .key = {}};
    span.key[0] = static_cast<std::byte>(key);
    return std::vector<MediaSpan>{span};
  };
  const auto positions = [&](const std::vector<MediaSpan>& media) {
    return bench.prefixes->match({.salt = {}, .content = {.tokens = tokens, .media = media}, .most = 599})
        .positions;
  };
  leave(bench, tokens, picture(1));
  EXPECT_EQ(positions(picture(1)), 576);
  EXPECT_EQ(positions(picture(2)), 64);  // the same placeholders, another picture
  EXPECT_EQ(positions(picture(1, 101)), 64);
  EXPECT_EQ(positions({}), 64);
}

TEST(PrefixCache, a_hit_inside_an_image_moves_back_to_its_first_row) {
  PrefixBench bench(100);
  std::vector<MediaSpan> media(2);
  media[0] = {.first = 150, .rows = 100, .both_ways = true, .key = {}};
  media[1] = {.first = 300, .rows = 280, .both_ways = true, .key = {std::byte{1}}};
  const std::vector<int> tokens = random_tokens(1, 700);
  PrefixSequence first(bench, tokens, media);
  first.begin();
  ASSERT_TRUE(first.read_all());
  const auto most = [&](int positions) {
    return bench.prefixes->match({.salt = {}, .content = first.content(), .most = positions});
  };
  EXPECT_EQ(most(699).positions, 640);
  EXPECT_EQ(most(580).positions, 256);  // 576 lies inside the second, 256 behind the first
  EXPECT_EQ(most(580).end, MatchEnd::kInsideImage);
  EXPECT_EQ(most(200).positions, 128);
  EXPECT_EQ(most(140).positions, 128);
  EXPECT_EQ(most(140).end, MatchEnd::kWholePrompt);
  media[1].both_ways = false;
  EXPECT_EQ(bench.prefixes->match({.salt = {}, .content = {.tokens = tokens, .media = media}, .most = 580})
                .positions,
            576);
}

TEST(PrefixCache, says_that_the_window_is_gone_and_lets_it_come_back) {
  PrefixBench bench(100);
  const std::vector<int> tokens = random_tokens(1, 2000);
  leave(bench, tokens);
  // Pages of sliding layers go first, the oldest of them first.
  const size_t full = bench.pool.pages_in_use(bench.classes[0].full);
  bench.pool.set_budget(bench.pool.bytes_in_use());
  std::vector<Page*> others;
  while (bench.pool.pages_in_use(bench.classes[0].sliding) - others.size() > 3) {
    others.push_back(bench.pool.allocate(bench.classes[0].sliding));
    ASSERT_NE(others.back(), nullptr);
  }
  EXPECT_EQ(bench.pool.pages_in_use(bench.classes[0].full), full);
  const Match early = match_of(bench, tokens, 1000);
  EXPECT_EQ(early.matched, 960);
  EXPECT_EQ(early.positions, 0);
  EXPECT_EQ(early.end, MatchEnd::kSlidingGone);
  EXPECT_EQ(match_of(bench, tokens, 1999).positions, 1984);
  for (Page* page : others) bench.pool.unref(page);

  // Whoever computes them anew gives them back to the units that are there.
  PrefixSequence again(bench, joined(random_tokens(1, 1000), random_tokens(2, 10)));
  EXPECT_EQ(again.begin().positions, 0);
  const size_t nodes = bench.prefixes->counts().nodes;
  ASSERT_TRUE(again.read_all());
  EXPECT_EQ(bench.prefixes->counts().nodes, nodes);
  EXPECT_EQ(match_of(bench, tokens, 1000).positions, 960);
}

TEST(PrefixCache, keeps_windows_at_boundaries_and_one_unit_before_with_preference) {
  PrefixBench bench(200);
  const std::vector<int> tokens = random_tokens(1, 4000);
  PrefixSequence sequence(bench, tokens);
  sequence.begin();
  bench.prefixes->mark_boundary(sequence.chain, 1500);  // ahead of what is there
  ASSERT_TRUE(sequence.read(3000));
  bench.prefixes->mark_boundary(sequence.chain, 2600);  // behind
  ASSERT_TRUE(sequence.read_all());
  sequence.end();
  bench.pool.set_budget(bench.pool.bytes_in_use());
  const auto most = [&](int positions) { return match_of(bench, tokens, positions).positions; };
  EXPECT_EQ(most(1000), 960);
  // Windows of 200 positions and a unit take two pages each, or three.
  std::vector<Page*> others;
  while (bench.prefixes->counts().evicted_units == 0 && others.size() < 10)
    others.push_back(bench.pool.allocate(bench.classes[0].sliding));
  EXPECT_EQ(others.size(), 10u);
  EXPECT_EQ(most(1000), 0);
  EXPECT_EQ(most(1500), 1472);
  EXPECT_EQ(most(1471), 1408);
  EXPECT_EQ(most(1279), 0);
  EXPECT_EQ(most(2600), 2560);
  EXPECT_EQ(most(2559), 2496);
  for (Page* page : others) bench.pool.unref(page);
}

TEST(PrefixCache, then_gives_up_what_was_used_longest_ago) {
  PrefixBench bench(64);
  std::vector<std::vector<int>> prompts;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    prompts.push_back(random_tokens(seed, 1024));
    PrefixSequence sequence(bench, prompts.back());
    sequence.begin();
    bench.prefixes->mark_boundary(sequence.chain, 1024);
    ASSERT_TRUE(sequence.read_all());
    sequence.end();
  }
  {  // the first is used once more
    PrefixSequence sequence(bench, prompts[0]);
    EXPECT_EQ(sequence.begin().positions, 960);
    sequence.end();
  }
  bench.pool.set_budget(bench.pool.bytes_in_use());
  std::vector<Page*> others;
  const auto whole = [&](size_t prompt) { return match_of(bench, prompts[prompt], 1023).positions == 960; };
  while (whole(1)) others.push_back(bench.pool.allocate(bench.classes[0].full));
  EXPECT_TRUE(whole(2) && whole(3) && whole(0));
  while (whole(2)) others.push_back(bench.pool.allocate(bench.classes[0].full));
  EXPECT_TRUE(whole(3) && whole(0));
  while (whole(3)) others.push_back(bench.pool.allocate(bench.classes[0].full));
  EXPECT_TRUE(whole(0));
  while (whole(0)) others.push_back(bench.pool.allocate(bench.classes[0].full));
  while (Page* page = bench.pool.allocate(bench.classes[0].full)) others.push_back(page);
  EXPECT_EQ(bench.prefixes->counts().nodes, 0u);
  EXPECT_EQ(bench.pool.bytes_held_only(), 0u);
  for (Page* page : others) bench.pool.unref(page);
}

TEST(PrefixCache, a_slab_is_emptied_without_throwing_away_everything) {
  // Pages of sliding layers are as large as 32 of full layers, and no window is left to give up.
  model::Config config = two_layers(64);
  config.layers[1].head_dim = 32;
  PrefixBench bench({config});
  const size_t each = bench.pool.slab_bytes() / bench.layouts[0]->full_page_bytes();
  ASSERT_EQ(each, 32u);
  std::vector<std::vector<int>> prompts;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    prompts.push_back(random_tokens(seed, 16 * kPagePositions));
    leave(bench, prompts.back());
  }
  bench.pool.set_budget(bench.pool.bytes_in_use());
  std::vector<Page*> others;
  while (bench.pool.pages_in_use(bench.classes[0].sliding) > others.size())
    others.push_back(bench.pool.allocate(bench.classes[0].sliding));
  EXPECT_EQ(bench.prefixes->counts().evicted_units, 0);
  const size_t nodes = bench.prefixes->counts().nodes;
  others.push_back(bench.pool.allocate(bench.classes[0].sliding));
  ASSERT_NE(others.back(), nullptr);
  // Two prompts of sixteen pages fill a slab: the oldest two go.
  EXPECT_EQ(bench.prefixes->counts().nodes, nodes - 2 * 64);
  EXPECT_EQ(match_of(bench, prompts[1], 4095).matched, 0);
  EXPECT_EQ(match_of(bench, prompts[2], 4095).matched, 4032);
  for (Page* page : others) bench.pool.unref(page);
}

TEST(PrefixCache, a_hit_without_room_for_a_copy_takes_whole_pages) {
  PrefixBench bench(16);
  const std::vector<int> tokens = random_tokens(1, 600);
  PrefixSequence first(bench, tokens);
  first.begin();
  ASSERT_TRUE(first.read_all());
  bench.pool.set_budget(bench.pool.bytes_in_use());
  std::vector<Page*> others;
  for (const PageClass kind : {bench.classes[0].full, bench.classes[0].sliding}) {
    while (Page* page = bench.pool.allocate(kind)) others.push_back(page);
  }
  PrefixSequence second(bench, tokens);
  // Pages of the window before 512 are gone with the room: the first sequence is past it.
  const Match match = second.begin();
  EXPECT_EQ(match.positions % kPagePositions, 0);
  EXPECT_EQ(second.cache().length(), match.positions);
  for (Page* page : others) bench.pool.unref(page);
}

TEST(PrefixCache, a_draft_networks_cache_is_restored_with_the_models) {
  PrefixBench bench({two_layers(100), two_layers(300)});
  const std::vector<int> tokens = random_tokens(1, 1000);
  PrefixSequence first(bench, tokens);
  first.begin();
  ASSERT_TRUE(first.read_all());
  first.end();
  PrefixSequence second(bench, tokens);
  EXPECT_EQ(second.begin().positions, 960);
  ASSERT_TRUE(second.read_all());
}

TEST(PrefixCache, only_units_that_all_caches_hold_are_registered) {
  PrefixBench bench({two_layers(100), two_layers(100)});
  const std::vector<int> tokens = random_tokens(1, 500);
  PrefixSequence sequence(bench, tokens);
  sequence.begin();
  sequence.cache(0).stage(300);
  sequence.cache(0).commit(300);
  sequence.cache(1).stage(200);
  sequence.cache(1).commit(200);
  bench.prefixes->extend(sequence.chain, sequence.content(), sequence.caches(), 300);
  EXPECT_EQ(match_of(bench, tokens, 499).matched, 192);
}

TEST(PrefixCache, units_without_a_draft_networks_pages_serve_those_who_want_none) {
  PrefixBench bench({two_layers(100), two_layers(100)});
  const std::vector<int> tokens = random_tokens(1, 500);
  PrefixSequence sequence(bench, tokens);
  Cache* plain[] = {&sequence.cache(0), nullptr};
  PrefixCache::Chain chain;
  const PrefixQuery query{.salt = {}, .content = sequence.content(), .most = 499};
  bench.prefixes->adopt(chain, query, plain);
  for (int i = 0; i < 2; ++i) {
    plain[0]->stage(200);
    plain[0]->commit(200);
    bench.prefixes->extend(chain, sequence.content(), plain, 200 * (i + 1));
  }
  PrefixQuery without = query;
  without.caches = 1;
  EXPECT_EQ(bench.prefixes->match(without).positions, 384);
  EXPECT_EQ(bench.prefixes->match(query).positions, 0);
  EXPECT_EQ(bench.prefixes->match(query).end, MatchEnd::kDraftGone);
  chain.end();
  // Computed with it once, the units have both.
  PrefixSequence drafted(bench, tokens);
  EXPECT_EQ(drafted.begin().positions, 0);
  ASSERT_TRUE(drafted.read_all());
  drafted.end();
  EXPECT_EQ(bench.prefixes->match(query).positions, 448);
}

TEST(PrefixCache, windows_inside_a_long_step_are_kept_as_well) {
  PrefixBench bench(64);
  const std::vector<int> tokens = random_tokens(1, 2048);
  PrefixSequence sequence(bench, tokens);
  sequence.begin();
  ASSERT_TRUE(sequence.read_all(512));
  EXPECT_EQ(sequence.cache().first_page(LayerKind::kSliding), 7);
  EXPECT_EQ(match_of(bench, tokens, 700).positions, 640);
}

TEST(PrefixCache, of_two_pages_with_the_same_content_one_comes_free) {
  PrefixBench bench(100);
  const std::vector<int> tokens = random_tokens(1, 1024);
  leave(bench, tokens);
  // Windows go, so that the next sequence computes everything anew.
  bench.pool.set_budget(bench.pool.bytes_in_use());
  std::vector<Page*> others;
  while (bench.pool.pages_in_use(bench.classes[0].sliding) > others.size())
    others.push_back(bench.pool.allocate(bench.classes[0].sliding));
  for (Page* page : others) bench.pool.unref(page);
  bench.pool.set_budget(PagePool::kUnlimited);
  EXPECT_EQ(bench.pool.pages_in_use(bench.classes[0].full), 4u);
  PrefixSequence again(bench, tokens);
  EXPECT_EQ(again.begin().positions, 0);
  ASSERT_TRUE(again.read_all());
  EXPECT_EQ(bench.pool.pages_in_use(bench.classes[0].full), 4u);
  // A page that another running sequence uses is not replaced.
  PrefixSequence third(bench, tokens);
  Cache* caches[] = {&third.cache()};
  bench.prefixes->adopt(third.chain, {.salt = {}, .content = third.content(), .most = 0}, caches);
  ASSERT_TRUE(third.read_all());
  EXPECT_EQ(bench.pool.pages_in_use(bench.classes[0].full), 8u);
  again.check();
}

TEST(PrefixCache, a_sequence_that_may_take_nothing_gives_its_pages_back_by_itself) {
  PrefixBench bench(64);
  const std::vector<int> tokens = random_tokens(1, 2048);
  leave(bench, tokens);
  Cache cache(*bench.layouts[0], bench.pool, bench.classes[0]);
  Cache* caches[] = {&cache};
  PrefixCache::Chain chain;
  EXPECT_EQ(
      bench.prefixes->adopt(chain, {.salt = {}, .content = {.tokens = tokens}, .most = 0}, caches).positions,
      0);
  while (cache.length() < 2048) {
    cache.stage(512);
    cache.commit(512);
  }
  EXPECT_EQ(cache.first_page(LayerKind::kSliding), 7);
}

TEST(PrefixCache, counts_what_was_asked_found_and_restored) {
  PrefixBench bench(100);
  leave(bench, random_tokens(1, 1000));
  leave(bench, joined(random_tokens(1, 500), random_tokens(2, 500)));
  const PrefixCache::Counts counts = bench.prefixes->counts();
  EXPECT_EQ(counts.asked, 2000);
  EXPECT_EQ(counts.matched, 448);
  EXPECT_EQ(counts.restored, 448);
  EXPECT_EQ(counts.nodes, 15u + 8u);
  EXPECT_EQ(counts.bytes_held_only, bench.pool.bytes_live());
  bench.prefixes->clear();
  EXPECT_EQ(bench.prefixes->counts().nodes, 0u);
  EXPECT_EQ(bench.pool.bytes_in_use(), 0u);
}

TEST(PrefixCache, what_a_running_sequence_uses_is_not_given_up) {
  PrefixBench bench(100);
  const std::vector<int> tokens = random_tokens(1, 1000);
  PrefixSequence running(bench, tokens);
  running.begin();
  ASSERT_TRUE(running.read_all());
  bench.pool.set_budget(bench.pool.bytes_in_use());
  std::vector<Page*> others;
  for (const PageClass kind : {bench.classes[0].full, bench.classes[0].sliding}) {
    while (Page* page = bench.pool.allocate(kind)) others.push_back(page);
  }
  running.check();
  EXPECT_EQ(match_of(bench, tokens, 999).matched, 960);
  for (Page* page : others) bench.pool.unref(page);
  running.append(random_tokens(5, 300));
  ASSERT_TRUE(running.read_all(16));
}

}  // namespace
}  // namespace slip::kv
