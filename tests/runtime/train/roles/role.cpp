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

WrittenRoles read(const std::string& text) {
  Catalog catalog;
  for (const char* name : {"Evaluate", "Feed"}) {
    catalog.add<SharedRole, NoRoleOptions>(
        name, {name == std::string("Feed") ? "feed" : "evaluate"},
        [](const NoRoleOptions&) { return std::make_shared<const Idle>(); });
  }
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
  CHECK_THROWS_WITH(read("{train: 0}"), Catch::Contains("\"train\" has 0 ranks"));
  CHECK_THROWS_WITH(read("{train: -1, feed: -1}"),
                    Catch::Contains("one role only can have all remaining ranks (-1)"));
  CHECK_THROWS_WITH(read("{train: 1, feed: 1, Feed: 1}"),
                    Catch::Contains("\"feed\" and \"Feed\" are one role; name it once"));
  CHECK_THROWS_WITH(read("{train: -2}"), Catch::Contains("-2"));
}

}  // namespace meshwork::role_test
