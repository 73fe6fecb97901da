// A library that has nothing for Meshwork.
extern "C" int something_else() {
  return 1;
}
