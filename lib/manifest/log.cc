#include "dgx/manifest/log.h"

#include "dgx/manifest/fields.h"

namespace dgx::manifest {

json::Object head_json(const RootReference& head) {
  return {{"count", head.count}, {"root", head.root.hex()}};
}

RootReference read_head(json::Fields& in) {
  RootReference out;
  out.count = in.integer("count", 1, kMaxInteger);
  out.root = read_digest(in, "root");
  return out;
}

json::Object Receipt::predicate() const {
  return {{"ledger", ledger.hex()},
          {"statement", statement.hex()},
          {"index", index},
          {"milliseconds", milliseconds},
          {"head", head_json(head)}};
}

Receipt Receipt::read(json::Fields& in) {
  Receipt out;
  out.ledger = read_digest(in, "ledger");
  out.statement = read_digest(in, "statement");
  out.index = in.integer("index", 0, kMaxInteger - 1);
  out.milliseconds = in.integer("milliseconds", 0, kMaxInteger);
  out.head = read_object(in, "head", read_head);
  if (out.head.count != out.index + 1) in.fail("head", "count: is not one more than the index");
  return out;
}

std::vector<Subject> Receipt::subjects() const { return {{"statement", statement}, {"head", head.root}}; }

json::Object TreeHead::predicate() const {
  return {
      {"ledger", ledger.hex()}, {"head", head_json(head)}, {"milliseconds", milliseconds}, {"pause", pause}};
}

TreeHead TreeHead::read(json::Fields& in) {
  TreeHead out;
  out.ledger = read_digest(in, "ledger");
  out.head = read_object(in, "head", read_head);
  out.milliseconds = in.integer("milliseconds", 0, kMaxInteger);
  out.pause = in.boolean("pause");
  return out;
}

std::vector<Subject> TreeHead::subjects() const { return {{"head", head.root}}; }

}  // namespace dgx::manifest
