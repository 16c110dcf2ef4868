#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"

namespace dgx::jobs {

/// A story: the content of signed statements, in sentences and tables for somebody who has never heard of
/// dgx, as plain data. Everything is derived where a story is made (dispute_story.h, report.h); print_text()
/// and print_page() only lay it out, so that the two cannot say different things.
///
/// Texts are free: they may hold whatever a hostile statement or file name holds. Both layouts escape all of
/// them, and none is markup.

/// The names of those who sign, as a story calls them: the one that --trust gives their key, else what they
/// do.
class Cast {
 public:
  explicit Cast(std::map<Digest, std::string> names = {}) : named_(std::move(names)) {}

  /// Gives a key the name "the ROLE" or, if another key has that, "the ROLE 0123456789ab". Its first role
  /// counts.
  void add(const Digest& key_id, std::string_view role);
  /// The name of a key; "the key 0123456789ab" if it has none.
  [[nodiscard]] std::string of(const Digest& key_id) const;
  /// "NAME's".
  [[nodiscard]] std::string possessive(const Digest& key_id) const { return of(key_id) + "'s"; }

 private:
  std::map<Digest, std::string> named_;  ///< by --trust
  std::map<Digest, std::string> roles_;
};

/// `text` as the beginning of a sentence: "The solver signed". A name keeps its letters.
[[nodiscard]] std::string sentence_case(std::string text);

/// A property and its value: "samples", "60,000".
struct Fact {
  std::string name;
  std::string value;
};

/// A signer of statements.
struct Party {
  std::string name;
  std::string did;     ///< "trained the model and proved it"
  std::string key_id;  ///< hex
};

/// One level of the way from the task down to a scalar operation: `picked`, one of `among` things.
struct Level {
  std::int64_t among = 1;  ///< at least 1
  std::string of;          ///< "24 segments"
  std::string picked;      ///< "segment 6, steps 1,200 to 1,399"
  std::string agreed;      ///< what both sides accept here, and why
};

/// An operand or a result of the operation.
struct ToldNumber {
  std::string letter;   ///< its letter in the formula: "a"; empty for a result
  std::string role;     ///< "momentum of the weight of layer 0, number 100,000"
  std::string decimal;  ///< "-0.085662723"
  std::string bits;     ///< "0xbdaf6ff0"
};

/// The scalar operation on which two parties differ.
struct ToldOperation {
  std::string what;  ///< the number that it computes: "the new weight of layer 0, number 100,000 [127, 432]"
  std::string formula;
  std::vector<ToldNumber> operands;
  ToldNumber right;    ///< the result, as anybody can recompute it
  ToldNumber claimed;  ///< the result that the defender signed
  std::string off;     ///< "7.26 % off"; empty if there is no such number
  std::string why;     ///< why both sides are bound to the operands
};

/// One move of a dispute.
struct ToldMove {
  std::int64_t turn = 0;
  std::string time;  ///< empty: nobody says when
  std::string who;
  std::string words;
  std::int64_t bytes = 0;  ///< size of its line in a transcript
};

/// A dispute.
struct DisputeStory {
  enum class Ending { kOpen, kFalls, kStands };

  std::string heading;              ///< "vera disputes mallory's proof"
  std::vector<std::string> claims;  ///< sentences: who claims what, who disagrees
  std::vector<Level> funnel;        ///< as deep as the game went
  std::optional<ToldOperation> operation;
  std::vector<ToldMove> moves;
  Ending ending = Ending::kOpen;
  std::vector<std::string> end;  ///< sentences: how it ended, or what is awaited
  std::vector<Fact> ids;         ///< whole digests, for those who look things up
};

/// One curve: values by step, thinned to at most kMaxPoints means of neighbours, at least one of them finite.
struct Curve {
  static constexpr std::size_t kMaxPoints = 400;
  std::string name;
  std::vector<double> values;  ///< a NaN is a gap, where a loss is not finite
  std::int64_t first_step = 0;
  std::int64_t end_step = 0;
  std::int64_t steps_each = 1;  ///< steps that a value is the mean of; the last value may have fewer
  std::string words;  ///< the curve for those who cannot see it: "from 2.30 at step 0 to 0.09 at step 4,686"
};

/// Neighbouring segments of which the same is known.
struct Stretch {
  enum class Mark { kNotReplayed, kDrawn, kAgrees, kDisagrees, kFell, kCleared };
  Mark mark = Mark::kNotReplayed;
  std::int64_t first = 0;
  std::int64_t end = 0;  ///< half open
};
/// "replayed, agrees", ….
[[nodiscard]] std::string_view words_of(Stretch::Mark mark);
/// "segment 4", "segments 5 to 6".
[[nodiscard]] std::string words_of_range(const Stretch& stretch);

/// A deed and its time.
struct Event {
  std::string time;  ///< empty: nobody says when
  std::string who;
  std::string words;
};

/// Money of one account in a task, in base units.
struct Account {
  std::string name;
  std::int64_t locked = 0;  ///< put in, and not given back as it was
  std::int64_t paid = 0;    ///< given by the settlement
};

/// A command by which somebody else can check what a story says.
struct Check {
  std::string what;
  std::string command;
};

/// The life of a task.
struct Story {
  std::string title;
  std::vector<std::string> summary;      ///< sentences: who, what, by how much, when, who paid
  std::vector<std::string> explanation;  ///< sentences: the words that the story uses
  std::vector<Party> parties;
  std::vector<Fact> bought;
  std::vector<Curve> curves;
  std::int64_t segments = 0;       ///< of the proof or, without one, of the task
  std::vector<Stretch> stretches;  ///< cover all segments
  std::vector<DisputeStory> disputes;
  std::vector<Account> accounts;
  std::vector<Event> events;
  std::vector<Check> checks;
  std::vector<Fact> ids;
  std::vector<std::string> left_out;  ///< sentences: what is unknown, or too much for a page
};

/// Lays a story out as text: lines of at most about 110 columns, each ending in a newline. Control characters
/// come as \xNN.
[[nodiscard]] std::string print_text(const Story& story);
[[nodiscard]] std::string print_text(const DisputeStory& story);

/// Lays a story out as one HTML page, UTF-8: it loads nothing and runs nothing.
[[nodiscard]] std::string print_page(const Story& story);

}  // namespace dgx::jobs
