// A library for an older Meshwork.
extern "C" const char* meshwork_extension_of() {
  return "0.0.9";
}
extern "C" void meshwork_register() {}
