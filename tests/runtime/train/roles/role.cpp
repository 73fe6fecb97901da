// The section `roles`.
#include "runtime/train/roles/role.h"

#include "runtime/config/load.h"
#include "tests/support/catch.h"

namespace meshwork::role_test {

namespace {

class Idle final : public Role {
 public:
  void run(RoleRun& run) const override { run.end.wait(); }
};

struct QuickOptions {
  std::int64_t speed = 3;
};
template <class Visitor>
void describe(QuickOptions& options, Visitor& option) {
  option("speed", options.speed, positive, "how fast");
}
struct OwnOptions {
  std::int64_t ranks = 7;
};
template <class Visitor>
void describe(OwnOptions& options, Visitor& option) {
  option("ranks", options.ranks, "what it means by that");
}
class Quick final : public Role {
 public:
  explicit Quick(const QuickOptions& made) : options(made) {}
  void run(RoleRun& run) const override { run.end.wait(); }
  const QuickOptions options;
};

WrittenRoles read(const std::string& text) {
  Catalog catalog;
  for (const char* name : {"Evaluate", "Feed"}) {
    catalog.add<SharedRole, NoRoleOptions>(
        name, {name == std::string("Feed") ? "feed" : "evaluate"},
        [](const NoRoleOptions&) { return std::make_shared<const Idle>(); });
  }
  catalog.add<SharedRole, QuickOptions>("Quick", {"quick"}, [](const QuickOptions& options) {
    return std::make_shared<const Quick>(options);
  });
  WrittenRoles roles;
  from_config(parse_config(text, "run.yaml"), roles, catalog);
  return roles;
}

std::string split(const std::string& text, std::int64_t ranks) {
  std::string shown;
  for (const RoleRanks& role : read(text).on(ranks)) {
    shown +=
        fmt::format("{}{} {}+{}", shown.empty() ? "" : ", ", role.name, role.first, role.count);
    CHECK((role.role == nullptr) == (role.name == "train"));
  }
  return shown;
}

}  // namespace

TEST_CASE("a map of roles tells ranks by the name or the class of a role") {
  const RoleMap map = map_of(read("{train: 2, feed: 2, Evaluate: -1}").on(5));
  CHECK(map.size() == 5);
  CHECK(map.ranks_of("train") == std::vector{0, 1});
  CHECK(map.ranks_of("feed") == std::vector{2, 3});
  CHECK(map.ranks_of("Feed") == std::vector{2, 3});
  CHECK(map.ranks_of("Evaluate") == std::vector{4});
  CHECK(map.role_of(1) == "train");
  CHECK(map.role_of(3) == "feed");
  CHECK_FALSE(map.has("board"));
  CHECK_THROWS_WITH(map.ranks_of("fed"), Catch::Contains("no rank has the role \"fed\"; there are "
                                                         "\"train\", \"feed\", \"Evaluate\"") &&
                                             Catch::Contains("did you mean \"feed\""));
  CHECK_THROWS_WITH(map.role_of(5), "there is no rank 5: the job has 5");
}

TEST_CASE("ranks are split in the order in which roles are written") {
  CHECK(split("{train: 6, evaluate: 1, feed: 1}", 8) == "train 0+6, evaluate 6+1, feed 7+1");
  CHECK(split("{feed: 2, train: -1}", 3) == "feed 0+2, train 2+1");
  CHECK(split("{train: 4}", 4) == "train 0+4");
  CHECK(to_text(read("{train: -1, evaluate: 2}")) == "{train: -1, evaluate: 2}");
}

TEST_CASE("a role has its ranks alone, or with its options") {
  const auto speed = [](const std::string& text) {
    return dynamic_cast<const Quick&>(*read(text).entries.at(1).role).options.speed;
  };
  CHECK(speed("{train: 2, quick: 1}") == 3);
  CHECK(speed("{train: 2, quick: {ranks: 1}}") == 3);
  CHECK(speed("{train: {ranks: 2}, Quick: {speed: 5, ranks: -1}}") == 5);
  CHECK(split("{train: {ranks: 2}, quick: {ranks: -1, speed: 5}}", 4) == "train 0+2, quick 2+2");
  CHECK_THROWS_WITH(
      read("{train: 1, quick: {ranks: 1, sped: 5}}"),
      Catch::Contains("unknown key \"sped\"") && Catch::Contains("did you mean \"speed\""));
  CHECK_THROWS_WITH(read("{train: 1, quick: {ranks: 1, speed: -5}}"),
                    Catch::Contains("roles.quick.speed") || Catch::Contains("quick.speed"));
  CHECK_THROWS_WITH(read("{train: 1, quick: {speed: 5}}"),
                    Catch::Contains("key \"ranks\" is missing; expected a positive integer, or -1 "
                                    "for all remaining ranks"));
  CHECK_THROWS_WITH(read("{train: {ranks: 1, speed: 5}}"), Catch::Contains("\"speed\""));
}

TEST_CASE("how many ranks have a role is a key of each, in the reference too, and no option") {
  Catalog catalog;
  CHECK_THROWS_WITH(
      (catalog.add<SharedRole, OwnOptions>(
          "Own", {}, [](const OwnOptions&) { return std::make_shared<const Idle>(); })),
      Catch::Contains("the role class \"Own\" has an option \"ranks\", and \"ranks\" "
                      "is a key of every role"));
  catalog.add<SharedRole, QuickOptions>("Quick", {"quick"}, [](const QuickOptions& options) {
    return std::make_shared<const Quick>(options);
  });
  const Explained explained = catalog.described().at("role").at("Quick").explain();
  REQUIRE(explained.options.size() == 2);
  CHECK(explained.options.front().name == "ranks");
  CHECK(explained.options.back().name == "speed");
}

TEST_CASE("roles that do not fit the ranks are an error") {
  CHECK_THROWS_WITH(split("{train: 2, evaluate: 1}", 4),
                    "roles: {train: 2, evaluate: 1} are for 3 ranks, and the job has 4");
  CHECK_THROWS_WITH(split("{train: 2, evaluate: 1}", 2), Catch::Contains("3 ranks"));
  CHECK_THROWS_WITH(
      split("{train: -1, evaluate: 3}", 3),
      "roles: {train: -1, evaluate: 3} are for 3 ranks and at least one more, and the job has 3");
}

TEST_CASE("mistakes in roles are found at their place") {
  CHECK_THROWS_WITH(read("{train: 1, evaluat: 1}"),
                    Catch::Contains("run.yaml:1:12") &&
                        Catch::Contains("unknown role \"evaluat\"") &&
                        Catch::Contains("did you mean \"evaluate\""));
  CHECK_THROWS_WITH(read("{evaluate: 1}"),
                    Catch::Contains("there is no \"train\" among the roles"));
  for (const char* wrong : {"0", "-2", "ten", "1.5", "[1]"}) {
    CHECK_THROWS_WITH(
        read(fmt::format("{{train: {}}}", wrong)),
        Catch::Contains("expected a positive integer, or -1 for all remaining ranks, found "));
  }
  CHECK_THROWS_WITH(
      read("{train: 3000000000}"),
      Catch::Contains("\"train\" has 3000000000 ranks; a job has 2147483647 at most"));
  CHECK_THROWS_WITH(
      read("{train: -1, feed: -1}"),
      Catch::Contains("run.yaml:1:19") &&
          Catch::Contains("\"train\" has all remaining ranks (-1) already; one role only can"));
  CHECK_THROWS_WITH(read("{train: 1, feed: 1, Feed: 1}"),
                    Catch::Contains("\"feed\" and \"Feed\" are one role; name it once"));
}

}  // namespace meshwork::role_test
